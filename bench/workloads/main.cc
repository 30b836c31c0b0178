// One workload in one process. Figures go to stdout as lines of JSON; bench/run reads them, and says on stdin
// when to measure, so that programs that are compared can take turns.
//
//   tpubridge_workloads NAME replayed|traced|libtorch [--once|--compile] [key=value…]
//
// Without an option: {"ready": …} after warming up, then for each line "measure SAMPLES CALLS WAIT" a line
// {"samples": [seconds per call…], "cpu": seconds, "wall": seconds}, until stdin ends. WAIT is "each" or
// "last". --once does one call and says so; --compile tells what the first calls took over later ones.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/workloads/workload.h"

namespace {

using namespace workloads;
using nlohmann::json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void say(const json& line) {
  std::puts(line.dump().c_str());
  std::fflush(stdout);
}

json measure(const Workload& w, int64_t samples, int64_t calls, bool wait_each) {
  json taken = json::array();
  const double cpu = cpu_seconds(), wall = now();
  for (int64_t i = 0; i < samples; ++i) {
    const double start = now();
    if (!wait_each && w.many)
      w.many(calls);
    else
      for (int64_t k = 0; k < calls; ++k) w.call();
    taken.push_back((now() - start) / static_cast<double>(calls));
  }
  return {{"samples", taken}, {"cpu", cpu_seconds() - cpu}, {"wall", now() - wall}};
}

// What the first calls took more than later ones do. Five, because a step is replayed from the fourth on.
double first_calls(const Workload& w) {
  std::vector<double> taken;
  for (int i = 0; i < 8; ++i) {
    const double start = now();
    w.call();
    taken.push_back(now() - start);
  }
  std::sort(taken.begin() + 5, taken.end());
  double total = 0;
  for (int i = 0; i < 5; ++i) total += taken[static_cast<size_t>(i)] - taken[6];
  return total;
}

void serve(const Workload& w) {
  for (int i = 0; i < 5; ++i) w.call();
  if (w.many) w.many(2);
  const auto facts = w.facts ? w.facts() : std::map<std::string, double>{};
  for (int i = 0; i < 4; ++i) w.call();  // the step is traced again after what the facts did beside it
  const auto compiles = tpubridge::metrics().compiles;
  say({{"ready", true}, {"facts", facts}, {"versions", {{"libtorch", TORCH_VERSION}}}});
  std::string line, word, waits;
  while (std::getline(std::cin, line)) {
    int64_t samples = 0, calls = 0;
    if (!(std::istringstream(line) >> word >> samples >> calls >> waits) || word != "measure")
      throw std::invalid_argument("not a request: " + line);
    say(measure(w, samples, calls, waits == "each"));
  }
  const auto m = tpubridge::metrics();
  if (m.compiles != compiles) std::fprintf(stderr, "compiled while measuring: not warmed up\n");
  if (m.fallback_count() != 0) std::fprintf(stderr, "ops ran on the CPU:\n%s\n", tpubridge::report().c_str());
}

const std::map<std::string, Make> kWorkloads = {{"tiny", tiny},
                                                {"chain", chain},
                                                {"to_device", to_device},
                                                {"to_host", to_host},
                                                {"trace", trace},
                                                {"mlp", mlp},
                                                {"resnet", resnet},
                                                {"gpt", gpt},
                                                {"decode", decode},
                                                {"birnn", birnn},
                                                {"efficientnet", efficientnet},
                                                {"mobilenet", mobilenet},
                                                {"swin", swin},
                                                {"unet", unet}};
const std::map<std::string, Mode> kModes = {
    {"replayed", Mode::replayed}, {"traced", Mode::traced}, {"libtorch", Mode::libtorch}};

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || !kWorkloads.count(arguments[0]) || !kModes.count(arguments[1])) {
    std::string names;
    for (const auto& [name, make] : kWorkloads) names += " " + name;
    throw std::invalid_argument(
        "usage: tpubridge_workloads NAME replayed|traced|libtorch [--once|--compile] [key=value…]\nnames:" +
        names);
  }
  std::map<std::string, std::string> values;
  std::string option;
  for (size_t i = 2; i < arguments.size(); ++i) {
    const auto equals = arguments[i].find('=');
    if (equals == std::string::npos)
      option = arguments[i];
    else
      values[arguments[i].substr(0, equals)] = arguments[i].substr(equals + 1);
  }
  torch::manual_seed(1);
  const Workload w = kWorkloads.at(arguments[0])(kModes.at(arguments[1]), Params(values));
  if (option.empty()) return serve(w);
  if (option == "--once") {
    w.call();
    return say({{"done", true}});
  }
  if (option != "--compile") throw std::invalid_argument("unknown option " + option);
  const double first = first_calls(w);
  json line = {{"first", first}};
  if (w.renew) {
    w.renew();
    line["again"] = first_calls(w);
  }
  say(line);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error.what()}});
    return 1;
  }
}
