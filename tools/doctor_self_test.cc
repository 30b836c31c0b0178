// The part of `doctor` that runs in a child: loads a plugin and has it compute something known.
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <set>

#include "tools/describe.h"
#include "tools/doctor.h"
#include "tools/session.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
constexpr int kSize = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Small whole numbers: exact even where a device multiplies in bf16.
float left(int i, int k) { return static_cast<float>((i + k) % 5 - 2); }
float right(int k, int j) { return static_cast<float>((3 * k + j) % 7 - 3); }

std::vector<float> matrix(float (*element)(int, int)) {
  std::vector<float> out;
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) out.push_back(element(i, j));
  return out;
}

int count_wrong(const std::vector<float>& product) {
  int wrong = 0;
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) {
      float sum = 0;
      for (int k = 0; k < kSize; ++k) sum += left(i, k) * right(k, j);
      wrong += product[static_cast<size_t>(i) * kSize + static_cast<size_t>(j)] != sum;
    }
  return wrong;
}

ordered_json multiply(const pjrt::Client& client) {
  const std::string type = fmt::format("tensor<{0}x{0}xf32>", kSize);
  const std::string code = fmt::format(
      "func.func @main(%a: {0}, %b: {0}) -> {0} {{\n"
      "  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({0}, {0}) -> {0}\n"
      "  return %0 : {0}\n}}\n",
      type);
  auto start = Clock::now();
  const auto program = client.compile({code});
  const double compile_s = seconds_since(start);
  const Shape shape{DType::f32, {kSize, kSize}};
  const pjrt::Device& device = *program.devices().at(0);
  const auto a = client.to_device(matrix(left), shape, device),
             b = client.to_device(matrix(right), shape, device);
  const std::array<const pjrt::Buffer*, 2> arguments = {&a, &b};
  start = Clock::now();
  const auto outputs = program.execute(arguments);
  const auto product = outputs.at(0).to_vector<float>();
  const double run_s = seconds_since(start);
  const int wrong = count_wrong(product);
  return {{"ok", wrong == 0}, {"wrong_elements", wrong}, {"compile_s", compile_s}, {"run_s", run_s}};
}

// The shared libraries of this process, plugin and all it brought included.
ordered_json loaded_libraries() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash != line.npos && line.find(".so", slash) != line.npos) found.insert(line.substr(slash));
  }
  return found;
}

}  // namespace

ordered_json self_test(const std::string& wanted) {
  ordered_json out = ordered_json::object();
  try {
    const auto client = open_client(wanted);
    out = describe_plugin(client->plugin());
    out["platform"] = client->platform_name();
    out["platform_version"] = client->platform_version();
    out["devices"] = describe_devices(*client);
    out["self_test"] = multiply(*client);
    out["libraries"] = loaded_libraries();
  } catch (const Error& e) {
    out["error"] = ordered_json::parse(e.to_json());
  }
  return out;
}

}  // namespace tpubridge::tools
