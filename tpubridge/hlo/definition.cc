#include "tpubridge/hlo/definition.h"

#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {

const Definition* definition_of(Value v) { return Op::definition(v); }

bool made_by(const Definition* d, std::string_view op) {
  static constexpr std::string_view dialect = "stablehlo.";
  return d && d->op.starts_with(dialect) && d->op.substr(dialect.size()) == op;
}

Value stands_for(Value v, Definition how) {
  Op::define_anew(v, std::move(how));
  return v;
}

bool is_zero(Value v) {
  const Definition* how = definition_of(v);
  if (made_by(how, "reshape") || made_by(how, "broadcast_in_dim")) return is_zero(how->operands[0]);
  return how && how->scalar && std::visit([](auto n) { return n == decltype(n)(0); }, how->scalar->variant());
}

}  // namespace tpubridge::hlo
