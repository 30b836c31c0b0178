// The engine under a compiled model, with the options that its compiler wants.
#include "tpubridge/backend/compiled_model.h"

#include <torch/nn/module.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <sstream>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/config/runtime.h"
#include "tpubridge/device/bytes.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/options.h"
#include "tpubridge/mesh/partitioned.h"
#include "tpubridge/step/compile.h"

namespace tpubridge::compiler {
namespace {

std::string shown(const at::Tensor& t) {
  std::ostringstream out;
  if (t.defined())
    out << t.scalar_type() << t.sizes();
  else
    out << "no tensor";
  return out.str();
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

// Sizes and type, and no memory.
at::Tensor like(const at::Tensor& t) {
  return t.defined() ? at::empty(t.sizes(), t.options().device(at::kMeta)) : t;
}

c10::Device device_of(const torch::nn::Module& model) {
  for (const auto& p : model.parameters())
    if (device::is_tpu(p)) return p.device();
  return c10::Device(c10::DeviceType::PrivateUse1, 0);
}

exec::CompileSettings settings_of(const TPUConfig& config) {
  exec::CompileSettings out(compile_options(config));
  out.deadline = std::chrono::seconds(config.compilation_timeout_seconds.value());
  out.disk = config.enable_xla_cache;
  return out;
}

}  // namespace

struct Core::Impl {
  std::weak_ptr<torch::nn::Module> model;
  std::vector<std::weak_ptr<torch::nn::Module>> parts;  // whose train/eval decides about the program
  CompilationMode mode;
  bool available, dynamic_shapes, strict;
  c10::Device device{at::kCPU};
  exec::CompileSettings settings;
  std::unique_ptr<step::Engine> engine;            // torch_xla, xla
  std::unique_ptr<mesh::Partitioned> partitioned;  // pjit
  std::shared_ptr<const void> program;             // compiled ahead of time
  std::atomic<bool> failed{false};
  mutable std::mutex mutex;                     // guards what follows
  std::optional<std::vector<at::Tensor>> only;  // inputs must be like these; on the meta device
  CompiledModelStats stats;

  template <class F>
  auto compiling(const exec::CompileSettings& how, F&& f) {
    const exec::CompileScope scope(how);
    const at::NoGradGuard no_history;  // results have none, and a sample compiles what a call runs
    auto out = f();
    const std::lock_guard lock(mutex);
    stats.compilation_time += scope.seconds();
    stats.programs += scope.compiles();
    return out;
  }

  std::shared_ptr<const void> prepare(const std::vector<at::Tensor>& tensors, const Run& run) {
    return partitioned ? partitioned->prepare(tensors, run) : engine->prepare(tensors, run);
  }
};

Core::Core(const std::shared_ptr<torch::nn::Module>& model, const TPUConfig& config, CompilationMode mode,
           bool available)
    : impl_(std::make_unique<Impl>()) {
  Impl& m = *impl_;
  m.model = model;
  for (const auto& part : model->modules()) m.parts.push_back(part);
  m.mode = mode;
  m.available = available;
  m.dynamic_shapes = config.enable_xla_dynamic_shapes;
  m.strict = config.enable_strict_validation;
  m.stats.model = model->name();
  m.stats.mode = available ? std::string(to_string(mode)) : "traced";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  m.stats.timestamp = std::chrono::duration<double>(now).count();
  m.stats.model_size = bytes_of(model->parameters()) + bytes_of(model->buffers());
  if (!available) return;
  m.device = device_of(*model);
  m.settings = settings_of(config);
  if (mode == CompilationMode::pjit)
    m.partitioned = std::make_unique<mesh::Partitioned>();
  else
    m.engine = std::make_unique<step::Engine>(StepOptions{.name = model->name()});
}
Core::~Core() = default;

at::Tensor Core::place(const at::Tensor& input) const {
  if (!impl_->available || !input.defined()) return input;
  return impl_->partitioned ? mesh::Partitioned::place(input) : input.to(impl_->device);
}

void Core::prepare(const std::vector<at::Tensor>& tensors, const Run& run) {
  Impl& m = *impl_;
  m.program = m.compiling(m.settings, [&] { return m.prepare(tensors, run); });
}

double Core::compile_afresh(const std::vector<at::Tensor>& tensors, const Run& run) {
  Impl& m = *impl_;
  exec::CompileSettings afresh = m.settings;
  afresh.afresh = true;
  const exec::CompileScope outer(afresh);
  const at::NoGradGuard no_history;
  (void)m.prepare(tensors, run);
  return outer.seconds();
}

void Core::give_up() {
  impl_->failed = true;
  const std::lock_guard lock(impl_->mutex);
  impl_->stats.mode = "traced";
}

void Core::fix_shapes(const std::vector<at::Tensor>& tensors) {
  const std::lock_guard lock(impl_->mutex);
  impl_->only.emplace();
  for (const auto& t : tensors) impl_->only->push_back(like(t));
}

bool Core::begin_call(const std::vector<at::Tensor>& tensors) {
  Impl& m = *impl_;
  if (!m.dynamic_shapes) {
    std::unique_lock lock(m.mutex);
    if (!m.only) {
      lock.unlock();
      fix_shapes(tensors);
      lock.lock();
    }
    const auto& only = *m.only;
    for (size_t i = 0; i < std::max(tensors.size(), only.size()); ++i) {
      const at::Tensor a = i < tensors.size() ? tensors[i] : at::Tensor();
      const at::Tensor b = i < only.size() ? only[i] : at::Tensor();
      if (alike(a, b)) continue;
      throw XLACompilationError("XLA compilation failed: input " + std::to_string(i) + " is " + shown(a) +
                                    ", compiled for " + shown(b) + ", and dynamic shapes are disabled",
                                {{"input", std::to_string(i)}, {"given", shown(a)}, {"compiled", shown(b)}},
                                "Pad it to that shape, or set enable_xla_dynamic_shapes.",
                                Code::invalid_argument);
    }
  }
  {
    const std::lock_guard lock(m.mutex);
    ++m.stats.calls;
  }
  if (!m.available || m.failed) return true;
  const auto model = m.model.lock();
  if (!at::GradMode::is_enabled() || !model || !model->is_training()) return false;
  for (const auto& p : model->parameters())
    if (p.requires_grad()) return true;
  return false;
}

std::vector<at::Tensor> Core::call(const std::vector<at::Tensor>& tensors, std::vector<uint64_t> others,
                                   const Run& run, std::shared_ptr<void>& form) {
  Impl& m = *impl_;
  for (const auto& part : m.parts) {
    const auto alive = part.lock();
    others.push_back(alive && alive->is_training());
  }
  try {
    return m.compiling(m.settings, [&] {
      return m.partitioned ? m.partitioned->call(tensors, others, run, form)
                           : m.engine->call(tensors, others, run, form);
    });
  } catch (const XLACompilationTimeoutError&) {
    throw;
  } catch (const XLACompilationError& e) {
    if (m.strict) throw;
    log::warn("compiler.failed", {{"model", stats().model}, {"mode", stats().mode}, {"problem", e.what()}});
  }
  give_up();
  const at::NoGradGuard no_history;
  return run();
}

bool Core::is_of(const torch::nn::Module* model) const { return impl_->model.lock().get() == model; }
bool Core::given_up() const { return impl_->failed; }

CompiledModelStats Core::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

std::vector<Shape> Core::partition() const {
  return impl_->partitioned ? impl_->partitioned->report().parameters : std::vector<Shape>();
}

}  // namespace tpubridge::compiler
