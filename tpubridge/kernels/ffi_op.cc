// Ops that are C++ functions: one custom call, whose attributes say which.
#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/host_call.h"
#include "tpubridge/kernels/custom_op.h"

namespace tpubridge {
namespace kernels {
namespace {

// Of what it is when it is there. Lists of numbers that are not whole cannot be handed over.
c10::TypeKind kind_of(const c10::Argument& a) {
  c10::TypePtr type = a.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>();
      list && list->getElementType()->kind() == c10::TypeKind::FloatType)
    throw UnsupportedError("argument '" + a.name() + "': a list of floats cannot be handed to a C++ function",
                           {}, "Make it a tensor.");
  return type->kind();
}

class FfiOp final : public CustomOp {
 public:
  FfiOp(const c10::OperatorHandle& op, Shapes shapes, bool may_fail)
      : CustomOp(op, lower::bake | (may_fail ? lower::may_fail : lower::plain)), shapes_(std::move(shapes)) {
    for (const auto& a : op.schema().arguments()) kinds_.push_back(kind_of(a));
  }

  void check(const lower::Call&) const override {
    if (const std::string p = platform(); p != "cpu" && p != "cuda")
      refuse("the plugin of the platform " + p);
  }

  [[nodiscard]] std::vector<Shape> shapes(const lower::Call& call) const override {
    auto out = told("the shape function", [&] {
      if (!shapes_)
        throw ArgumentError(name() + " has neither a shape function nor a Meta kernel", {{"op", name()}},
                            "Give register_ffi() a function that says the shapes of the results.");
      return shapes_(OpCall(call, arguments()));
    });
    check_results(out, "the shape function");
    return out;
  }

  void lower(lower::Context& c) const override {
    if (c.platform == lower::Platform::tpu) refuse("a TPU");
    if (c.b.partitions() > 1) refuse("a program that is split over several devices");
    hlo::Values operands;
    std::vector<Shape> results;
    for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand(i));
    for (size_t i = 0; i < this->results(); ++i) results.push_back(c.out(i));
    const hlo::Values values = hlo::host_call(c.b, name(), operands, results, constants(c));
    for (size_t i = 0; i < values.size(); ++i) c.result(values[i], i);
  }

 private:
  [[noreturn]] void refuse(const std::string& who) const {
    throw UnsupportedError(name() + " is a C++ function of this process, which " + who + " cannot call",
                           {{"op", name()}}, "Use the CPU or the CUDA plugin, or give the op a lowering.",
                           Code::unsupported);
  }

  // Everything that is no tensor, and the names of those that are.
  hlo::Attributes constants(const lower::Context& c) const {
    std::string inputs;
    hlo::Attributes out;
    const auto add_input = [&](const std::string& n) { inputs += (inputs.empty() ? "" : ",") + n; };
    for (size_t i = 0; i < arguments().size(); ++i) {
      const std::string& n = arguments()[i];
      if (c.is_tensor(i)) {
        add_input(n);
      } else if (c.is_list(i)) {
        const auto all = c.shapes(i);
        for (size_t k = 0; k < all.size(); ++k)
          if (all[k]) add_input(n + "." + std::to_string(k));
      } else if (c.has(i)) {
        add_constant(out, n, c, i);
      }
    }
    out.emplace_back(std::string(ffi::kInputsAttribute), inputs);
    return out;
  }

  void add_constant(hlo::Attributes& out, const std::string& n, const lower::Context& c, size_t i) const {
    using K = c10::TypeKind;
    switch (kinds_[i]) {
      case K::BoolType:
        return void(out.emplace_back(n, c.flag(i)));
      case K::FloatType:
      case K::NumberType:
        return void(out.emplace_back(n, c.number(i)));
      case K::IntType:
      case K::SymIntType:
        return void(out.emplace_back(n, c.integer(i)));
      case K::StringType:
        return void(out.emplace_back(n, c.text(i)));
      case K::ListType:
        return void(out.emplace_back(n, c.integers(i)));
      case K::ScalarTypeType:
        return void(out.emplace_back(n, std::string(tpubridge::name(c.dtype(i).value()))));
      default:
        return;  // layouts and devices say nothing to it
    }
  }

  Shapes shapes_;
  std::vector<c10::TypeKind> kinds_;
};

}  // namespace
}  // namespace kernels

UserOp detail::register_function(const std::string& op, ffi::Function function, Shapes shapes,
                                 FfiOptions options) {
  const auto handle = kernels::find_or_define(op);
  kernels::check_new(handle, options.gradient);
  auto custom = std::make_unique<kernels::FfiOp>(handle, std::move(shapes), options.may_fail);
  ffi::add(custom->name(), std::move(function));
  return kernels::install(handle, std::move(custom), std::move(options.gradient));
}

}  // namespace tpubridge
