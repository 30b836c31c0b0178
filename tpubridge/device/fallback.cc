// The boxed CPU fallback, with its account.
#include "tpubridge/device/fallback.h"

#include <chrono>
#include <mutex>
#include <unordered_set>

#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/metrics.h"

namespace tpubridge::device {
namespace {

std::atomic<Fallback>& mode() {
  static std::atomic<Fallback> value{[] {
    const std::string choice = env::choice("TPUBRIDGE_FALLBACK");
    return choice == "allow" ? Fallback::allow : choice == "error" ? Fallback::error : Fallback::warn;
  }()};
  return value;
}

bool first_time(const std::string& name) {
  static auto* seen = new std::unordered_set<std::string>;
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  return seen->insert(name).second;
}

}  // namespace

Fallback fallback_mode() { return mode(); }
Fallback set_fallback_mode(Fallback m) { return mode().exchange(m); }

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.operator_name());
  const bool depends_on_data = op.hasTag(at::Tag::dynamic_output_shape);
  if (!depends_on_data && mode() == Fallback::error)
    throw UnsupportedError(name + " has no lowering and would run on the CPU", {{"op", name}},
                           "Use an op of docs/ops.md, or allow it: set_fallback(Fallback::warn).");
  if (Recording* r = recording()) (void)r->host_read(name + " runs on the CPU");
  // A generator of the device means nothing to a CPU kernel: it draws from the CPU's default one.
  for (auto& v : torch::jit::last(*stack, op.schema().arguments().size()))
    if (v.isGenerator() && v.toGenerator().device().type() == c10::DeviceType::PrivateUse1)
      const_cast<c10::IValue&>(v) = c10::IValue();
  const auto start = std::chrono::steady_clock::now();
  at::native::cpu_fallback(op, stack);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (depends_on_data) {
    exec::count_synchronising(name);
    return;
  }
  exec::count_fallback(name, seconds);
  if (mode() == Fallback::warn && first_time(name))
    TORCH_WARN(name,
               " has no lowering for the tpu device and runs on the CPU (said once per op; "
               "tpubridge::report() counts them)");
}

void fall_back_refused(const c10::OperatorHandle& op, bool writes, torch::jit::Stack* stack) {
  if (mode() == Fallback::error && !writes) {
    const auto args = torch::jit::last(*stack, op.schema().arguments().size());
    torch::jit::Stack trial(args.begin(), args.end());
    at::native::cpu_fallback(op, &trial);
  }
  fall_back(op, stack);
}

}  // namespace tpubridge::device
