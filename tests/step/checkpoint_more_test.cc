// Functions that hand through what they are given: with a checkpoint they give what they give without.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using List = std::vector<Tensor>;
using Function = std::function<List(Tensor, Tensor)>;

Tensor some(std::vector<int64_t> sizes, bool gradient = true) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return torch::sin(torch::arange(n).to(torch::kFloat)).view(sizes).to(tpu()).requires_grad_(gradient);
}

struct Ran {
  List results, gradients;
  std::vector<bool> requires_grad;
};
// `x` and `w` are computed, as those of a layer inside a model; gradients are those of the leaves behind
// them.
Ran run(const Function& f, bool checkpointed, bool gradient_of_w = true) {
  const Tensor x0 = some({3, 4}), w0 = some({3, 4}, gradient_of_w);
  const Tensor x = x0 * 2, w = gradient_of_w ? w0 * 3 : w0;
  Ran out;
  const List results = checkpointed ? checkpoint(f)(x, w) : f(x, w);
  Tensor loss = torch::zeros({}, tpu());
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& r = results[i];
    out.requires_grad.push_back(r.defined() && r.requires_grad());
    out.results.push_back(r.defined() ? r.detach().cpu() : Tensor());
    if (out.requires_grad.back()) loss = loss + (r * r * static_cast<double>(i + 1)).sum();
  }
  if (loss.requires_grad()) loss.backward();
  for (const Tensor& t : {x0, w0}) out.gradients.push_back(t.grad().defined() ? t.grad().cpu() : Tensor());
  return out;
}

void expect_same(const List& got, const List& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (want[i].defined()) expect_close(got[i], want[i]);
  }
}

const std::vector<std::pair<const char*, Function>>& functions() {
  static const std::vector<std::pair<const char*, Function>> all{
      {"an input", [](const Tensor& x, const Tensor&) { return List{x}; }},
      {"both inputs",
       [](const Tensor& x, const Tensor& w) {
         return List{w, x};
       }},
      {"an input and a result",
       [](const Tensor& x, const Tensor& w) {
         return List{x, x * w};
       }},
      {"an input twice",
       [](const Tensor& x, const Tensor&) {
         return List{x, x};
       }},
      {"a result twice",
       [](const Tensor& x, const Tensor& w) {
         const Tensor y = x.sin() * w;
         return List{y, y};
       }},
      {"a view of an input",
       [](const Tensor& x, const Tensor& w) {
         return List{x.view({4, 3}), x * w};
       }},
      {"a transpose", [](const Tensor& x, const Tensor&) { return List{x.t()}; }},
      {"a part",
       [](const Tensor& x, const Tensor& w) {
         return List{x.slice(1, 1, 3), w.select(0, 2)};
       }},
      {"a view of a result",
       [](const Tensor& x, const Tensor& w) {
         const Tensor y = (x + w).exp();
         return List{y, y.view({12}), y.slice(0, 1, 2)};
       }},
      {"an index",
       [](const Tensor& x, const Tensor& w) {
         return List{x.argmax(1), (x * w).sum(1)};
       }},
      {"an index alone", [](const Tensor& x, const Tensor&) { return List{x.argmax(1)}; }},
      {"detached",
       [](const Tensor& x, const Tensor& w) {
         return List{x.detach(), (x * w).detach(), x * w};
       }},
      {"a constant",
       [](const Tensor& x, const Tensor& w) {
         return List{torch::ones_like(x), x * w};
       }},
      {"undefined",
       [](const Tensor& x, const Tensor& w) {
         return List{Tensor(), x * w, Tensor()};
       }},
      {"nothing", [](const Tensor&, const Tensor&) { return List{}; }},
      {"an input whose other use has a gradient",
       [](const Tensor& x, const Tensor& w) {
         return List{w, (x * w).sum(), x.t()};
       }},
  };
  return all;
}

TEST(CheckpointMore, GivesWhatPlainCallingGives) {
  for (const auto& [name, f] : functions())
    for (const bool gradient_of_w : {true, false}) {
      SCOPED_TRACE(testing::Message() << name << (gradient_of_w ? "" : ", w without a gradient"));
      const Ran plain = run(f, false, gradient_of_w), with = run(f, true, gradient_of_w);
      expect_same(with.results, plain.results);
      expect_same(with.gradients, plain.gradients);
      EXPECT_EQ(with.requires_grad, plain.requires_grad);
    }
}

TEST(CheckpointMore, AnInputComesBackItself) {
  const Tensor x = some({3, 4}) * 2;
  const Tensor y = checkpoint([](const Tensor& t) { return t; })(x);
  EXPECT_TRUE(y.is_same(x));
  const Tensor row = checkpoint([](const Tensor& t) { return t.select(0, 1); })(some({3, 4}, false));
  EXPECT_FALSE(row.requires_grad());
  const Tensor z = some({3, 4}, false);
  checkpoint([](const Tensor& t) { return t.select(0, 1); })(z).fill_(7);
  EXPECT_EQ(z[1][2].item<float>(), 7) << "it is the same memory";
}

TEST(CheckpointMore, AParameterComesBackItself) {
  torch::nn::Linear layer(4, 4);
  layer->to(tpu());
  const Tensor x = some({3, 4});
  const auto [w, y] =
      checkpoint([&](const Tensor& t) { return std::make_tuple(layer->weight, layer->forward(t)); })(x);
  EXPECT_TRUE(w.is_same(layer->weight));
  (w.sum() + y.sum()).backward();
  const Tensor got = layer->weight.grad().cpu();
  layer->weight.mutable_grad().reset();
  (layer->weight.sum() + layer->forward(x).sum()).backward();
  expect_close(got, layer->weight.grad());
}

TEST(CheckpointMore, AThrowLeavesGeneratorsAndThreadAsTheyWere) {
  auto generator = at::globalContext().defaultGenerator(tpu());
  for (const bool nested : {false, true}) {
    torch::manual_seed(5);
    (void)torch::rand({3}, tpu());
    const uint64_t offset = generator.get_offset();
    const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
    const auto fails = [](const Tensor& t) -> Tensor {
      at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
      const Tensor y = t + torch::rand_like(t);
      throw std::runtime_error("on demand");
      return y;
    };
    const auto call = [&] {
      if (!nested) return checkpoint(fails)(some({3}));
      return checkpoint([&](const Tensor& t) { return checkpoint(fails)(t * torch::rand_like(t)); })(
          some({3}));
    };
    EXPECT_THROW((void)call(), std::runtime_error);
    EXPECT_EQ(generator.get_offset(), offset);
    EXPECT_EQ(generator.current_seed(), 5u);
    EXPECT_EQ(at::autocast::is_autocast_enabled(at::kPrivateUse1), autocast);
    EXPECT_TRUE(at::GradMode::is_enabled());
  }
}

TEST(CheckpointMore, AThrowInBackwardLeavesTheGeneratorAsItWas) {
  auto generator = at::globalContext().defaultGenerator(tpu());
  int calls = 0;
  const auto fails = [&](const Tensor& t) {
    const Tensor y = t * torch::rand_like(t);
    if (++calls == 2) throw std::runtime_error("the second time");
    return y;
  };
  const Tensor x = some({3}), y = checkpoint(fails)(x);
  const uint64_t offset = generator.get_offset();
  EXPECT_THROW(y.sum().backward(), std::runtime_error);
  EXPECT_EQ(generator.get_offset(), offset);
  const Tensor next = torch::rand({4}, tpu());
  generator.set_offset(offset);
  EXPECT_TRUE(next.equal(torch::rand({4}, tpu()))) << "this thread draws from the generator again";
}

TEST(CheckpointMore, InsideACompiledStep) {
  const auto body = [](bool checkpointed) {
    return [checkpointed](const Tensor& x, const Tensor& w) {
      const auto f = [](const Tensor& a, const Tensor& b) { return List{a, (a * b).tanh(), a.argmax(1)}; };
      const Tensor y = x * 2;
      const List r = checkpointed ? checkpoint(f)(y, w) : f(y, w);
      const Tensor loss = (r[0] * r[1]).sum() + r[1].square().sum();
      return torch::autograd::grad({loss}, {x, w});
    };
  };
  const Tensor x = some({3, 4}), w = some({3, 4});
  auto with = compile(body(true));
  const List want = body(false)(x, w);
  for (int i = 0; i < 4; ++i) {
    const List got = with(x, w);
    for (size_t k = 0; k < 2; ++k) expect_close(got[k], want[k]);
  }
  EXPECT_GE(with.report().replayed, 1);
}

}  // namespace
}  // namespace tpubridge
