// Fuzzing of compiled steps. A seed gives a case, which is data: a small model, an optimizer, a step, and
// what happens between its calls. Three worlds run it (the CPU, the device uncompiled, the device compiled)
// and must look alike after every act.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tpubridge::fuzz {

enum class Piece { linear, tied, batch_norm, layer_norm, dropout, relu, tanh, gelu };
struct Model {
  int64_t features = 3;                         // in and out of every piece
  std::vector<Piece> pieces = {Piece::linear};  // the first is always a linear one
  int frozen = -1;                              // the parameter that begins without gradients
};

enum class Rule { sgd, adam, adamw, rmsprop, adagrad, fused_sgd, fused_adam, fused_adamw };
struct Optimizer {
  Rule rule = Rule::sgd;
  double lr = 0.05, momentum = 0, weight_decay = 0;  // momentum: also the first beta
  bool flag = false;                                 // nesterov, amsgrad, centered
};

enum class Goal { train, backward, inference };
enum class Zero { nowhere, begin, begin_zeros, end };      // where zero_grad() is called; _zeros: not to none
enum class Form { device, host, host_slice, host_float };  // how the inputs reach the step
enum class Extra { none, average, counter };               // a captured tensor that the step updates
enum class Write { none, add, copy, slice };               // what the step does to its third argument
enum class Nested { none, inner_named, both_named };       // which of two steps names model and optimizer
enum class Named { all, modules, optimizers, none };       // what the steps are told of
// Where an object with plain members lies that the step reads.
enum class Place { nowhere, member, shared, owned, listed, global, local_static, far, thread, module };
enum Returns : unsigned { kLoss = 1, kGradient = 2, kView = 4, kOutput = 8, kArgument = 16 };

struct Step {
  Goal goal = Goal::train;
  Zero zero = Zero::begin;
  Form form = Form::device;
  Extra extra = Extra::none;
  Write write = Write::none;
  Nested nested = Nested::none;
  Named named = Named::all;
  Place place = Place::nowhere;
  unsigned returns = kLoss;
  bool halves = false;           // the batch in two halves whose gradients add up
  bool clip = false;             // tpubridge::clip_grad_norm_
  bool schedule = false;         // a scheduler is stepped inside
  bool draws = false;            // random numbers that nobody uses
  bool noise = false;            // random numbers that count
  bool checkpointed = false;     // the forward pass
  bool default_type = false;     // makes a tensor of the default type
  bool host_number = false;      // multiplies by a captured 0-d tensor of the host
  bool captured_number = false;  // multiplies by a captured double
  bool twice = false;            // the optimizer steps twice
  bool busy = false;             // counts its calls in what it captures
  bool rate = false;             // multiplies the loss by 1 + the learning rate
  bool table = false;            // adds a slice of a captured host tensor; where it begins is a captured int
};

enum class Do {
  // Calls.
  call,
  call_throws,   // at the place `which` of the step: nothing has happened
  call_limited,  // with too little memory: nothing has happened
  second,        // another compiled step over the same model
  prepare,       // nothing has happened
  many,          // several calls at once
  // How later calls are made.
  rows,
  factor,  // a number among the arguments
  write_to,
  same,
  keep,
  thread,
  no_grad,
  argument_grad,
  // The optimizer.
  zero_grad,
  optimizer_step,
  schedule,
  hold_state,   // while it becomes other tensors
  clear_state,  // as if it were new
  lr,
  weight_decay,
  momentum,
  // The model.
  freeze,
  mode,
  module_number,
  module_flag,
  write_view,
  swap,
  set_data,
  save_load,
  // Gradients.
  drop_gradient,
  give_gradient,
  scale_gradient,
  // Tensors that are held while the step goes on.
  hold_gradient,
  hold_parameter,
  hold_result,
  // What else the step captures.
  replace_extra,
  scale_extra,
  host_number,
  captured_number,
  table_start,
  table_write,
  default_type,
  plain,  // one of the members of the plain object
};
inline constexpr int kActs = static_cast<int>(Do::plain) + 1;

struct Act {
  Do what = Do::call;
  int which = 0;
  double value = 0;
};

struct Case {
  uint64_t seed = 0;
  Model model;
  Optimizer optimizer;
  Step step;
  std::vector<Act> acts;
  bool looks = true;  // after every act; otherwise after the last one alone: nothing is read on the way

  // The CPU draws other numbers.
  [[nodiscard]] bool random() const;
};

// The first thing that two worlds disagree about.
struct Difference {
  size_t act = 0;
  std::string what;    // "gradient of parameter 1"
  std::string kind;    // "gradient": failures of one kind are counted together
  std::string worlds;  // "compiled, traced"
  std::string text;    // both values
};

[[nodiscard]] Case generate(uint64_t seed);
// TPUBRIDGE_FUZZ_WITHOUT=freeze,schedule,version: acts and parts of the step that generate() leaves out, and
// kinds of differences that do not count.
[[nodiscard]] bool left_out(const std::string& name);
[[nodiscard]] const char* name_of(Do act);
[[nodiscard]] std::string as_program(const Case& c);
// `why_not` becomes the reason where the case ended early because it says nothing: no world can run its step,
// or its numbers ran away.
[[nodiscard]] std::optional<Difference> run(const Case& c, std::string* why_not = nullptr);
// A smaller case that fails in the same way; `difference` becomes its own.
[[nodiscard]] Case shrink(Case c, Difference& difference, double seconds);

}  // namespace tpubridge::fuzz
