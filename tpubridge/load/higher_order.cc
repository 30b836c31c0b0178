// Nodes with graphs of their own. Conditions are read on the host, so they wait for their value.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/load/prepared.h"

namespace tpubridge::exported {
namespace {

using c10::IValue;
using Values = std::vector<IValue>;

[[noreturn]] void form_error() {
  throw FileError("its arguments are not those that torch.export writes", {}, "", Code::invalid_argument);
}

const Arg& input_at(const Step& step, size_t i) {
  if (i >= step.node->inputs.size()) form_error();
  return step.node->inputs[i].arg;
}
const PreparedGraph& graph_at(const Step& step, size_t i) {
  if (i >= step.graphs.size()) form_error();
  return *step.graphs[i];
}
// The values of the inputs from the i-th on.
Values values_from(const Step& step, size_t i, const Frame& frame) {
  Values out;
  for (; i < step.node->inputs.size(); ++i) values_of(step.node->inputs[i].arg, frame, out);
  return out;
}
bool truth(const IValue& v) {
  if (v.isTensor()) return v.toTensor().item<bool>();
  if (v.isBool()) return v.toBool();
  if (v.isInt()) return v.toInt() != 0;
  form_error();
}

// Values of a graph to the outputs of its node, lists taken apart.
void give(const Step& step, Frame& frame, const Values& values) {
  size_t next = 0;
  const auto place = [&](const Arg& output, auto&& self) -> void {
    if (output.kind == ArgKind::list) {
      for (const auto& item : output.items) self(item, self);
      return;
    }
    if (next >= values.size()) form_error();
    put(output, values[next++], frame);
  };
  for (const auto& output : step.node->outputs) place(output, place);
}

void run_with_grad_mode(const Step& step, Frame& frame) {
  const Arg& enabled = input_at(step, 0);
  if (enabled.kind != ArgKind::boolean || input_at(step, 1).kind != ArgKind::graph) form_error();
  // Inside somebody's no_grad a part that the export saw with gradients must not switch them on.
  const at::AutoGradMode mode(enabled.number != 0 && at::GradMode::is_enabled());
  give(step, frame, graph_at(step, 0).run(frame.context, values_from(step, 2, frame)));
}

class AutocastScope {
 public:
  AutocastScope(at::DeviceType device, bool on, at::ScalarType type)
      : device_(device),
        on_(at::autocast::is_autocast_enabled(device)),
        type_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, on);
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, on_);
    at::autocast::set_autocast_dtype(device_, type_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType device_;
  bool on_;
  at::ScalarType type_;
};

// (device type, dtype, enabled, cache_enabled, graph, values…)
void run_with_autocast(const Step& step, Frame& frame) {
  if (input_at(step, 2).kind != ArgKind::boolean || input_at(step, 4).kind != ArgKind::graph) form_error();
  const at::DeviceType device = frame.context.device.type();
  const Arg& type = input_at(step, 1);
  const auto dtype = type.kind == ArgKind::dtype ? torch_dtype(type.number) : std::nullopt;
  const AutocastScope scope(device, input_at(step, 2).number != 0,
                            dtype.value_or(at::autocast::get_autocast_dtype(device)));
  give(step, frame, graph_at(step, 0).run(frame.context, values_from(step, 5, frame)));
}

// (condition, graph, graph, values…)
void run_cond(const Step& step, Frame& frame) {
  if (input_at(step, 1).kind != ArgKind::graph || input_at(step, 2).kind != ArgKind::graph) form_error();
  Values condition;
  values_of(input_at(step, 0), frame, condition);
  if (condition.size() != 1) form_error();
  const auto& taken = graph_at(step, truth(condition.front()) ? 0 : 1);
  give(step, frame, taken.run(frame.context, values_from(step, 3, frame)));
}

// (condition graph, body graph, carried values, values that stay)
void run_while(const Step& step, Frame& frame) {
  if (input_at(step, 0).kind != ArgKind::graph || input_at(step, 1).kind != ArgKind::graph) form_error();
  Values carried;
  values_of(input_at(step, 2), frame, carried);
  const Values stay = values_from(step, 3, frame);
  const auto all = [&] {
    Values out = carried;
    out.insert(out.end(), stay.begin(), stay.end());
    return out;
  };
  for (;;) {
    const Values condition = graph_at(step, 0).run(frame.context, all());
    if (condition.size() != 1) form_error();
    if (!truth(condition.front())) break;
    Values next = graph_at(step, 1).run(frame.context, all());
    if (next.size() != carried.size()) form_error();
    carried = std::move(next);
  }
  give(step, frame, carried);
}

// A graph that is only called: checkpointed, or shared by several places.
void run_plain(const Step& step, Frame& frame) {
  Values inputs;
  for (const auto& input : step.node->inputs)
    if (input.arg.kind != ArgKind::graph && input.arg.kind != ArgKind::text)
      values_of(input.arg, frame, inputs);
  give(step, frame, graph_at(step, 0).run(frame.context, std::move(inputs)));
}

}  // namespace

Kernel higher_order_kernel(const std::string& target) {
  static const std::map<std::string, Kernel> all = {
      {"torch.ops.higher_order.wrap_with_set_grad_enabled", run_with_grad_mode},
      {"torch.ops.higher_order.wrap_with_autocast", run_with_autocast},
      {"torch.ops.higher_order.cond", run_cond},
      {"torch.ops.higher_order.while_loop", run_while},
      {"torch.ops.higher_order.invoke_subgraph", run_plain},
  };
  const auto at = all.find(target);
  return at == all.end() ? nullptr : at->second;
}

}  // namespace tpubridge::exported
