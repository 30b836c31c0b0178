// What a user's lowering and shape function see of a call of their op: arguments by the names of its schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge {

namespace lower {
class Call;
}

// Names that the op does not have, and arguments of another kind, throw ArgumentError.
class OpCall {
 public:
  OpCall(const lower::Call& call, const std::vector<std::string>& names) : call_(call), names_(names) {}

  [[nodiscard]] bool has(std::string_view argument) const;  // false for None
  [[nodiscard]] const Shape& shape(std::string_view argument) const;
  [[nodiscard]] std::vector<Shape> shapes(std::string_view argument) const;  // of a list of tensors
  [[nodiscard]] int64_t integer(std::string_view argument) const;
  [[nodiscard]] double number(std::string_view argument) const;  // a float; of a Scalar use value()
  [[nodiscard]] bool flag(std::string_view argument) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view argument) const;
  [[nodiscard]] std::string text(std::string_view argument) const;
  [[nodiscard]] std::optional<DType> dtype(std::string_view argument) const;

 protected:
  [[nodiscard]] size_t place(std::string_view argument) const;
  const lower::Call& call_;
  const std::vector<std::string>& names_;
};

class LoweringCall : public OpCall {
 public:
  LoweringCall(const lower::Call& call, const std::vector<std::string>& names, hlo::Builder& b,
               const hlo::Values& operands)
      : OpCall(call, names), b_(b), operands_(operands) {}

  [[nodiscard]] hlo::Builder& builder() const { return b_; }
  [[nodiscard]] hlo::Value tensor(std::string_view argument) const;
  [[nodiscard]] hlo::Values tensors(
      std::string_view argument) const;  // of a list, without those that are None
  // A Scalar of the call: an input of the program, so that another number is no other program.
  [[nodiscard]] hlo::Value value(std::string_view argument, DType dtype) const;

 private:
  [[nodiscard]] size_t first_operand(size_t place) const;
  hlo::Builder& b_;
  const hlo::Values& operands_;
};

// One value, or a list.
struct Lowered {
  Lowered(hlo::Value value) : values{value} {}          // NOLINT(google-explicit-constructor)
  Lowered(hlo::Values all) : values(std::move(all)) {}  // NOLINT(google-explicit-constructor)
  hlo::Values values;
};

}  // namespace tpubridge
