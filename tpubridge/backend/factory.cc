#include "tpubridge/backend/factory.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "tpubridge/backend/cpu_backend.h"
#include "tpubridge/backend/tpu_optimizer.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"auto", "nvidia", "amd", "tpu", "intel", "cpu"};
constexpr std::array kPriorities = {0, 100, 90, 85, 80, 0};
constexpr std::array<std::pair<std::string_view, BackendType>, 6> kAliases = {{{"cuda", BackendType::nvidia},
                                                                               {"rocm", BackendType::amd},
                                                                               {"hip", BackendType::amd},
                                                                               {"xla", BackendType::tpu},
                                                                               {"xpu", BackendType::intel},
                                                                               {"sycl", BackendType::intel}}};

struct Registered {
  BackendFactory::Make make;
  BackendFactory::Available available;
};

// A TPU is looked for without opening the device, where nobody has.
bool tpu_is_here() {
  return exec::client_is_open() ? runtime_of(exec::client()).available : look_for_tpu().available;
}

struct Registry {
  std::mutex mutex;
  std::map<BackendType, Registered> all{
      {BackendType::tpu, {[](const Config& c) { return std::make_unique<TPUBackend>(c); }, tpu_is_here}},
      {BackendType::cpu,
       {[](const Config&) { return std::make_unique<CPUBackend>(); }, [] { return true; }}}};

  std::optional<Registered> find(BackendType type) {
    const std::lock_guard lock(mutex);
    const auto it = all.find(type);
    return it == all.end() ? std::nullopt : std::optional(it->second);
  }
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

std::unique_ptr<BaseBackend> cpu_instead(std::string_view asked, const std::string& why) {
  log::warn("backend.cpu_instead", {{"asked", std::string(asked)}, {"why", why}});
  return std::make_unique<CPUBackend>();
}

std::optional<BackendType> type_named(std::string_view name) {
  std::string low(name);
  for (char& c : low)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (size_t i = 0; i < kNames.size(); ++i)
    if (low == kNames[i]) return static_cast<BackendType>(i);
  for (const auto& [alias, type] : kAliases)
    if (low == alias) return type;
  return std::nullopt;
}

}  // namespace

std::string_view to_string(BackendType type) { return kNames.at(static_cast<size_t>(type)); }

std::unique_ptr<BaseBackend> BackendFactory::create(BackendType type, const Config& config) {
  if (type == BackendType::automatic) type = list_available_backends().front();
  const auto found = registry().find(type);
  if (!found) return cpu_instead(to_string(type), "no backend of this type is registered");
  try {
    return found->make(config);
  } catch (const TPUConfigurationError&) {
    throw;  // what is wrong is the caller's to change, not the machine's
  } catch (const std::exception& e) {
    return cpu_instead(to_string(type), e.what());
  }
}

std::unique_ptr<BaseBackend> BackendFactory::create(std::string_view name, const Config& config) {
  const auto type = type_named(name);
  return type ? create(*type, config) : cpu_instead(name, "there is no backend of this name");
}

std::unique_ptr<TPUOptimizer> BackendFactory::create_optimizer(BackendType type, const Config& config) {
  if (type == BackendType::automatic) type = list_available_backends().front();
  if (type != BackendType::tpu)
    throw UnsupportedError("there is no optimizer for the backend '" + std::string(to_string(type)) + "'",
                           {{"backend", std::string(to_string(type))}}, "There is one for \"tpu\".");
  return std::make_unique<TPUOptimizer>(config);
}

std::unique_ptr<TPUOptimizer> BackendFactory::create_optimizer(std::string_view name, const Config& config) {
  const auto type = type_named(name);
  if (!type)
    throw UnsupportedError("there is no backend of the name '" + std::string(name) + "'",
                           {{"backend", std::string(name)}}, "There is an optimizer for \"tpu\".");
  return create_optimizer(*type, config);
}

void BackendFactory::register_backend(BackendType type, Make make, Available available) {
  if (type == BackendType::automatic || !make || !available)
    throw ArgumentError("a backend is registered with its type, how to make it and whether it is available",
                        {{"type", std::string(to_string(type))}});
  const std::lock_guard lock(registry().mutex);
  registry().all[type] = {std::move(make), std::move(available)};
}

BackendEntry BackendFactory::get_backend_info(BackendType type) {
  const auto found = registry().find(type);
  return {type, found && found->available(), kPriorities.at(static_cast<size_t>(type)), found.has_value()};
}

std::vector<BackendType> BackendFactory::list_available_backends() {
  std::vector<BackendEntry> here;
  for (size_t i = 1; i < kNames.size(); ++i)
    if (const auto e = get_backend_info(static_cast<BackendType>(i)); e.available) here.push_back(e);
  std::ranges::stable_sort(here, std::ranges::greater(), &BackendEntry::priority);
  std::vector<BackendType> out;
  for (const auto& e : here) out.push_back(e.type);
  if (std::ranges::find(out, BackendType::cpu) == out.end()) out.push_back(BackendType::cpu);
  return out;
}

}  // namespace tpubridge
