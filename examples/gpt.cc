// A small GPT in plain libtorch that learns to write from one text, character by character, and then writes.
//
//   example_gpt                       trains on Shakespeare's sonnets on the device
//   example_gpt --device cpu          the same program on libtorch's own CPU kernels: the same losses
//   example_gpt --text my.txt --layers 4 --width 256 --steps 2000 --prompt "It was"
//
// Everything that has to do with tpubridge: the device's name, compile(), clip_grad_norm_() and report().
#include <tpubridge/tpubridge.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "models/gpt.h"

using models::Gpt;  // GPT-2's, small: examples/models/gpt.h

struct Options {
  std::string device = "tpu", text = "examples/text/sonnets.txt", prompt = "Shall I compare ";
  int64_t layers = 3, width = 128, heads = 4, context = 64, batch = 16, steps = 500, tokens = 500, top_k = 10;
  double rate = 3e-3, temperature = 0.7;
  bool json = false;
};

// ---- The text: each distinct byte is a token -----------------------------------------------------------

struct Text {
  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::invalid_argument("cannot read " + path + " (give a text by --text FILE)");
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    characters.assign(bytes.begin(), bytes.end());
    std::sort(characters.begin(), characters.end());
    characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
    tokens = encode(bytes);
  }
  std::vector<int64_t> encode(const std::string& bytes) const {  // what the text does not have is left out
    std::vector<int64_t> result;
    for (const char c : bytes)
      if (const auto at = characters.find(c); at != characters.npos)
        result.push_back(static_cast<int64_t>(at));
    return result;
  }
  std::string characters;       // sorted; the token of a character is its place
  std::vector<int64_t> tokens;  // the whole text
};

// ---- Training
// ----------------------------------------------------------------------------------------------

// On a terminal one line that changes in place, otherwise a line now and then; with --json none.
struct Progress {
  void show(int64_t step, double loss) {
    const auto m = tpubridge::metrics();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    per_second = static_cast<double>(step * options.batch * options.context) / seconds;
    const bool last = step == options.steps;
    if (options.json || (!live && !last && step % std::max<int64_t>(options.steps / 10, 10) != 0)) return;
    std::printf("%sstep %4ld/%ld  loss %.3f  %5.0f tokens/s  compiles %ld  device memory %.1f MiB%s",
                live ? "\r\033[K" : "", step, options.steps, loss, per_second, m.compiles,
                static_cast<double>(m.live_device_bytes) / (1 << 20), live && !last ? "" : "\n");
    std::fflush(stdout);
  }
  const Options& options;
  bool live = isatty(STDOUT_FILENO) != 0;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double seconds = 0, per_second = 0;
};

nlohmann::json train(Gpt& model, const Text& text, const Options& o, const torch::Device& device) {
  const int64_t last_start = static_cast<int64_t>(text.tokens.size()) - o.context;
  if (last_start <= 0) throw std::invalid_argument("the text is shorter than the context");
  const auto all = torch::tensor(text.tokens).to(device);  // the whole text lives on the device
  const auto offsets = torch::arange(o.context + 1, all.options());
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(o.rate).weight_decay(0.1));
  // Windows of the text that begin at `starts`, and one step on them.
  auto train_step = [&](const torch::Tensor& starts) {
    const auto windows = all.index({starts + offsets});  // [batch, context + 1]
    const auto x = windows.slice(1, 0, o.context), y = windows.slice(1, 1);
    const auto logits = model->forward(x);
    const auto loss = torch::cross_entropy_loss(logits.flatten(0, 1), y.flatten());
    optimizer.zero_grad();
    loss.backward();
    tpubridge::clip_grad_norm_(model->parameters(), 1.0);
    optimizer.step();
    return loss.detach();
  };
  // Traced in the first calls, then replayed: one execute, none of the code above (docs/compile.md).
  auto compiled = tpubridge::compile(train_step, {.modules = {model.ptr()}, .optimizers = {&optimizer}});
  nlohmann::json result;
  int64_t settled = 0;  // compiles up to the fourth step; afterwards there should be none
  Progress progress{o};
  for (int64_t step = 1; step <= o.steps; ++step) {
    // A short climb, then half a cosine. Numbers are inputs of the program: a new rate compiles nothing.
    const double done = static_cast<double>(step) / static_cast<double>(o.steps);
    const double rate =
        o.rate * std::min(1.0, static_cast<double>(step) / 20) * (0.55 + 0.45 * std::cos(M_PI * done));
    static_cast<torch::optim::AdamWOptions&>(optimizer.param_groups()[0].options()).lr(rate);

    // Starts are drawn on the CPU, so that every device sees the same batches.
    const auto starts = torch::randint(last_start, {o.batch, 1}, torch::kLong).to(device);
    const auto loss = device.is_cpu() ? train_step(starts) : compiled(starts);

    if (step == 4) settled = tpubridge::metrics().compiles;
    if (step == 1) result["first_loss"] = loss.item<double>();
    if (step == 1 || step % 10 == 0 || step == o.steps) {
      result["loss"] = loss.item<double>();  // waits for the device, so not at every step
      progress.show(step, result["loss"]);
    }
  }
  result["seconds"] = progress.seconds;
  result["tokens_per_second"] = progress.per_second;
  result["compiles_after_step_4"] = o.steps < 4 ? 0 : tpubridge::metrics().compiles - settled;
  result["replayed_steps"] = compiled.report().replayed;
  return result;
}

// ---- Writing
// -----------------------------------------------------------------------------------------------

// The window always has the same size, and the place of the last token is data: one program for all tokens.
// What stands behind that place is not seen, because attention looks only back.
int64_t next_token(Gpt& model, const std::vector<int64_t>& written, const Options& o,
                   const torch::Device& device) {
  const auto length = std::min<int64_t>(static_cast<int64_t>(written.size()), o.context);
  auto window = torch::zeros({1, o.context}, torch::kLong);
  std::copy(written.end() - length, written.end(), window.data_ptr<int64_t>());
  const auto last = torch::tensor({length - 1}).to(device);
  const auto logits = model->forward(window.to(device))[0].index_select(0, last)[0];
  const auto [best, tokens] = logits.topk(std::min(o.top_k, logits.size(0)));
  // The largest of logits with Gumbel noise is a draw from their softmax.
  const auto noise = -torch::log(-torch::log(torch::rand_like(best)));
  return tokens.index_select(0, (best / o.temperature + noise).argmax(0, true)).item<int64_t>();
}

std::string write(Gpt& model, const Text& text, const Options& o, const torch::Device& device) {
  torch::NoGradGuard no_grad;
  auto written = text.encode(o.prompt);
  if (written.empty()) written = {text.tokens.front()};
  const size_t end = written.size() + static_cast<size_t>(o.tokens);
  std::string result;
  for (size_t i = 0; i < end; ++i) {
    if (i == written.size()) written.push_back(next_token(model, written, o, device));
    result += text.characters[static_cast<size_t>(written[i])];
    if (!o.json) std::putchar(result.back()), std::fflush(stdout);
  }
  return result;
}

// ---- Options and main
// --------------------------------------------------------------------------------------

constexpr const char* kUsage =
    "example_gpt [--device tpu|cpu] [--text FILE] [--prompt TEXT] [--steps N] [--tokens N] [--layers N]\n"
    "            [--width N] [--heads N] [--context N] [--batch N] [--rate R] [--temperature T] [--top-k K] "
    "[--json]\n";

Options parse(int argc, char** argv) {
  Options o;
  const std::map<std::string, std::string*> texts{
      {"--device", &o.device}, {"--text", &o.text}, {"--prompt", &o.prompt}};
  const std::map<std::string, int64_t*> numbers{
      {"--layers", &o.layers}, {"--width", &o.width}, {"--heads", &o.heads},   {"--context", &o.context},
      {"--batch", &o.batch},   {"--steps", &o.steps}, {"--tokens", &o.tokens}, {"--top-k", &o.top_k}};
  const std::map<std::string, double*> reals{{"--rate", &o.rate}, {"--temperature", &o.temperature}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      o.json = true;
      continue;
    }
    const bool known = texts.count(name) || numbers.count(name) || reals.count(name);
    if (!known) throw std::invalid_argument("unknown option " + name + "\n" + kUsage);
    if (++i == argc) throw std::invalid_argument(name + " needs a value\n" + kUsage);
    try {
      if (texts.count(name)) *texts.at(name) = argv[i];
      if (numbers.count(name)) *numbers.at(name) = std::stoll(argv[i]);
      if (reals.count(name)) *reals.at(name) = std::stod(argv[i]);
    } catch (const std::exception&) {
      throw std::invalid_argument(name + " needs a number, not \"" + argv[i] + "\"");
    }
    if (numbers.count(name) && *numbers.at(name) < (name == "--tokens" || name == "--steps" ? 0 : 1))
      throw std::invalid_argument(name + " is too small");
  }
  if (o.width % o.heads != 0) throw std::invalid_argument("--width must be a multiple of --heads");
  if (o.temperature <= 0) throw std::invalid_argument("--temperature must be above 0");
  return o;
}

int run(const Options& o) {
  const torch::Device device(o.device);  // the only line that knows where the program runs
  torch::manual_seed(1);
  const Text text(o.text);
  Gpt model(models::GptConfig{.vocabulary = static_cast<int64_t>(text.characters.size()),
                              .context = o.context,
                              .layers = o.layers,
                              .heads = o.heads,
                              .width = o.width});
  model->to(device);
  int64_t parameters = 0;
  for (const auto& p : model->parameters()) parameters += p.numel();
  if (!o.json)
    std::printf("a GPT of %ld layers, %ld wide, %.2f million parameters learns %s (%zu characters) on %s\n",
                o.layers, o.width, static_cast<double>(parameters) / 1e6, o.text.c_str(), text.tokens.size(),
                o.device.c_str());
  auto result = train(model, text, o, device);

  if (!o.json) std::printf("\nIt writes, after \"%s\":\n\n", o.prompt.c_str());
  const auto compiles = tpubridge::metrics().compiles;
  result["sample"] = write(model, text, o, device);
  result["compiles_of_sampling"] = tpubridge::metrics().compiles - compiles;
  if (!o.json) {
    std::printf("\n\nWhat the device did (tpubridge::report()):\n%s", tpubridge::report().c_str());
    return 0;
  }
  const auto m = tpubridge::metrics();
  result.update({{"device", o.device},
                 {"steps", o.steps},
                 {"parameters", parameters},
                 {"compiles", m.compiles},
                 {"fallbacks", m.fallback_count()},
                 {"peak_device_bytes", m.peak_device_bytes}});
  std::puts(result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  return 0;
}

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "example_gpt: %s\n", error.what());
    return 1;
  }
}
