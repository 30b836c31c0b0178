#include "tests/device/recurrent.h"

#include <random>

namespace tpubridge {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

std::string Recurrent::str() const {
  return c10::str(cell, " layers ", layers, " length ", length, " batch ", batch, " inputs ", inputs,
                  " hidden ", hidden, " projection ", projection, biases ? " biases" : "",
                  both_ways ? " both ways" : "", batch_first ? " batch first" : "", packed ? " packed" : "");
}

Recurrent random_recurrent(uint64_t seed, bool packed) {
  std::mt19937_64 draw(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(draw() % static_cast<uint64_t>(n)); };
  Recurrent r;
  r.cell = std::vector<std::string>{"lstm", "gru", "tanh", "relu"}[seed % 4];
  r.layers = 1 + below(3);
  r.length = 1 + below(6);
  r.batch = 1 + below(4);
  r.inputs = 1 + below(5);
  r.hidden = 2 + below(5);
  if (r.lstm() && below(2)) r.projection = 1 + below(r.hidden - 1);
  r.biases = below(3) > 0;
  r.both_ways = below(2);
  r.packed = packed;
  r.batch_first = !packed && below(2);
  return r;
}

RecurrentInputs inputs_of(const Recurrent& r, uint64_t seed) {
  torch::manual_seed(seed);
  const auto options = torch::dtype(torch::kDouble);
  auto make = [&](std::vector<int64_t> sizes) { return torch::rand(sizes, options).sub(0.5).to(r.dtype); };
  RecurrentInputs in;
  const int64_t ways = r.both_ways ? 2 : 1, gates = r.lstm() ? 4 : r.cell == "gru" ? 3 : 1;
  const int64_t out = r.projection ? r.projection : r.hidden;
  if (r.packed) {
    const auto lengths = std::get<0>(torch::randint(1, r.length + 1, {r.batch}).sort(0, true));
    const auto packed =
        torch::nn::utils::rnn::pack_padded_sequence(make({r.length, r.batch, r.inputs}), lengths);
    in.x = packed.data();
    in.batch_sizes = packed.batch_sizes();
  } else {
    in.x = make(r.batch_first ? std::vector<int64_t>{r.batch, r.length, r.inputs}
                              : std::vector<int64_t>{r.length, r.batch, r.inputs});
  }
  in.state.push_back(make({r.layers * ways, r.batch, out}));
  if (r.lstm()) in.state.push_back(make({r.layers * ways, r.batch, r.hidden}));
  for (int64_t l = 0; l < r.layers; ++l)
    for (int64_t way = 0; way < ways; ++way) {
      in.weights.push_back(make({gates * r.hidden, l == 0 ? r.inputs : ways * out}));
      in.weights.push_back(make({gates * r.hidden, out}));
      for (int i = 0; r.biases && i < 2; ++i) in.weights.push_back(make({gates * r.hidden}));
      if (r.projection) in.weights.push_back(make({out, r.hidden}));
    }
  return in;
}

RecurrentInputs RecurrentInputs::to(torch::Device d, bool gradients) const {
  auto moved = [&](const Tensor& t) { return t.detach().clone().to(d).requires_grad_(gradients); };
  RecurrentInputs out;
  out.x = moved(x);
  out.batch_sizes = batch_sizes;
  for (const auto& t : state) out.state.push_back(moved(t));
  for (const auto& t : weights) out.weights.push_back(moved(t));
  return out;
}

Tensors RecurrentInputs::all() const {
  Tensors out{x};
  out.insert(out.end(), state.begin(), state.end());
  out.insert(out.end(), weights.begin(), weights.end());
  return out;
}

Tensors call(const Recurrent& r, const RecurrentInputs& in, double dropout, bool train) {
  auto listed = [](const auto& results) {
    return std::apply([](const auto&... t) { return Tensors{t...}; }, results);
  };
  auto other = [&](auto... f) {  // the plain form, the packed form
    auto [plain, packed] = std::tuple(f...);
    return listed(r.packed ? packed(in.x, in.batch_sizes, in.state[0], in.weights)
                           : plain(in.x, in.state[0], in.weights));
  };
  if (r.lstm() && r.packed)
    return listed(torch::lstm(in.x, in.batch_sizes, in.state, in.weights, r.biases, r.layers, dropout, train,
                              r.both_ways));
  if (r.lstm())
    return listed(torch::lstm(in.x, in.state, in.weights, r.biases, r.layers, dropout, train, r.both_ways,
                              r.batch_first));
#define TPUBRIDGE_FORMS(op)                                                                     \
  other(                                                                                        \
      [&](auto&&... a) {                                                                        \
        return torch::op(a..., r.biases, r.layers, dropout, train, r.both_ways, r.batch_first); \
      },                                                                                        \
      [&](auto&&... a) { return torch::op(a..., r.biases, r.layers, dropout, train, r.both_ways); })
  if (r.cell == "gru") return TPUBRIDGE_FORMS(gru);
  if (r.cell == "tanh") return TPUBRIDGE_FORMS(rnn_tanh);
  return TPUBRIDGE_FORMS(rnn_relu);
#undef TPUBRIDGE_FORMS
}

Tensor weighed(const Tensors& results) {
  Tensor sum;
  for (const auto& t : results) {
    const auto w =
        torch::linspace(-1, 2, t.numel(), torch::dtype(t.scalar_type())).view(t.sizes()).to(t.device());
    const auto part = (t * w).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace tpubridge
