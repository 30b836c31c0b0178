#include "tpubridge/kernels/custom_op.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <mutex>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/ops.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::kernels {
namespace {

using c10::DispatchKey;

std::string full_name(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

std::string namespace_of(const std::string& name) { return name.substr(0, name.find("::")); }

c10::OperatorName parse_name(const std::string& text) {
  const auto colons = text.find("::");
  if (colons == 0 || colons == text.npos || colons + 2 >= text.size())
    throw ArgumentError("'" + text + "' is no name of an op", {}, "Ops have a namespace: \"my::op\".");
  if (text.starts_with("aten::") || text.starts_with("tpubridge::"))
    throw ArgumentError(text + " is no op of your own", {{"op", text}}, "Give it a namespace of your own.");
  const auto dot = text.find('.', colons);
  return {text.substr(0, dot), dot == text.npos ? "" : text.substr(dot + 1)};
}

std::string words_of(const std::exception& e) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&e);
  return torchs ? torchs->what_without_backtrace() : e.what();
}

// An op that is there already must be the one that is meant.
void check_same_schema(const std::string& text, const c10::OperatorHandle& known) {
  const std::string there = c10::toString(known.schema());
  try {
    if (c10::toString(torch::jit::parseSchema(text)) == there) return;
  } catch (const std::exception& e) {  // of which class hangs on libtorch's version
    throw ArgumentError("'" + text + "' is no schema: " + words_of(e));
  }
  throw ArgumentError("the op is there with another schema", {{"given", text}, {"there", there}},
                      "Give its name alone, or another one.");
}

// Stands for an op whose implementation is not made yet.
struct Anything final : lower::Custom {
  void check(const lower::Call&) const override {}
  [[nodiscard]] std::vector<Shape> shapes(const lower::Call&) const override { return {}; }
  void lower(lower::Context&) const override {}
};

}  // namespace

void keep(torch::Library library) {
  static auto* all = new std::vector<torch::Library>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(library));
}

CustomOp::CustomOp(const c10::OperatorHandle& op, unsigned flags)
    : name_(full_name(op)), results_(op.schema().returns().size()) {
  for (const auto& a : op.schema().arguments()) arguments_.push_back(a.name());
  row_.name = name_;
  row_.flags = flags;
  row_.custom = this;
}

void CustomOp::check_results(const std::vector<Shape>& got, const char* what) const {
  if (got.size() != results_)
    throw ProgramError(std::string(what) + " of " + name_ + " gives " + std::to_string(got.size()) +
                           " results, its schema says " + std::to_string(results_),
                       {{"op", name_}});
}

c10::OperatorHandle find_or_define(const std::string& text) {
  const auto bracket = text.find('(');
  const c10::OperatorName name = parse_name(text.substr(0, bracket));
  auto& dispatcher = c10::Dispatcher::singleton();
  if (auto known = dispatcher.findSchema(name)) {
    if (bracket != text.npos) check_same_schema(text, *known);
    return *known;
  }
  if (bracket == text.npos)
    throw ArgumentError(
        "there is no op " + text, {{"op", text}},
        "Define it with TORCH_LIBRARY, or give its schema: \"" + text + "(Tensor x) -> Tensor\".");
  try {
    torch::Library library(torch::Library::FRAGMENT, namespace_of(text), std::nullopt, __FILE__, __LINE__);
    library.def(text.c_str());
    keep(std::move(library));
  } catch (const std::exception& e) {  // of which class hangs on libtorch's version
    throw ArgumentError("'" + text + "' is no schema: " + words_of(e));
  }
  return dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
}

void check_new(const c10::OperatorHandle& op, const Gradient& gradient) {
  const std::string name = full_name(op);
  if (op.hasKernelForDispatchKey(DispatchKey::PrivateUse1))
    throw ArgumentError(name + " has an implementation on the device already", {{"op", name}},
                        "Programs that use it may be there: give the new one another name.");
  static const Anything anything;
  lower::Row probe;
  probe.custom = &anything;
  const device::OpInfo info = device::describe(op, &probe);
  if (!info.traceable || op.schema().returns().empty())
    throw UnsupportedError(
        name + " has arguments or results that cannot be traced", {{"schema", c10::toString(op.schema())}},
        "Results must be tensors; arguments tensors, lists of them, numbers, flags and texts.");
  const bool has = op.hasKernelForDispatchKey(DispatchKey::Autograd) ||
                   op.hasKernelForDispatchKey(DispatchKey::AutogradPrivateUse1);
  if (gradient && has)
    throw ArgumentError(name + " has a gradient already, from TORCH_LIBRARY_IMPL(…, Autograd, …)",
                        {{"op", name}}, "Leave out one of them.");
  if (gradient && !info.written.empty())
    throw UnsupportedError(name + " writes to an argument: such an op can have no gradient", {{"op", name}});
}

UserOp install(const c10::OperatorHandle& op, std::unique_ptr<CustomOp> custom, Gradient gradient) {
  const CustomOp* row = custom.release();
  torch::Library library(torch::Library::IMPL, namespace_of(row->name()), DispatchKey::PrivateUse1, __FILE__,
                         __LINE__);
  library.impl(row->name().c_str(),
               torch::CppFunction::makeFromBoxedFunctor(
                   std::make_unique<device::TracedOp>(device::describe(op, &row->row()))));
  keep(std::move(library));
  install_gradient(op, std::move(gradient));
  return UserOp(row->name());
}

std::string platform() { return exec::client().platform_name(); }

}  // namespace tpubridge::kernels

namespace tpubridge {

std::vector<at::Tensor> UserOp::call(std::vector<c10::IValue> arguments) const {
  const auto dot = name_.find('.', name_.find("::"));
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      name_.substr(0, dot).c_str(), dot == name_.npos ? "" : name_.substr(dot + 1).c_str());
  const auto& schema = op.schema().arguments();
  if (arguments.size() > schema.size())
    throw ArgumentError(name_ + " takes " + std::to_string(schema.size()) + " arguments, not " +
                            std::to_string(arguments.size()),
                        {{"op", name_}});
  for (size_t i = arguments.size(); i < schema.size(); ++i) {
    if (!schema[i].default_value())
      throw ArgumentError(name_ + " needs an argument '" + schema[i].name() + "'", {{"op", name_}});
    arguments.push_back(*schema[i].default_value());
  }
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!arguments[i].isNone() && !arguments[i].type()->isSubtypeOf(*schema[i].type()) &&
        !(arguments[i].isInt() && schema[i].type()->kind() == c10::TypeKind::FloatType))
      throw ArgumentError(name_ + ": argument '" + schema[i].name() + "' is a " + schema[i].type()->str() +
                              ", not a " + arguments[i].type()->str(),
                          {{"op", name_}});
  op.callBoxed(arguments);
  std::vector<at::Tensor> out;
  for (const auto& v : arguments) out.push_back(v.toTensor());
  return out;
}

}  // namespace tpubridge
