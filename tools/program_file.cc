#include "tools/program_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

constexpr std::string_view kBytecodeMagic = "ML\xefR";

// The number of `name = N : i32` among the attributes of the module; 1 where it is not there.
int module_attribute(std::string_view code, std::string_view name) {
  const auto body = code.find("func.func");  // what stands behind belongs to functions
  const auto at = code.substr(0, body).find(name);
  if (at == code.npos) return 1;
  std::string_view rest = code.substr(at + name.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" ="), rest.size()));
  int number = 1;
  std::from_chars(rest.data(), rest.data() + rest.size(), number);
  return std::max(number, 1);
}

// jax.export's serialize() wraps the bytecode: its length stands, as 4 bytes, in front of it.
std::optional<std::string> unwrap_export(std::string_view content) {
  const auto at = content.find(kBytecodeMagic);
  if (at == content.npos || at < 4) return std::nullopt;
  uint32_t length = 0;
  std::memcpy(&length, content.data() + at - 4, sizeof length);
  if (length < kBytecodeMagic.size() || length > content.size() - at) return std::nullopt;
  return std::string(content.substr(at, length));
}

[[noreturn]] void refuse(const Path& path, const std::string& why, std::string hint) {
  throw ProgramError(fmt::format("{}: {}", path.string(), why), {{"file", path.string()}}, std::move(hint));
}

std::string_view nth_line(std::string_view text, int n) {
  for (; n > 1 && !text.empty(); --n) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

// One line of a complaint that names a place: "-:3:10: error: what".
struct Remark {
  int line = 0, column = 0;
  std::string_view what;  // "error: …" or "note: …"
};

std::optional<Remark> parse_remark(std::string_view line) {
  constexpr std::string_view prefix = "-:";
  const auto start = line.find(prefix);
  if (start == line.npos) return std::nullopt;
  Remark out;
  const char *at = line.data() + start + prefix.size(), *end = line.data() + line.size();
  for (int* number : {&out.line, &out.column}) {
    const auto [next, failed] = std::from_chars(at, end, *number);
    if (failed != std::errc() || next == end || *next != ':') return std::nullopt;
    at = next + 1;
  }
  out.what = std::string_view(at, static_cast<size_t>(end - at));
  out.what.remove_prefix(std::min(out.what.find_first_not_of(' '), out.what.size()));
  return out;
}

// file:3:10: error: what, the line, and a caret under the column.
std::string show(const Remark& remark, const ProgramFile& program) {
  std::string out =
      fmt::format("{}:{}:{}: {}\n", program.path.string(), remark.line, remark.column, remark.what);
  const std::string_view source = nth_line(program.code, remark.line);
  if (source.find_first_not_of(" \t") == source.npos) return out;
  // Long lines (constants, calls of many arguments) are cut around the place.
  constexpr size_t kWidth = 160, kBefore = 100;
  const size_t column = std::min(static_cast<size_t>(std::max(remark.column - 1, 0)), source.size());
  const size_t from = source.size() > kWidth && column > kBefore ? column - kBefore : 0;
  out += fmt::format("  {}\n  ", source.substr(from, kWidth));
  for (const char c : source.substr(from, column - from)) out += c == '\t' ? '\t' : ' ';
  return out + "^\n";
}

// What to do about complaints that name no place.
std::string advice(std::string_view complaint) {
  const auto says = [&](std::string_view part) { return complaint.find(part) != complaint.npos; };
  if (says("dynamism")) return "The program has a dynamic dimension (?): export it again with fixed shapes.";
  if (says("`main` function")) return "The function to run must be named @main.";
  if (says("custom call"))
    return "Only a plugin that knows this custom call can run the program: try another with --plugin.";
  if (says("attempting to parse") || says("bytecode"))
    return "The file is damaged or cut off: export it again.";
  return {};
}

}  // namespace

ProgramFile read_program(const Path& path) {
  ProgramFile out{path, read_file(path)};
  const std::string_view code = out.code;
  if (code.find_first_not_of(" \t\r\n") == code.npos)
    refuse(path, "the file is empty",
           "Give a StableHLO program, e.g. what jax.jit(f).lower(x).as_text() returns.");
  if (code.starts_with(kBytecodeMagic)) {
    out.text = false;
  } else if (code.starts_with("HloModule")) {
    refuse(path, "this is HLO text, not StableHLO", "Lower to StableHLO: jax.jit(f).lower(x).as_text().");
  } else if (code.find('\0') != code.npos) {
    auto inner = unwrap_export(code);
    if (!inner)
      refuse(path, "this is neither MLIR text nor MLIR bytecode",
             "Give a StableHLO program: text, bytecode, or a file of jax.export's serialize().");
    out.code = std::move(*inner);
    out.text = false;
  }
  if (out.text) {
    out.replicas = module_attribute(out.code, "mhlo.num_replicas");
    out.partitions = module_attribute(out.code, "mhlo.num_partitions");
  }
  // Bytecode keeps the names of its attributes as they are.
  out.shardy = out.code.find("sdy.") != out.code.npos;
  return out;
}

pjrt::CompileOptions compile_options(const ProgramFile& program) {
  pjrt::CompileOptions out;
  out.num_replicas = program.replicas;
  out.num_partitions = program.partitions;
  out.use_spmd_partitioning = program.partitions > 1;
  out.use_shardy = program.partitions > 1 && program.shardy;
  return out;
}

std::exception_ptr locate(const Error& complaint, const ProgramFile& program) {
  std::string message;
  Details details = {{"file", program.path.string()}};
  for (std::string_view rest = complaint.message(); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto remark = parse_remark(line);
    if (!remark || remark->line < 1 || !program.text) continue;
    if (remark->what.find("see current operation") != remark->what.npos)
      continue;  // a dump of the whole module
    if (details.size() == 1) {
      details.emplace_back("line", std::to_string(remark->line));
      details.emplace_back("column", std::to_string(remark->column));
    }
    message += show(*remark, program);
  }
  std::string hint = advice(complaint.message());
  if (message.empty() && hint.empty()) return {};
  if (message.empty()) message = fmt::format("{}: {}", program.path.string(), complaint.message());
  return std::make_exception_ptr(ProgramError(message, details, hint, complaint.code()));
}

}  // namespace tpubridge::tools
