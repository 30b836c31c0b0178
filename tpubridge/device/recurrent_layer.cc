// One layer of a recurrent net in one direction, under autograd.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "tpubridge/device/arguments.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/recurrent.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

using at::Tensor;
using lower::Cell;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In the order of the function's arguments, which autograd counts.
enum : size_t { kX, kH, kC, kWih, kWhh, kBih, kBhh, kWhr, kSizes, kInputs };

variable_list tensors_of(const RecurrentLayer& l) {
  return {l.x, l.h, l.c, l.w_ih, l.w_hh, l.b_ih, l.b_hh, l.w_hr, l.sizes};
}
RecurrentLayer layer_of(Cell cell, bool reversed, at::TensorList t) {
  return {cell, reversed, t[kX], t[kH], t[kC], t[kWih], t[kWhh], t[kBih], t[kBhh], t[kWhr], t[kSizes]};
}

Shape sized(const Tensor& like, std::vector<int64_t> dims) { return {shape_of(like).dtype, std::move(dims)}; }

// What the layer gives: its results, then what the gradient needs besides the arguments.
struct Made {
  variable_list results, saved;
};

Made record_layer(const RecurrentLayer& l, bool saves) {
  exec::Lock lock(exec::mutex());
  const c10::Device device = l.x.device();
  Arguments a(device);
  for (const Tensor& t : tensors_of(l)) a.tensor(t);
  a.constant(static_cast<int64_t>(l.cell));
  a.constant(l.reversed);
  a.constant(saves);
  a.constant(float32_precision());
  const int64_t steps = l.x.size(0), batch = l.x.size(1), hidden = l.w_ih.size(0) / gates_of(l.cell);
  const bool lstm = l.cell == Cell::lstm;
  std::vector<Shape> shapes{sized(l.x, {steps, batch, l.h.size(1)}), shape_of(l.h)};
  if (lstm) shapes.push_back(shape_of(l.c));
  if (saves && lstm) shapes.push_back(sized(l.x, {steps, batch, hidden}));
  if (saves && (lstm || l.cell == Cell::gru)) shapes.push_back(sized(l.x, {steps, batch, 4 * hidden}));
  static const lower::Row* row = lower::find("tpubridge::rnn_layer");
  const auto values = std::move(a).record(row, std::move(shapes));
  auto tensor = [&](size_t i) { return dense_tensor(values[i], l.x.scalar_type(), device); };
  Made made;
  const size_t results = lstm ? 3 : 2;
  for (size_t i = 0; i < results; ++i) made.results.push_back(tensor(i));
  // The states a second time: the user may change the output in place.
  made.saved = {tensor(0), Tensor(), Tensor()};
  if (saves && lstm) made.saved[1] = tensor(3);
  if (saves && values.size() > results) made.saved[2] = tensor(values.size() - 1);
  after_op(device.index());
  return made;
}

variable_list record_gradient(const RecurrentLayer& l, at::TensorList saved, const variable_list& grads) {
  exec::Lock lock(exec::mutex());
  const c10::Device device = l.x.device();
  Arguments a(device);
  const bool lstm = l.cell == Cell::lstm, biases = l.b_ih.defined();
  for (size_t i = 0; i < 3; ++i) a.tensor(i < grads.size() ? grads[i] : Tensor());
  for (const Tensor* t : {&l.x, &l.h, &l.c, &l.w_ih, &l.w_hh, &l.w_hr, &l.sizes}) a.tensor(*t);
  for (const Tensor& t : saved) a.tensor(t);
  a.constant(static_cast<int64_t>(l.cell));
  a.constant(l.reversed);
  a.constant(biases);
  a.constant(float32_precision());
  std::vector<size_t> places{kX, kH, kWih, kWhh};  // the arguments that the results are gradients of
  if (lstm) places.push_back(kC);
  if (biases) places.insert(places.end(), {kBih, kBhh});
  if (l.w_hr.defined()) places.push_back(kWhr);
  const variable_list inputs = tensors_of(l);
  std::vector<Shape> shapes;
  for (size_t p : places) shapes.push_back(shape_of(inputs[p]));
  static const lower::Row* row = lower::find("tpubridge::rnn_layer_backward");
  const auto values = std::move(a).record(row, std::move(shapes));
  variable_list out(kInputs);
  for (size_t i = 0; i < places.size(); ++i)
    out[places[i]] = dense_tensor(values[i], l.x.scalar_type(), device);
  after_op(device.index());
  return out;
}

// The gradient as a function of everything, for whoever wants its gradient.
variable_list gradient_by_cells(const RecurrentLayer& l, const variable_list& grads) {
  const RecurrentResult r = run_cells(l);
  const variable_list results{r.all, r.h, r.c}, inputs = tensors_of(l);
  variable_list ends, weights, wanted, out(kInputs);
  for (size_t i = 0; i < grads.size(); ++i)
    if (grads[i].defined() && results[i].requires_grad()) {
      ends.push_back(results[i]);
      weights.push_back(grads[i]);
    }
  std::vector<size_t> places;
  for (size_t i = 0; i < kInputs; ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) {
      wanted.push_back(inputs[i]);
      places.push_back(i);
    }
  if (ends.empty() || wanted.empty()) return out;
  const auto found = torch::autograd::grad(ends, wanted, weights, std::nullopt, /*create_graph=*/true,
                                           /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i) out[places[i]] = found[i];
  return out;
}

struct LayerFunction : torch::autograd::Function<LayerFunction> {
  using Maybe = std::optional<Tensor>;
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& h, const Maybe& c,
                               const Tensor& w_ih, const Tensor& w_hh, const Maybe& b_ih, const Maybe& b_hh,
                               const Maybe& w_hr, const Maybe& sizes, int64_t cell, bool reversed,
                               bool saves) {
    auto given = [](const Maybe& t) { return t.value_or(Tensor()); };
    const auto inputs = {x, h, given(c), w_ih, w_hh, given(b_ih), given(b_hh), given(w_hr), given(sizes)};
    Made made = record_layer(layer_of(static_cast<Cell>(cell), reversed, inputs), saves);
    ctx->set_materialize_grads(false);
    if (saves) {
      variable_list kept = inputs;
      kept.insert(kept.end(), made.saved.begin(), made.saved.end());
      ctx->save_for_backward(std::move(kept));
      ctx->saved_data["cell"] = cell;
      ctx->saved_data["reversed"] = reversed;
    }
    return made.results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list kept = ctx->get_saved_variables();
    const RecurrentLayer l = layer_of(static_cast<Cell>(ctx->saved_data["cell"].toInt()),
                                      ctx->saved_data["reversed"].toBool(), kept);
    variable_list out = at::GradMode::is_enabled()
                            ? gradient_by_cells(l, grads)
                            : record_gradient(l, at::TensorList(kept).slice(kInputs), grads);
    for (size_t i = 0, edge = 0; i < kInputs; ++i)  // autograd has an edge for each that is there
      if (kept[i].defined() && !ctx->needs_input_grad(edge++)) out[i] = Tensor();
    out.resize(kInputs + 3);
    return out;
  }
};

}  // namespace

RecurrentResult run_layer(const RecurrentLayer& l) {
  const variable_list inputs = tensors_of(l);
  const bool saves = at::GradMode::is_enabled() &&
                     std::any_of(inputs.begin(), inputs.end(),
                                 [](const Tensor& t) { return t.defined() && t.requires_grad(); });
  auto maybe = [](const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
  const auto r =
      LayerFunction::apply(l.x, l.h, maybe(l.c), l.w_ih, l.w_hh, maybe(l.b_ih), maybe(l.b_hh), maybe(l.w_hr),
                           maybe(l.sizes), static_cast<int64_t>(l.cell), l.reversed, saves);
  return {r[0], r[1], r.size() > 2 ? r[2] : Tensor()};
}

}  // namespace tpubridge::device
