#include "tools/compile_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

[[noreturn]] void bad_bucket(const std::string& text, const std::string& why) {
  throw ArgumentError(fmt::format("--buckets {}: {}", quote(text), why), {{"bucket", text}},
                      "Write NAME=SIZES[,SIZES…], as in input_ids=1x16,1x32; no dimensions are `scalar`.",
                      Code::invalid_argument);
}

std::vector<int64_t> parse_sizes(const std::string& all, std::string_view text) {
  std::vector<int64_t> out;
  if (text == "scalar") return out;
  while (true) {
    const size_t x = std::min(text.find('x'), text.size());
    int64_t size = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + x, size);
    if (failed != std::errc() || end != text.data() + x || size < 0)
      bad_bucket(all, fmt::format("{} is no size", quote(text.substr(0, x))));
    out.push_back(size);
    if (x == text.size()) return out;
    text.remove_prefix(x + 1);
  }
}

}  // namespace

void add_compile_options(CLI::App& app, CompileOptions& o) {
  app.add_option("MODEL", o.model, "A model of torch.export (.pt2), or a Hugging Face folder")->required();
  app.add_option("--out", o.out, "The package (.tbp), or StableHLO with the weights in it (.mlir)")
      ->type_name("FILE")
      ->required();
  app.add_option(
         "--buckets", o.buckets,
         "Sizes of an input, a program for each: input_ids=1x16,1x32. May be left out where the model "
         "says them itself")
      ->type_name("NAME=SIZES");
  app.add_option("--tpu", o.tpus, "TPUs that are not here, to compile for as well: v5e, v6e:2x2, v7:2x2x1")
      ->delimiter(',');
  app.add_flag("--no-executable", o.no_executable, "No executable for this machine");
  app.add_option("--plugin", o.plugin, "PJRT plugin: a name or the path of its library");
  app.add_flag("--json", o.json, "Print one JSON document instead of text (keys: docs/command.md)");
  app.footer(
      "Examples:\n"
      "  tpubridge compile model.pt2 --out model.tbp\n"
      "  tpubridge compile Llama-3.2-1B --out llama.tbp --buckets input_ids=1x128,1x1024 --tpu v6e:1x1\n"
      "  tpubridge compile model.pt2 --out model.mlir");
}

std::vector<Bucket> parse_buckets(const std::vector<std::string>& texts) {
  std::vector<Bucket> out;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    if (equals == text.npos || equals == 0) bad_bucket(text, "no name stands before =");
    Bucket b{text.substr(0, equals), {}};
    if (std::ranges::find(out, b.input, &Bucket::input) != out.end())
      bad_bucket(text, fmt::format("{} is given twice", b.input));
    for (std::string_view rest = std::string_view(text).substr(equals + 1);;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      b.sizes.push_back(parse_sizes(text, rest.substr(0, comma)));
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
    out.push_back(std::move(b));
  }
  return out;
}

size_t count_buckets(const std::vector<Bucket>& buckets) {
  size_t count = 1;
  for (const Bucket& b : buckets) {
    if (b.sizes.size() == 1) continue;
    if (count != 1 && b.sizes.size() != count)
      throw ArgumentError(
          fmt::format("--buckets gives {} {} sizes, and another input {}", b.input, b.sizes.size(), count),
          {{"input", b.input}}, "Give each input one size, or as many as the others.",
          Code::invalid_argument);
    count = b.sizes.size();
  }
  return count;
}

}  // namespace tpubridge::tools
