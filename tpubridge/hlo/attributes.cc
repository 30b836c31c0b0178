#include "tpubridge/hlo/attributes.h"

#include <fmt/format.h>

#include <bit>

#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

struct AttributeWriter {
  std::string& out;
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(int64_t v) const {
    append_int(out, v);
    out += " : i64";
  }
  void operator()(float v) const { out += fmt::format("0x{:08X} : f32", std::bit_cast<uint32_t>(v)); }
  void operator()(double v) const { out += fmt::format("0x{:016X} : f64", std::bit_cast<uint64_t>(v)); }
  void operator()(const std::string& v) const { append_quoted(out, v); }
  void operator()(const std::vector<int64_t>& v) const {
    append_list(out.append(v.empty() ? "array<i64" : "array<i64: "), v);
    out += '>';
  }
  void operator()(const MlirText& v) const { out += v.text; }
};

}  // namespace

std::string attributes_text(const Attributes& attributes) {
  std::string out = "{";
  for (size_t i = 0; i < attributes.size(); ++i) {
    const auto& [key, value] = attributes[i];
    if (i) out += ", ";
    if (is_symbol(key)) {
      out += key;
    } else {
      append_quoted(out, key);
    }
    std::visit(AttributeWriter{out += " = "}, value);
  }
  return out += '}';
}

}  // namespace tpubridge::hlo
