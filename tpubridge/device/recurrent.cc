// The whole calls lstm, gru, rnn_tanh and rnn_relu: layers and directions, each one op. What is wrong with a
// call, or of no elements, is left to torch's own composition, which has the words for it.
#include "tpubridge/device/recurrent.h"

#include "tpubridge/device/compute_type.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

using at::Tensor;
using lower::Cell;

struct WholeCall {
  Cell cell = Cell::lstm;
  Tensor x, batch_sizes;  // packed where the sizes are defined
  std::vector<Tensor> state, weights;
  bool biases = false, train = false, both_ways = false, batch_first = false;
  int64_t layers = 0;
  double dropout = 0;

  [[nodiscard]] bool packed() const { return batch_sizes.defined(); }
  [[nodiscard]] int64_t ways() const { return both_ways ? 2 : 1; }
  [[nodiscard]] bool projects() const { return state.size() == 2 && state[0].size(2) != state[1].size(2); }
  [[nodiscard]] size_t weights_each() const { return 2 + (biases ? 2 : 0) + (projects() ? 1 : 0); }
};

Cell cell_of(const std::string& name) {
  if (name == "aten::lstm") return Cell::lstm;
  if (name == "aten::gru") return Cell::gru;
  return name == "aten::rnn_tanh" ? Cell::tanh : Cell::relu;
}

WholeCall read_call(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> args) {
  WholeCall w;
  w.cell = cell_of(op.schema().name());
  const bool packed = op.schema().overload_name() == "data";
  size_t next = 0;
  w.x = args[next++].toTensor();
  if (packed) w.batch_sizes = args[next++].toTensor();
  const c10::IValue& state = args[next++];
  w.state = state.isTensor() ? std::vector<Tensor>{state.toTensor()} : state.toTensorVector();
  w.weights = args[next++].toTensorVector();
  w.biases = args[next++].toBool();
  w.layers = args[next++].toInt();
  w.dropout = args[next++].toDouble();
  w.train = args[next++].toBool();
  w.both_ways = args[next++].toBool();
  w.batch_first = !packed && args[next].toBool();
  return w;
}

bool has_sizes(const Tensor& t, std::initializer_list<int64_t> sizes) {
  return t.sizes() == c10::IntArrayRef(sizes.begin(), sizes.size());
}

// Whether the sizes of the batches are what the data has.
bool sizes_fit(const WholeCall& w, int64_t batch) {
  const Tensor& s = w.batch_sizes;
  if (!s.device().is_cpu() || s.scalar_type() != at::kLong || s.dim() != 1 || !s.is_contiguous())
    return false;
  const c10::ArrayRef<int64_t> n(s.const_data_ptr<int64_t>(), static_cast<size_t>(s.numel()));
  int64_t sum = 0;
  for (size_t i = 0; i < n.size(); ++i) {
    if (n[i] < 1 || n[i] > (i == 0 ? batch : n[i - 1])) return false;
    sum += n[i];
  }
  return !n.empty() && n[0] == batch && sum == w.x.size(0);
}

bool fits(const WholeCall& w) {
  const size_t states = w.cell == Cell::lstm ? 2 : 1;
  if (!is_tpu(w.x) || w.x.dim() != (w.packed() ? 2 : 3) || !w.x.is_floating_point() || w.layers < 1)
    return false;
  if (w.state.size() != states || w.dropout < 0 || w.dropout > 1) return false;
  auto alike = [&](const Tensor& t) {
    return t.defined() && t.device() == w.x.device() && t.scalar_type() == w.x.scalar_type() && t.numel() > 0;
  };
  if (!alike(w.x) || !std::all_of(w.state.begin(), w.state.end(), alike)) return false;
  if (!std::all_of(w.weights.begin(), w.weights.end(), alike)) return false;
  const int64_t parts = w.layers * w.ways();
  if (w.state[0].dim() != 3 || w.state.back().dim() != 3) return false;
  const int64_t batch = w.state[0].size(1), out = w.state[0].size(2), hidden = w.state.back().size(2);
  for (const Tensor& s : w.state)
    if (s.size(0) != parts || s.size(1) != batch) return false;
  if (w.packed() ? !sizes_fit(w, batch) : w.x.size(w.batch_first ? 0 : 1) != batch) return false;
  const size_t each = w.weights_each();
  if (w.weights.size() != static_cast<size_t>(parts) * each) return false;
  const int64_t gates = lower::gates_of(w.cell) * hidden;
  for (size_t i = 0; i < static_cast<size_t>(parts); ++i) {
    const Tensor* t = &w.weights[i * each];
    const int64_t inputs = i < static_cast<size_t>(w.ways()) ? w.x.size(-1) : out * w.ways();
    if (!has_sizes(t[0], {gates, inputs}) || !has_sizes(t[1], {gates, out})) return false;
    if (w.biases && (!has_sizes(t[2], {gates}) || !has_sizes(t[3], {gates}))) return false;
    if (w.projects() && !has_sizes(t[each - 1], {out, hidden})) return false;
  }
  return true;
}

// Packed rows as [time, batch, …] and back. Where they lie is computed on the device: other sizes are the
// same program.
struct Packing {
  explicit Packing(const WholeCall& w) : steps(w.batch_sizes.size(0)), batch(w.state[0].size(1)) {
    sizes = w.batch_sizes.to(w.x.device());
    const auto counted = w.x.options().dtype(at::kLong).requires_grad(false);
    const Tensor ends = sizes.cumsum(0), begins = ends - sizes;
    const int64_t rows = w.x.size(0);
    to_padded = (begins.unsqueeze(1) + at::arange(batch, counted)).clamp_max(rows - 1).view(-1);
    const Tensor row = at::arange(rows, counted);
    const Tensor step = (ends.unsqueeze(0) <= row.unsqueeze(1)).sum(1);
    to_packed = step * batch + row - begins.index_select(0, step);
  }
  [[nodiscard]] Tensor padded(const Tensor& x) const {
    return x.index_select(0, to_padded).view({steps, batch, -1});
  }
  [[nodiscard]] Tensor packed(const Tensor& x) const {
    return x.reshape({steps * batch, -1}).index_select(0, to_packed);
  }
  int64_t steps, batch;
  Tensor sizes, to_padded, to_packed;
};

// Output, last h, last c.
RecurrentResult run(const WholeCall& w) {
  std::optional<Packing> packing;
  if (w.packed()) packing.emplace(w);
  Tensor x = packing ? packing->padded(w.x) : w.batch_first ? w.x.transpose(0, 1) : w.x;
  std::vector<Tensor> h, c;
  const size_t each = w.weights_each();
  for (int64_t layer = 0; layer < w.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t way = 0; way < w.ways(); ++way) {
      const int64_t part = layer * w.ways() + way;
      const Tensor* t = &w.weights[static_cast<size_t>(part) * each];
      RecurrentLayer l{w.cell, way == 1, x, w.state[0].select(0, part), {}, t[0], t[1], {}, {}, {}, {}};
      if (w.cell == Cell::lstm) l.c = w.state[1].select(0, part);
      if (w.biases) l.b_ih = t[2], l.b_hh = t[3];
      if (w.projects()) l.w_hr = t[each - 1];
      if (packing) l.sizes = packing->sizes;
      const RecurrentResult r = run_layer(l);
      outputs.push_back(r.all);
      h.push_back(r.h);
      if (r.c.defined()) c.push_back(r.c);
    }
    x = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    if (w.dropout != 0 && w.train && layer + 1 < w.layers) x = at::dropout(x, w.dropout, true);
  }
  x = packing ? packing->packed(x) : w.batch_first ? x.transpose(0, 1) : x;
  return {x, at::stack(h), c.empty() ? Tensor() : at::stack(c)};
}

void run_or_compose(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const WholeCall w = read_call(op, torch::jit::last(*stack, count));
  if (!fits(w)) return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  RecurrentResult r = run(w);
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, std::move(r.all), std::move(r.h));
  if (r.c.defined()) torch::jit::push(*stack, std::move(r.c));
}

void recurrent(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  in_compute_type(op, stack, run_or_compose);
}

void implement_all(torch::Library& m) {
  for (const char* name : {"lstm", "gru", "rnn_tanh", "rnn_relu"})
    for (const char* form : {".input", ".data"})
      m.impl((std::string(name) + form).c_str(), torch::CppFunction::makeFromBoxedFunction<&recurrent>());
}

}  // namespace

// Without autograd (inference mode) the same.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { implement_all(m); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { implement_all(m); }

}  // namespace tpubridge::device
