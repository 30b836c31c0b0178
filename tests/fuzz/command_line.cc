// A command line, one word a line: the options of `tpubridge train`, which has the most numbers.
#include <CLI/CLI.hpp>

#include "tests/fuzz/target.h"
#include "tools/train_options.h"

namespace tpubridge::fuzz {
namespace {

void read_words(std::string_view bytes) {
  std::vector<std::string> words;
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    words.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  std::ranges::reverse(words);  // as CLI11 wants them
  CLI::App app;
  tools::TrainOptions options;
  tools::add_train_options(app, options);
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError&) {  // told
    return;
  }
  require(options.batch > 0 && options.accumulate > 0 && options.steps >= 0, "numbers that make no training");
  require(options.hold_out >= 0 && options.hold_out < 1, "a part that is no part");
  for (const double n : {options.rate, options.clip, options.weight_decay})
    require(n >= 0, "no number at all");
  for (const int64_t n : options.hidden) require(n > 0, "a layer of no neurons");
}
const Adds words_target{"command_line", read_words};

}  // namespace
}  // namespace tpubridge::fuzz
