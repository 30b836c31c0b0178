// Backends by name.
//
//   auto backend = BackendFactory::create("tpu");
//   auto best = BackendFactory::create();        // the best that is here
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/backend/backend.h"
#include "tpubridge/config/config.h"

namespace tpubridge {

class TPUOptimizer;

enum class BackendType : uint8_t { automatic, nvidia, amd, tpu, intel, cpu };
[[nodiscard]] std::string_view to_string(BackendType type);

struct BackendEntry {
  BackendType type;
  bool available = false;   // its hardware is here
  int priority = 0;         // the higher, the better
  bool registered = false;  // there is a backend for it
};

class BackendFactory {
 public:
  using Make = std::function<std::unique_ptr<BaseBackend>(const Config&)>;
  using Available = std::function<bool()>;

  // By type, or by its name or alias in any case (cuda: nvidia; rocm, hip: amd; xla: tpu; xpu, sycl: intel).
  // A name that nobody knows, a type without a backend, and a backend that cannot be made give the CPU's,
  // with a warning in the log that says why. `automatic` takes the best that is available.
  [[nodiscard]] static std::unique_ptr<BaseBackend> create(BackendType type = BackendType::automatic,
                                                           const Config& config = {});
  [[nodiscard]] static std::unique_ptr<BaseBackend> create(std::string_view name, const Config& config = {});

  // The optimizer for a type: "tpu" (or "xla") has one. Throws UnsupportedError for the others, and what
  // making it throws: never another one than was asked for.
  [[nodiscard]] static std::unique_ptr<TPUOptimizer> create_optimizer(BackendType type,
                                                                      const Config& config = {});
  [[nodiscard]] static std::unique_ptr<TPUOptimizer> create_optimizer(std::string_view name,
                                                                      const Config& config = {});

  // From now on `make` makes this type's. Throws ArgumentError for `automatic`, or without `make`.
  static void register_backend(BackendType type, Make make, Available available);
  [[nodiscard]] static BackendEntry get_backend_info(BackendType type);
  [[nodiscard]] static std::vector<BackendType>
  list_available_backends();  // best first; the CPU is always there
};

}  // namespace tpubridge
