// Ops with a lowering of hlo's ops.
#include "tpubridge/base/errors.h"
#include "tpubridge/kernels/custom_op.h"

namespace tpubridge {
namespace kernels {
namespace {

std::vector<Shape> shapes_of(const hlo::Values& values) {
  std::vector<Shape> out;
  for (const auto& v : values) out.push_back(v.shape());
  return out;
}

class LoweringOp final : public CustomOp {
 public:
  LoweringOp(const c10::OperatorHandle& op, Lowering lowering)
      : CustomOp(op, lower::plain), lowering_(std::move(lowering)) {}

  // What the lowering gives, of a program that is thrown away.
  [[nodiscard]] std::vector<Shape> shapes(const lower::Call& call) const override {
    hlo::Builder b;
    hlo::Values operands;
    for (size_t i = 0; i < arguments().size(); ++i) {
      if (call.is_tensor(i)) operands.push_back(b.parameter(call.shape(i)));
      if (!call.is_list(i)) continue;
      for (const Shape* s : call.shapes(i))
        if (s) operands.push_back(b.parameter(*s));
    }
    return shapes_of(run(call, b, operands));
  }

  void lower(lower::Context& c) const override {
    hlo::Values operands;
    for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand(i));
    const hlo::Values values = run(c, c.b, operands);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].shape() != c.out(i))
        throw ProgramError("the lowering of " + name() + " gives " + values[i].shape().str() + " as result " +
                               std::to_string(i) + ", its Meta kernel said " + c.out(i).str(),
                           {{"op", name()}}, "One of the two is wrong.");
      c.result(values[i], i);
    }
  }

 private:
  hlo::Values run(const lower::Call& call, hlo::Builder& b, const hlo::Values& operands) const {
    auto values =
        told("the lowering", [&] { return lowering_(LoweringCall(call, arguments(), b, operands)).values; });
    for (const auto& v : values)
      if (!v || &v.builder() != &b)
        throw ProgramError(
            "the lowering of " + name() + " gives a value that is empty, or of another program",
            {{"op", name()}});
    check_results(shapes_of(values), "the lowering");
    return values;
  }
  Lowering lowering_;
};

}  // namespace
}  // namespace kernels

UserOp register_lowering(const std::string& op, Lowering lowering, Gradient gradient) {
  if (!lowering) throw ArgumentError("the lowering of " + op + " is empty");
  const auto handle = kernels::find_or_define(op);
  kernels::check_new(handle, gradient);
  return kernels::install(handle, std::make_unique<kernels::LoweringOp>(handle, std::move(lowering)),
                          std::move(gradient));
}

}  // namespace tpubridge
