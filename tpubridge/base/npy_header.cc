#include "tpubridge/base/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

struct NpyCode {
  std::string_view code;  // numpy's kind and size in bytes
  DType dtype;
};
constexpr std::array kNpyCodes = {
    NpyCode{"b1", DType::pred},
    NpyCode{"i1", DType::s8},
    NpyCode{"i2", DType::s16},
    NpyCode{"i4", DType::s32},
    NpyCode{"i8", DType::s64},
    NpyCode{"u1", DType::u8},
    NpyCode{"u2", DType::u16},
    NpyCode{"u4", DType::u32},
    NpyCode{"u8", DType::u64},
    NpyCode{"f2", DType::f16},
    NpyCode{"f4", DType::f32},
    NpyCode{"f8", DType::f64},
    NpyCode{"c8", DType::c64},
    NpyCode{"c16", DType::c128},
    // What ml_dtypes registers with numpy is written under these names.
    NpyCode{"V2", DType::bf16},
    NpyCode{"f1", DType::f8e5m2},
};

struct Wrong {
  std::string problem;
};

// Reads the few literals of Python that a header has.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) wrong(fmt::format("'{}' is missing", c));
  }
  std::string text() {
    if (take('[')) wrong("a type made of several fields, where a plain one is needed, stands");
    const char mark = take('\'') ? '\'' : take('"') ? '"' : '\0';
    if (mark == '\0') wrong("a text is missing");
    const auto end = text_.find(mark, at_);
    if (end == text_.npos) wrong("a text does not end");
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, {"False", false}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::string_view(word).size();
        return value;
      }
    wrong("True or False is missing");
  }
  int64_t integer() {
    skip_space();
    int64_t out = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), out);
    if (error != std::errc() || out < 0) wrong("a whole number is missing, negative or too large");
    at_ = static_cast<size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
    return out;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> out;
    need('(');
    while (!take(')')) {
      out.push_back(integer());
      if (take(',')) continue;
      if (out.size() == 1) wrong("',' is missing");  // (3) is a number, (3,) a tuple
      need(')');
      break;
    }
    return out;
  }
  void end() {
    skip_space();
    if (at_ != text_.size()) wrong("more follows");
  }
  [[noreturn]] void wrong(const std::string& problem) const {
    throw Wrong{fmt::format("{} at position {}", problem, at_)};
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

NpyHeader parse(Literals in) {
  NpyHeader out;
  std::vector<std::string> seen;
  in.need('{');
  while (!in.take('}')) {
    const std::string key = in.text();
    if (std::ranges::find(seen, key) != seen.end())
      in.wrong(fmt::format("the key {} stands twice", quote(key)));
    seen.push_back(key);
    in.need(':');
    if (key == "descr")
      out.descr = in.text();
    else if (key == "fortran_order")
      out.fortran_order = in.boolean();
    else if (key == "shape")
      out.dims = in.tuple();
    else
      in.wrong(fmt::format("the key {} is not known", quote(key)));
    if (in.take(',')) continue;
    in.need('}');
    break;
  }
  in.end();
  if (seen.size() != 3) in.wrong("one of the keys descr, fortran_order and shape is missing");
  return out;
}

}  // namespace

std::optional<NpyHeader> parse_npy_header(std::string_view text, std::string& problem) {
  try {
    return parse(Literals(text));
  } catch (const Wrong& e) {
    problem = e.problem;
    return std::nullopt;
  }
}

std::optional<NpyType> npy_type(std::string_view descr) {
  if (descr.empty() || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) return std::nullopt;
  const auto* row = std::ranges::find(kNpyCodes, descr.substr(1), &NpyCode::code);
  if (row == kNpyCodes.end()) return std::nullopt;
  if (descr[0] == '|' && bits(row->dtype) > 8 && row->dtype != DType::bf16) return std::nullopt;
  return NpyType{row->dtype, descr[0] == '>'};
}

std::optional<std::string> npy_descr(DType t) {
  const auto* row = std::ranges::find(kNpyCodes, t, &NpyCode::dtype);
  // numpy refuses to read the f1 that it lets ml_dtypes write.
  if (row == kNpyCodes.end() || t == DType::f8e5m2) return std::nullopt;
  return std::string(bits(t) == 8 ? "|" : "<").append(row->code);
}

}  // namespace tpubridge
