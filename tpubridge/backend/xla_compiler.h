// Compiles models: traced and replayed, ahead of time, or over all devices, by the configuration's
// compilation_mode.
//
//   XLACompiler compiler(config.hardware.tpu);
//   auto compiled = compiler.compile_model(model, sample);        // model: a torch::nn holder or shared_ptr
//   auto y = compiled(x);
//   std::puts(compiler.get_compilation_stats().to_json().c_str());
//
// torch_xla  the program is compiled by the first call, and replayed when two calls were alike
// xla        compiled for inputs like the sample by compile_model(): calls like it compile nothing
// pjit       one program over all devices of the process, split along the batch (mesh/partitioned.h)
//
// A sample is a tensor, or a std::tuple with one entry for each argument of forward(). The model is brought
// to the device, where it is not there, and otherwise left as it is. Options (level, flags, deadline, disk)
// travel with each compile; those of the process stay.
//
// What cannot be compiled throws XLACompilationError in strict mode (enable_strict_validation); otherwise the
// log says so (compiler.failed) and the model is traced. Past compilation_timeout_seconds
// XLACompilationTimeoutError is thrown, too little memory is TPUMemoryError, in either mode.
#pragma once

#include "tpubridge/backend/compiled_model.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/lru.h"

namespace tpubridge {

struct CompilerStats {
  LruStats compilation_cache;  // compiled models; hit_rate() and utilization() are functions
  bool xla_available = false;  // there is a plugin that compiles
  std::string compilation_mode;
  int64_t cache_max_size = 0;
  int64_t cached_graphs = 0;                    // compiled programs in memory, of the whole process
  std::vector<CompiledModelStats> models = {};  // those in the cache, the oldest first

  [[nodiscard]] std::string to_json() const;
};

struct CompilationBenchmark {
  double min_time = 0, max_time = 0, avg_time = 0, total_time = 0;  // seconds in the compiler
  int runs = 0;
};

class XLACompiler {
 public:
  // Opens the device. Where there is no plugin at all, models are returned as they are, with a warning.
  explicit XLACompiler(const TPUConfig& config = {});
  explicit XLACompiler(const Config& config) : XLACompiler(config.hardware.tpu) {}
  ~XLACompiler();

  struct NoSample {};
  template <class Model, class Sample = NoSample>
  [[nodiscard]] CompiledModel<Model> compile_model(Model model, Sample sample = {}, bool use_cache = true) {
    const auto inputs = arguments(std::move(sample));
    const auto begun = begin(pointer(model), tensors_of(inputs), use_cache);
    CompiledModel<Model> out(model, begun.core);
    if constexpr (!std::is_same_v<Sample, NoSample>) {
      if (!begun.known) prepare(*begun.core, inputs, model);
    }
    finish(begun);
    return out;
  }

  // In evaluation mode, without gradients.
  template <class Model, class Sample = NoSample>
  [[nodiscard]] CompiledModel<Model> optimize_for_inference(Model model, Sample sample = {}) {
    set_inference(pointer(model));
    return compile_model(std::move(model), std::move(sample));
  }
  // In training mode, with gradients.
  template <class Model, class Sample = NoSample>
  [[nodiscard]] CompiledModel<Model> optimize_for_training(Model model, Sample sample = {}) {
    set_training(pointer(model));
    return compile_model(std::move(model), std::move(sample));
  }

  // Compiles the model again and again, with nothing from memory or disk and nothing kept.
  template <class Model, class Sample>
  [[nodiscard]] CompilationBenchmark benchmark_compilation(Model model, Sample sample, int num_runs = 3) {
    auto inputs = arguments(std::move(sample));
    const auto core = fresh_core(pointer(model), num_runs);
    std::vector<double> seconds;
    for (int i = 0; i < num_runs; ++i)
      seconds.push_back(
          with(*core, inputs, model, [&](auto& t, auto& run) { return core->compile_afresh(t, run); }));
    return summary(seconds);
  }

  [[nodiscard]] CompilerStats get_compilation_stats() const;
  void clear_cache();  // compiled models, and the programs in memory
  [[nodiscard]] std::string repr() const;
  [[nodiscard]] const TPUConfig& config() const { return config_; }  // nothing left to detection

 private:
  using ModulePtr = std::shared_ptr<torch::nn::Module>;
  using Key = std::pair<uint64_t, uint64_t>;
  struct Begun {
    std::shared_ptr<compiler::Core> core;
    std::optional<Key> key = {};  // none: it is not to be cached
    bool known = false;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.first ^ (k.second * 31); }
  };

  template <class Model>
  static ModulePtr pointer(const Model& model) {
    if constexpr (requires { model.is_empty(); })
      return model.is_empty() ? nullptr : model.ptr();
    else
      return model;
  }
  // The arguments of forward() as a tuple.
  template <class Sample>
  static auto arguments(Sample sample) {
    if constexpr (std::is_same_v<Sample, NoSample>)
      return std::tuple<>();
    else if constexpr (tree::Tuple<Sample> && !tree::List<Sample>)
      return sample;
    else
      return std::make_tuple(std::move(sample));
  }
  template <class Inputs>
  static std::vector<at::Tensor> tensors_of(const Inputs& inputs) {
    std::vector<at::Tensor> out;
    auto take = [&](const at::Tensor& t) { out.push_back(t); };
    auto ignore = [](uint64_t) {};
    std::apply([&](const auto&... input) { (tree::visit(input, take, ignore), ...); }, inputs);
    return out;
  }
  // Calls `use` with the placed tensors and the function that runs the model on them.
  template <class Inputs, class Model, class Use>
  static auto with(compiler::Core& core, Inputs inputs, Model& model, const Use& use) {
    auto place = [&](at::Tensor& t) { t = core.place(t); };
    auto ignore = [](uint64_t) {};
    std::apply([&](auto&... input) { (tree::visit(input, place, ignore), ...); }, inputs);
    const auto tensors = tensors_of(inputs);
    const compiler::Core::Run run = [&] {
      auto result = std::apply([&](auto&... input) { return model->forward(input...); }, inputs);
      std::vector<at::Tensor> out;
      auto detach = [&](at::Tensor& t) { out.push_back(t.defined() ? t.detach() : t); };
      tree::visit(result, detach, ignore);
      return out;
    };
    return use(tensors, run);
  }
  template <class Inputs, class Model>
  void prepare(compiler::Core& core, const Inputs& inputs, Model& model) {
    with(core, inputs, model, [&](auto& tensors, auto& run) { try_to_prepare(core, tensors, run); });
  }

  [[nodiscard]] Begun begin(const ModulePtr& model, const std::vector<at::Tensor>& sample, bool use_cache);
  void finish(const Begun& begun);
  void try_to_prepare(compiler::Core& core, const std::vector<at::Tensor>& tensors,
                      const compiler::Core::Run& run) const;
  [[nodiscard]] std::shared_ptr<compiler::Core> fresh_core(const ModulePtr& model, int num_runs) const;
  [[nodiscard]] CompilationMode mode_here() const;
  [[nodiscard]] Key key_of(torch::nn::Module& model, const std::vector<at::Tensor>& sample) const;
  static void set_inference(const ModulePtr& model);
  static void set_training(const ModulePtr& model);
  static CompilationBenchmark summary(const std::vector<double>& seconds);

  TPUConfig config_;
  bool available_ = false;
  LruCache<Key, std::shared_ptr<compiler::Core>, KeyHash> cache_;
};

}  // namespace tpubridge
