// A model as XLACompiler gives it: called like the model, replayed instead of traced.
//
// In evaluation mode, or with gradients off, results carry no autograd history. A model in training mode with
// gradients on is traced at every call, so that backward works (compile the whole step with
// tpubridge::compile). Inputs may be on the host: they are brought to the model's device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/config/config.h"
#include "tpubridge/step/typed_call.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

// Of one compiled model.
struct CompiledModelStats {
  std::string model;            // its type
  double compilation_time = 0;  // seconds in the compiler, or loading from disk; 0 before the first program
  double timestamp = 0;         // when compile_model() was called: seconds since 1970
  int64_t model_size = 0;       // bytes of its parameters and buffers
  int64_t programs = 0;         // compiled for it, by the compiler itself
  int64_t calls = 0;
  std::string mode;  // "torch_xla", "xla", "pjit", or "traced" where it could not be compiled
};

namespace compiler {

// What equal compiled models share; knows the model only weakly, so that the cache keeps no dead one alive.
class Core {
 public:
  // `config` as resolved() gives it; not `available`: there is nothing that compiles.
  Core(const std::shared_ptr<torch::nn::Module>& model, const TPUConfig& config, CompilationMode mode,
       bool available);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  using Run = std::function<std::vector<at::Tensor>()>;
  [[nodiscard]] at::Tensor place(const at::Tensor& input) const;
  // Compiles for inputs like these, before anybody calls. Nothing of the model changes.
  void prepare(const std::vector<at::Tensor>& tensors, const Run& run);
  // Seconds of a compile that nothing known shortens.
  [[nodiscard]] double compile_afresh(const std::vector<at::Tensor>& tensors, const Run& run);
  void give_up();  // it cannot be compiled: traced from now on
  // From now on inputs have these sizes, where they may not vary.
  void fix_shapes(const std::vector<at::Tensor>& tensors);

  // Whether the model itself is to be called. Throws XLACompilationError for sizes that may not be.
  [[nodiscard]] bool begin_call(const std::vector<at::Tensor>& tensors);
  // As step::Engine's.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& tensors, std::vector<uint64_t> others,
                               const Run& run, std::shared_ptr<void>& form);

  [[nodiscard]] bool is_of(const torch::nn::Module* model) const;
  [[nodiscard]] bool given_up() const;
  [[nodiscard]] CompiledModelStats stats() const;
  [[nodiscard]] std::vector<Shape> partition() const;  // of pjit: what one device takes

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compiler

template <class Model>  // a holder, or a shared_ptr to a module
class CompiledModel {
 public:
  CompiledModel(Model model, std::shared_ptr<compiler::Core> core)
      : model_(std::move(model)), core_(std::move(core)) {}

  template <class... Args>
  auto operator()(Args... args) {
    std::vector<at::Tensor> tensors;
    auto place = [&](at::Tensor& t) { tensors.push_back(t = core_->place(t)); };
    auto ignore = [](uint64_t) {};
    (tree::visit(args, place, ignore), ...);
    if (core_->begin_call(tensors)) return model_->forward(args...);
    auto forward = [this](auto&... inputs) { return model_->forward(inputs...); };
    return step::typed_call(*core_, forward, args...);
  }
  template <class... Args>
  auto forward(Args... args) {
    return (*this)(std::move(args)...);
  }

  [[nodiscard]] Model& model() { return model_; }
  [[nodiscard]] auto operator->() { return &*model_; }
  [[nodiscard]] CompiledModelStats stats() const { return core_->stats(); }
  [[nodiscard]] const std::shared_ptr<compiler::Core>& core() const { return core_; }

 private:
  Model model_;
  std::shared_ptr<compiler::Core> core_;
};

}  // namespace tpubridge
