#include "tpubridge/hlo/custom_call.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

constexpr std::string_view kCustomCall = "stablehlo.custom_call";

std::string layouts_text(std::string_view what, const std::vector<std::vector<int64_t>>& layouts,
                         const std::vector<const Type*>& types) {
  check_count(kCustomCall, what, layouts.size(), types.size());
  std::string out = "[";
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& layout = layouts[i];
    check_count(kCustomCall, fmt::format("entry {} of {}", i, what), layout.size(),
                types[i]->shape.dims.size());
    check_dims(kCustomCall, what, layout, types[i]->shape.rank());
    append_list(out.append(i ? ", " : "").append(layout.empty() ? "dense<" : "dense<["), layout);
    append_int(out.append(layout.empty() ? "> : tensor<" : "]> : tensor<"),
               static_cast<int64_t>(layout.size()));
    out += "xindex>";
  }
  return out += ']';
}

std::string aliases_text(const CustomCall& o, List<Value> operands, const std::vector<const Type*>& results) {
  std::string out = "[";
  for (size_t i = 0; i < o.aliases.size(); ++i) {
    const auto [result, operand] = o.aliases[i];
    if (result < 0 || result >= static_cast<int64_t>(results.size()) || operand < 0 ||
        operand >= static_cast<int64_t>(operands.size()))
      fail(kCustomCall, fmt::format("there is no result {} or no operand {} to alias", result, operand));
    const Type* r = results[static_cast<size_t>(result)];
    const Value& v = operands[static_cast<size_t>(operand)];
    if (r != v.type())
      fail(kCustomCall, fmt::format("result {} cannot share memory with operand {}", result, operand),
           {{"result", r->shape.str()}, {"operand", v.shape().str()}});
    out += fmt::format(
        "{}#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
        "operand_tuple_indices = []>",
        i ? ", " : "", results.size() > 1 ? std::to_string(result) : "", operand);
  }
  return out += ']';
}

std::string functions_text(const Builder& b, const std::vector<std::string>& names) {
  std::string out = "[";
  for (size_t i = 0; i < names.size(); ++i) {
    if (!b.find_function(names[i])) fail(kCustomCall, fmt::format("there is no function '{}'", names[i]));
    out.append(i ? ", @" : "@").append(names[i]);
  }
  return out += ']';
}

void check_config(const CustomCall& o) {
  if (o.target.empty()) fail(kCustomCall, "needs the name of a target");
  const auto api = static_cast<int>(o.api);
  if (api < 1 || api > 4) fail(kCustomCall, fmt::format("there is no API version {}", api));
  if (o.api == CustomCall::Api::typed_ffi ? !o.backend_config.empty() : !o.attributes.empty())
    fail(kCustomCall, "typed_ffi takes attributes, every other API a backend_config");
  for (const auto& [key, value] : o.frontend_attributes)
    if (!std::holds_alternative<std::string>(value))
      fail(kCustomCall, fmt::format("frontend attribute '{}' is no string", key));
  if (o.operand_layouts.empty() != o.result_layouts.empty() && !o.operand_layouts.empty())
    fail(kCustomCall, "operand layouts need result layouts beside them");
  if (!o.called.empty() && !o.result_layouts.empty())
    fail(kCustomCall, "takes functions or layouts, not both");
}

}  // namespace

Values custom_call(Builder& b, List<Value> operands, List<Shape> results, const CustomCall& o) {
  check_config(o);
  std::vector<const Type*> types, operand_types;
  for (const Shape& s : results) types.push_back(b.type(s));
  for (const Value& v : operands) operand_types.push_back(v.type());
  const bool layouts = !o.operand_layouts.empty() || !o.result_layouts.empty();
  const std::string operand_layouts =
                        layouts ? layouts_text("operand_layouts", o.operand_layouts, operand_types) : "",
                    result_layouts = layouts ? layouts_text("result_layouts", o.result_layouts, types) : "",
                    aliases = aliases_text(o, operands, types), called = functions_text(b, o.called);
  Op writer(kCustomCall, b, operands);
  writer.string("call_target_name", o.target)
      .flag("has_side_effect", o.has_side_effect)
      .number("api_version", static_cast<int64_t>(o.api), "i32");
  if (o.api == CustomCall::Api::typed_ffi) {
    writer.attr("backend_config", attributes_text(o.attributes));
  } else {
    writer.string("backend_config", o.backend_config);
  }
  if (layouts) writer.attr("operand_layouts", operand_layouts).attr("result_layouts", result_layouts);
  if (!o.aliases.empty()) writer.attr("output_operand_aliases", aliases);
  if (!o.called.empty()) writer.attr("called_computations", called);
  if (!o.mhlo_sharding.empty()) writer.extra("mhlo.sharding", hlo::quoted(o.mhlo_sharding));
  if (!o.frontend_attributes.empty())
    writer.extra("mhlo.frontend_attributes", attributes_text(o.frontend_attributes));
  return writer.results(types);
}

}  // namespace tpubridge::hlo
