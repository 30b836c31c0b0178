// Functions compiled for the device, each once.
//
//   XLAOptimizer xla;
//   auto f = xla.compile_for_tpu(&step);          // traced, then replayed (step/compile.h)
//   auto same = xla.compile_for_tpu(&step);       // the one that is there: known by the function itself
//
// A function pointer, or a callable without state, is known by what it is, never by a name. A callable with
// state (a lambda that captures) is compiled anew each time it is given: two of them may look alike and
// differ. Without XLA a function is given back as it is. May be used by several threads; a compiled function
// by one at a time.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <typeindex>
#include <variant>

#include "tpubridge/step/compile.h"

namespace tpubridge {

class XLAOptimizer {
 public:
  [[nodiscard]] bool is_xla_available() const;                      // a plugin can be used
  [[nodiscard]] std::optional<c10::Device> get_xla_device() const;  // nothing without one

  // A function that reads values on the host inside is traced at every call.
  template <class R, class... A>
  [[nodiscard]] std::function<R(A...)> compile_for_tpu(R (*f)(A...)) {
    if (!is_xla_available()) return f;
    return cached<R, A...>(Key(reinterpret_cast<void (*)()>(f)), f);
  }
  template <class F>
  [[nodiscard]] auto compile_for_tpu(F f) {
    using Signature = decltype(std::function(std::declval<F>()));
    return any(std::move(f), static_cast<Signature*>(nullptr));
  }
  [[nodiscard]] size_t compiled_functions() const;  // that are kept
  void clear();                                     // those that were given out live on

  // On the device and dense; without XLA, or where it cannot go there (logged), the tensor itself.
  [[nodiscard]] at::Tensor optimize_tensor_operations(const at::Tensor& tensor) const;

 private:
  using Key = std::variant<void (*)(), std::type_index>;

  template <class R, class... A, class F>
  static std::shared_ptr<std::function<R(A...)>> make(F f) {
    auto step = std::make_shared<CompiledStep<F>>(
        std::move(f), StepOptions{.host_reads = HostReads::trace, .name = "compile_for_tpu"});
    return std::make_shared<std::function<R(A...)>>(
        [step](A... args) -> R { return (*step)(std::forward<A>(args)...); });
  }
  template <class R, class... A, class F>
  std::function<R(A...)> cached(const Key& key, F f) {
    const std::lock_guard lock(mutex_);
    auto& slot = known_[key];
    if (!slot) slot = make<R, A...>(std::move(f));
    return *std::static_pointer_cast<std::function<R(A...)>>(slot);
  }
  template <class F, class R, class... A>
  std::function<R(A...)> any(F f, std::function<R(A...)>*) {
    if (!is_xla_available()) return f;
    if constexpr (std::is_empty_v<F>)
      return cached<R, A...>(Key(std::type_index(typeid(F))), std::move(f));
    else
      return *make<R, A...>(std::move(f));
  }

  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<void>> known_;
};

}  // namespace tpubridge
