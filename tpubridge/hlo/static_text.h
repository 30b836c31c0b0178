// Inside of hlo/: ops of fixed sizes in a program of bounded dimensions, for what XLA's own rules for such
// dimensions do not do. A value's ends are taken away, then it is an array as any other, of which the
// beginning of each dimension counts; numbers of the program say how much of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/hlo/bounded_text.h"

namespace tpubridge::hlo {

// A value without ends.
struct Fixed {
  std::string name;
  std::string element;  // f32
  std::vector<int64_t> dims;
  [[nodiscard]] std::string type() const;
  [[nodiscard]] int64_t elements() const;
};

[[nodiscard]] std::string op_text(std::string_view result, std::string_view name, std::string_view operands,
                                  std::string_view attributes, std::string_view types, std::string_view to);
[[nodiscard]] std::string list_text(std::string_view key, const std::vector<int64_t>& items);

class StaticText {
 public:
  StaticText(std::string& out, const std::vector<int64_t>& bounds) : out_(out), bounds_(bounds) {}

  [[nodiscard]] int64_t bound(const SizedDim& d) const {
    return d.size < 0 ? d.value : bounds_[static_cast<size_t>(d.size)];
  }
  [[nodiscard]] std::vector<int64_t> bounds_of(const SizedType& t) const;

  [[nodiscard]] Fixed without_ends(const std::string& name, const SizedType& type);
  [[nodiscard]] Fixed op(std::string_view name, const std::vector<Fixed>& operands,
                         std::string_view attributes, std::string_view element, std::vector<int64_t> dims);
  // Several results of the operands' types.
  [[nodiscard]] std::vector<Fixed> same_as_operands(std::string_view name, const std::vector<Fixed>& operands,
                                                    std::string_view attributes);
  [[nodiscard]] Fixed number(int64_t n, std::string_view element);
  // How large a dimension is when the program runs.
  [[nodiscard]] Fixed size(const SizedDim& d, std::string_view element = "i32");
  [[nodiscard]] Fixed both(std::string_view op, const Fixed& a, const Fixed& b);  // elementwise
  [[nodiscard]] Fixed less(const Fixed& a, const Fixed& b);                       // whole numbers
  [[nodiscard]] Fixed repeated(const Fixed& scalar, std::vector<int64_t> dims);
  [[nodiscard]] Fixed counted(std::vector<int64_t> dims, size_t along);
  [[nodiscard]] Fixed reshaped(const Fixed& v, std::vector<int64_t> dims);
  [[nodiscard]] Fixed part(const Fixed& v, size_t dim, int64_t from, int64_t to);
  [[nodiscard]] Fixed padded(const Fixed& v, const Fixed& with, size_t dim, int64_t low, int64_t high);
  [[nodiscard]] Fixed chosen(const Fixed& where, const Fixed& a, const Fixed& b);
  // `v` where each of its dimensions has not ended, elsewhere `scalar`.
  [[nodiscard]] Fixed inside(const Fixed& v, const std::vector<SizedDim>& dims, const Fixed& scalar);

 private:
  std::string fresh() { return "%t" + std::to_string(next_++); }
  std::string& out_;
  const std::vector<int64_t>& bounds_;
  int next_ = 0;
};

// The results of an op, without their ends; nothing where it is not known how.
[[nodiscard]] std::optional<std::vector<Fixed>> write_static(const SizedOp& op, StaticText& text);

// Each for ops of its kind.
[[nodiscard]] std::optional<Fixed> static_reshape(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_slice(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_dynamic_slice(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_update(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_pad(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_gather(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_scatter(const SizedOp& op, StaticText& text);
[[nodiscard]] std::optional<Fixed> static_convolution(const SizedOp& op, StaticText& text);

}  // namespace tpubridge::hlo
