// One of the worlds that run a case: a model, an optimizer and everything else that its step captures, and
// apart from it what is needed to call the step.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>

#include "tests/device/check.h"
#include "tests/step/fuzz.h"

namespace tpubridge::fuzz {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// What programs keep beside their tensors.
struct Plain {
  double gain = 1;
  float shift = 0;
  int repeats = 1;
  bool flips = false;
  std::optional<double> most;
};
struct Owner {
  std::string name = "settings of a step, a name that is not stored in the string itself";
  Plain plain;
};
struct Farther {
  int64_t beside = 7;
  std::unique_ptr<Plain> plain = std::make_unique<Plain>();
};

struct Net : torch::nn::Module {
  explicit Net(const Model& m);
  Tensor forward(Tensor x);

  torch::nn::Linear first = nullptr;
  std::vector<std::function<Tensor(const Tensor&)>> pieces;
  double scale = 1;
  bool negates = false;
  std::vector<Plain> plains = std::vector<Plain>(2);
};

// Thrown in the middle of a step.
struct Stop : std::runtime_error {
  Stop() : std::runtime_error("stop") {}
};

// One thing to look at: facts (type, sizes, requires_grad) and the value.
struct Seen {
  std::string what, kind, facts;
  Tensor value = {};       // on the host; undefined where facts say it all
  bool of_device = false;  // the CPU has another or none
};

using Body = std::function<Tensors(Tensor x, Tensor y, Tensor out, double factor, int64_t stop)>;

// Calls of compiled steps in all worlds so far: a fuzzer of steps that are never replayed would show nothing.
struct Calls {
  int64_t all = 0, replayed = 0, looped = 0;
};
[[nodiscard]] Calls& calls();

// What the step captures, all of it by one pointer.
struct Scene {
  Scene(const Case& c, torch::Device device, bool on_cpu);
  Tensors body(const Tensor& x, const Tensor& y, Tensor out, double factor, int64_t stop);
  Tensors other_body(const Tensor& x, const Tensor& y);
  [[nodiscard]] Plain& plain();

  const Case c;
  const torch::Device device;
  std::shared_ptr<Net> net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<torch::optim::StepLR> scheduler;
  Tensor extra, table, host_number;
  double captured_number = 1;
  int64_t start = 0;
  Plain settings;
  std::shared_ptr<Farther> far = std::make_shared<Farther>();
  std::shared_ptr<Plain> shared = std::make_shared<Plain>();
  std::unique_ptr<Owner> owned = std::make_unique<Owner>();
  std::vector<Plain> listed = std::vector<Plain>(3);
  int64_t calls = 0;  // of the step, where it is a busy one
};

struct World {
  enum class Kind { cpu, traced, compiled };
  World(const Case& c, Kind kind);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Everything but calls.
  void apply(const Act& act);
  // The arguments of call `number`; the same in every world.
  void make_arguments(uint64_t number);
  void call(int64_t stop = 0);
  // With arguments of its own; those of its last step stay.
  void call_many(uint64_t number, int64_t steps);
  void call_second();
  void prepare();
  [[nodiscard]] std::vector<Seen> look() const;

  const Case c;
  const Kind kind;
  const torch::Device device;
  const std::unique_ptr<Scene> scene;
  const std::shared_ptr<Net>& net = scene->net;
  const std::unique_ptr<torch::optim::Optimizer>& optimizer = scene->optimizer;
  Tensor& extra = scene->extra;
  Tensor base;  // a larger tensor whose part is the third argument
  std::vector<std::pair<std::string, Tensor>> held;
  Tensors held_state;  // kept, and not looked at: the CPU's optimizer may have others
  Tensor generator;    // state of the device's: every world has its own numbers

  // How calls are made.
  int64_t rows = 4;
  double factor = 1;
  int write_to = 0;
  bool singly = false;  // many() is made as so many calls
  bool same = false, keep = false, threaded = false, no_grad = false, argument_grad = false;
  Tensor x, y, out;
  Tensors returned;
  std::vector<std::pair<std::string, int64_t>> versions;  // how far the latest call moved them

 private:
  void in_place(const std::function<Tensors()>& run);
  void compile_steps();
  void save_and_load();
  void look_at_optimizer(std::vector<Seen>& all) const;
  [[nodiscard]] Tensor parameter(int which) const;
  [[nodiscard]] Tensors state_tensors() const;
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> counted() const;
  [[nodiscard]] std::string aliases(const Tensor& t) const;

  std::unique_ptr<CompiledStep<Body>> inner_, step_, second_;
};

[[nodiscard]] inline int64_t steps_of_many(const Act& a) {
  constexpr int64_t steps[] = {1, 2, 3, 7};
  return steps[a.which % 4];
}

// An option of the optimizer's groups by what it is; null where the class has none.
[[nodiscard]] double* option_of(torch::optim::OptimizerOptions& options, Do which);
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Optimizer& o, bool on_cpu,
                                                                      Tensors parameters);

}  // namespace tpubridge::fuzz
