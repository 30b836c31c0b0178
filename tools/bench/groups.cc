// The groups of the reference's benchmark report, and the trainer over a bare loop. The reference's figures
// are those of their report of 2026-01-13 (a v5e, most of it time of Python), or of their guide.
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tools/bench/bench.h"
#include "tools/bench/measure.h"
#include "tpubridge/backend/memory_manager.h"
#include "tpubridge/backend/model_validation.h"
#include "tpubridge/backend/tpu_optimizer.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/backend/xla_integration.h"
#include "tpubridge/device/api.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/step/compile.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge::tools {
namespace {

constexpr double kMs = 1e-3, kUs = 1e-6;

torch::nn::Sequential small_model() {
  return torch::nn::Sequential(torch::nn::Linear(64, 32), torch::nn::ReLU(), torch::nn::Linear(32, 16));
}

class Benchmarks {
 public:
  explicit Benchmarks(bool quick) : watch_(quick), quick_(quick), backend_(std::make_shared<TPUBackend>()) {}

  void run(const std::string& group) {
    group_ = group;
    if (group == "configuration") configuration();
    if (group == "backend") backend();
    if (group == "optimizer") optimizer();
    if (group == "compiler") compiler();
    if (group == "memory") memory();
    if (group == "integration") integration();
    if (group == "validation") validation();
    if (group == "trainer") trainer();
  }
  [[nodiscard]] BenchReport report() && {
    return {backend_->get_device_info().device_name, std::move(figures_)};
  }

 private:
  void add(std::string name, double seconds, std::optional<double> reference, std::optional<double> aim,
           std::string what) {
    figures_.push_back({group_, std::move(name), std::move(what), seconds, "s", reference, aim});
  }

  void configuration() {
    add("config_creation", watch_.each([] { keep(Config()); }), 0.13 * kMs, 1 * kUs, "Config()");
    const Config config(Mode::training);
    add("serialization", watch_.each([&] { keep(config.to_json()); }), 1.31 * kMs, {}, "to_json()");
    add("json_round_trip", watch_.each([&] { keep(Config::from_json(config.to_json())); }), {}, 50 * kUs,
        "from_json(to_json())");
  }

  void backend() {
    TPUBackend& b = *backend_;
    add("backend_creation", watch_.each([] { keep(TPUBackend()); }), 0.13 * kMs, {},
        "TPUBackend(), where the device is open");
    add("model_preparation", watch_.fresh(small_model, [&](auto& m) { b.prepare_model(m); }), 0.88 * kMs, {},
        "of a model that is new");
    auto model = small_model();
    b.prepare_model(model);
    add("model_preparation_cached", watch_.each([&] { b.prepare_model(model); }), 1 * kUs, 1 * kUs,
        "of one that was prepared");
    const auto data = torch::randn({32, 64});
    add("data_preparation",
        watch_.fresh([] { return 0; },
                     [&](int) {
                       const auto there = b.prepare_data(data);
                       b.synchronize();
                     }),
        {}, {}, "32×64 to the device, and waited for (the reference's 0.00 ms is a tensor that stays)");
    b.synchronize();
    add("synchronization", watch_.each([&] { b.synchronize(); }), 0.07 * kMs, 1 * kUs, "nothing pending");
  }

  void optimizer() {
    TPUOptimizer o(backend_);
    const auto sample = torch::randn({8, 64});
    add("inference_optimization",
        watch_.fresh(small_model, [&](auto& m) { keep(o.optimize_for_inference(m, sample)); }), 0.23 * kMs,
        {}, "moved, run and checked; its program was compiled before");
    add("training_optimization",
        watch_.fresh(small_model, [&](auto& m) { keep(o.optimize_for_training(m, sample)); }), 0.15 * kMs, {},
        "the same for training");
  }

  void compiler() {
    auto model = small_model();
    backend_->prepare_model(model);
    model->eval();
    const auto x = torch::randn({8, 64}, backend_->device());
    XLACompiler c(TPUConfig{});
    std::vector<double> compiles;
    for (int i = 0; i < watch_.slow_samples(); ++i)
      compiles.push_back(c.benchmark_compilation(model, x, 1).avg_time);
    add("compilation", median(std::move(compiles)), {}, {},
        "a real one, nothing kept (the reference's took 0.00 ms)");
    at::NoGradGuard no_grad;
    auto compiled = c.compile_model(model, x);
    for (int i = 0; i < 5; ++i) tpubridge::sync({compiled(x)});
    add("cache_access", watch_.each([&] { keep(c.compile_model(model, x)); }), {}, {},
        "compile_model() again");
    add("compiler_optimization", watch_.each([&] { keep(c.optimize_for_inference(model, x)); }), 0.02 * kMs,
        {}, "optimize_for_inference() again");
    add("replayed_call", watch_.each([&] { keep(compiled(x)); }), {}, {}, "the compiled model");
  }

  void memory() {
    TPUMemoryManager manager(*backend_);
    add("allocation", watch_.each([&] {
      keep(manager.allocate_tensor({64, 64}));
    }),
        0.55 * kMs, 2 * kUs, "allocate_tensor({64, 64})");
    const auto aligned = manager.allocate_tensor({64, 64}), odd = manager.allocate_tensor({63, 63});
    manager.synchronize();
    add("layout_aligned", watch_.each([&] { keep(manager.optimize_tensor_layout(aligned)); }), {}, {},
        "64×64 is as it should be");
    add("layout_padded",
        watch_.fresh([] { return 0; },
                     [&](int) {
                       const auto padded = manager.optimize_tensor_layout(odd);
                       manager.synchronize();
                     }),
        {}, {}, "63×63 to 64×64, computed");
    add("pool_creation",
        watch_.fresh([] { return 0; },
                     [&](int) {
                       manager.clear_pool(manager.create_memory_pool(10, {64, 64}));
                     }),
        0.02 * kMs, {}, "ten 64×64, allocated when it returns");
    const auto pool = manager.create_memory_pool(10, {64, 64});
    add("pool_take_and_return",
        watch_.each([&] { manager.return_tensor_to_pool(pool, *manager.get_tensor_from_pool(pool)); }), {},
        {}, "one tensor");
  }

  void integration() {
    add("device_manager_init", watch_.each([] { keep(XLADeviceManager()); }), 0.98 * kMs, {},
        "where the device is open");
    const auto manager = std::make_shared<XLADeviceManager>();
    add("distributed_init", watch_.each([&] { keep(XLADistributedTraining(manager)); }), {}, {}, "");
    add("optimizations_init", watch_.each([&] { keep(XLAOptimizations(manager)); }), {}, {}, "");
  }

  void validation() {
    const TPUConfig config;
    add("config_validation", watch_.each([&] { keep(validate_tpu_configuration(config)); }), 0.14 * kMs, {},
        "all fields");
    const auto model = small_model();
    const auto sample = torch::randn({8, 64});
    add("model_validation", watch_.each([&] { keep(validate_tpu_model(model, config, sample)); }), 2.41 * kMs,
        50 * kUs, "64-32-16 with a sample that is run on the CPU");
  }

  // Steps of the same compiled program over the same data: a loop that does nothing else, and the trainer
  // with everything that it does beside. They take turns.
  void trainer() {
    const int64_t part = quick_ ? 10 : 50, parts = quick_ ? 2 : 3;
    const auto x = torch::randn({1024, 256}), y = torch::randint(10, {1024}, torch::kLong);
    std::vector<double> bare, trained;
    for (int round = 0; round < (quick_ ? 1 : 5); ++round) {
      Loop loop(*backend_, x, y);
      for (int64_t i = 0; i <= parts; ++i) {
        const double s = seconds_of([&] { loop.steps(part); }) / static_cast<double>(part);
        if (i > 0) bare.push_back(s);
      }
      std::vector<double> seconds;
      train(*backend_, x, y, part, parts, seconds);
      trained.insert(trained.end(), seconds.begin(), seconds.end());
    }
    const double loop = median(bare), whole = median(trained);
    add("bare_step", loop, {}, {}, "a compiled step of a 256-512-10 network, batch 128, in a loop");
    add("trainer_step", whole, {}, {}, "the same in Trainer::train()");
    figures_.push_back(
        {group_, "trainer_overhead", "over the bare loop", (whole / loop - 1) * 100, "%", {}, 2.0});
  }

  static torch::nn::Sequential network() {
    return torch::nn::Sequential(torch::nn::Linear(256, 512), torch::nn::ReLU(), torch::nn::Linear(512, 10));
  }

  struct Loop {
    Loop(TPUBackend& backend, const torch::Tensor& x, const torch::Tensor& y)
        : device(backend.device()), model(backend.prepare_model(network())), data({x, y}, {.batch = 128}) {}
    void steps(int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        auto batch = data.next();
        if (!batch) batch = data.next();  // the end of an epoch
        last = step((*batch)[0].to(device), (*batch)[1].to(device));
      }
      keep(last.item<float>());
    }
    torch::Device device;
    torch::nn::Sequential model;
    TensorData data;
    optim::AdamW optimizer{model->parameters(), 1e-3};
    torch::Tensor last;
    std::function<torch::Tensor(torch::Tensor, torch::Tensor)> step = make();

    std::function<torch::Tensor(torch::Tensor, torch::Tensor)> make() {
      auto body = [this](const torch::Tensor& a, const torch::Tensor& b) {
        optimizer.zero_grad();
        auto loss = torch::cross_entropy_loss(model->forward(a), b);
        loss.backward();
        optimizer.step();
        return loss;
      };
      using Step = CompiledStep<decltype(body)>;
      auto compiled = std::make_shared<Step>(
          body, StepOptions{.modules = {model.ptr()}, .optimizers = {&optimizer}, .name = "bare"});
      return [compiled](torch::Tensor a, torch::Tensor b) { return (*compiled)(a, b); };
    }
  };

  // Seconds of a step in each part but the first, which traces.
  static void train(TPUBackend& backend, const torch::Tensor& x, const torch::Tensor& y, int64_t part,
                    int64_t parts, std::vector<double>& seconds) {
    auto model = backend.prepare_model(network());
    optim::AdamW optimizer(model->parameters(), 1e-3);
    TensorData data({x, y}, {.batch = 128});
    std::optional<std::chrono::steady_clock::time_point> last;
    TrainerOptions options{.steps = part * (parts + 1), .log_every = part};
    options.on_progress = [&](const Progress&) {
      const auto now = std::chrono::steady_clock::now();
      if (last)
        seconds.push_back(std::chrono::duration<double>(now - *last).count() / static_cast<double>(part));
      last = now;
    };
    Trainer trainer(
        model.ptr(), [&](const Batch& b) { return torch::cross_entropy_loss(model->forward(b[0]), b[1]); },
        optimizer, options);
    (void)trainer.train(data);
  }

  Stopwatch watch_;
  bool quick_;
  std::shared_ptr<TPUBackend> backend_;
  std::string group_;
  std::vector<BenchFigure> figures_;
};

}  // namespace

BenchReport run_benchmarks(const BenchOptions& options) {
  // A team of libtorch's threads would wait for whichever core is busy, which is not what is asked here.
  at::set_num_threads(1);
  Benchmarks benchmarks(options.quick);
  for (const std::string& group : options.groups.empty() ? bench_groups() : options.groups)
    benchmarks.run(group);
  return std::move(benchmarks).report();
}

}  // namespace tpubridge::tools
