// Members of a module that change after replay began, and what they lead to, however the step reaches it.
#include <map>

#include "tests/step/reached.h"

namespace tpubridge::reached {
namespace {

enum class Mode { relu, tanh, none };

struct Config {
  double scale = 1.5;
  std::vector<int64_t> order{0, 1, 2};
};

struct Net : torch::nn::Module {
  std::string act = "relu", name = std::string(40, 'a');
  std::vector<Tensor> weights{filled(2)};
  std::map<std::string, Tensor> named{{"a", filled(3)}};
  std::function<Tensor(const Tensor&)> last = [](const Tensor& x) { return x.exp(); };
  std::unique_ptr<Layer> layer = std::make_unique<Twice>();
  Mode mode = Mode::relu;
  std::vector<bool> bits{true, false, true};
  std::vector<double> list{1, 2, 3};
  std::shared_ptr<Config> config = std::make_shared<Config>();

  Tensor forward(Tensor x) {
    if (act != "none") x = act == "relu" ? x.relu() : x.tanh();
    if (name.back() == 'b') x = x + 1;
    x = layer->run(last((x * weights.back() + named["a"]) / 10)) * config->scale;
    if (mode != Mode::relu) x = mode == Mode::tanh ? x.tanh() : -x;
    if (bits[1]) x = x + 3;
    for (const double d : list) x = x + d;
    return x.select(1, config->order[0]);
  }
};

using Change = std::function<void(Net&, int)>;

// By a copy of the pointer, by reference to it, and as one of the step's modules.
void expect_member_followed(const Change& change) {
  {
    const auto net = std::make_shared<Net>();
    expect_followed([net](const Tensor& x) { return net->forward(x); }, [&](int i) { change(*net, i); });
  }
  {
    const auto net = std::make_shared<Net>();
    expect_followed([&](const Tensor& x) { return net->forward(x); }, [&](int i) { change(*net, i); });
  }
  const auto net = std::make_shared<Net>();
  struct Far {
    std::shared_ptr<std::shared_ptr<Net>> net;
  };
  const auto far = std::make_shared<Far>(std::make_shared<std::shared_ptr<Net>>(net));
  expect_followed([&](const Tensor& x) { return (*far->net)->forward(x); }, [&](int i) { change(*net, i); },
                  {.modules = {net}});
}

TEST(ReachedModules, Strings) {
  expect_member_followed([](Net& n, int i) { n.act = odd(i) ? "relu" : "tanh"; });
  expect_member_followed([](Net& n, int i) { n.name.back() = odd(i) ? 'a' : 'b'; });
}

TEST(ReachedModules, Tensors) {
  std::vector<Tensor> held;
  expect_member_followed([&](Net& n, int i) {
    held.push_back(n.weights[0]);
    n.weights[0] = filled(i);
  });
  expect_member_followed([](Net& n, int i) { n.weights.push_back(filled(i)); });
  expect_member_followed([&](Net& n, int i) {
    held.push_back(n.named["a"]);
    n.named["a"] = filled(i);
  });
}

TEST(ReachedModules, Functions) {
  expect_member_followed([](Net& n, int i) {
    if (odd(i))
      n.last = [](const Tensor& x) { return x.sin(); };
    else
      n.last = [](const Tensor& x) { return x.cos(); };
  });
  expect_member_followed([](Net& n, int i) { n.layer = layer_of(i); });
}

TEST(ReachedModules, NumbersAndFlags) {
  expect_member_followed([](Net& n, int i) { n.mode = static_cast<Mode>(i % 3); });
  expect_member_followed([](Net& n, int) { n.bits[1] = !n.bits[1]; });
  expect_member_followed([](Net& n, int i) { n.list[1] = i; });
  expect_member_followed([](Net& n, int i) { n.list.push_back(i); });
}

TEST(ReachedModules, Configuration) {
  if (!changes::kKnowsBlocks) GTEST_SKIP();
  expect_member_followed([](Net& n, int i) { n.config->scale = 0.5 * i; });
  expect_member_followed([](Net& n, int i) { n.config->order[0] = i % 3; });
  expect_member_followed([](Net& n, int i) {
    n.config = std::make_shared<Config>();
    n.config->scale = 0.25 * i;
  });
}

// Gives the same place each time.
template <class T>
struct OnePlace {
  using value_type = T;
  void* place;
  explicit OnePlace(void* p) : place(p) {}
  template <class U>
  OnePlace(const OnePlace<U>& other) : place(other.place) {}
  T* allocate(size_t) { return static_cast<T*>(place); }
  void deallocate(T*, size_t) {}
};

// What is left of a module that died is none, though another one's holders are counted where its own were.
TEST(ReachedModules, OneThatDied) {
  struct Place {
    alignas(std::max_align_t) std::byte bytes[sizeof(Net)];
  };
  const auto first = std::make_unique<Place>(), second = std::make_unique<Place>(),
             counts = std::make_unique<Place>();
  const auto make = [&](Place& at) {
    return std::shared_ptr<Net>(
        new (&at) Net, [](Net* n) { n->~Net(); }, OnePlace<Net>(counts.get()));
  };
  auto dead = make(*first);
  std::array<uint64_t, 2> left;
  std::memcpy(left.data(), static_cast<const void*>(&dead), sizeof left);
  dead.reset();
  constexpr size_t kFirst = 3 * sizeof(uint64_t);  // its table of functions, and whom it takes itself for
  for (size_t i = kFirst; i < sizeof(Net); ++i) first->bytes[i] = static_cast<std::byte>(i);
  const auto living = make(*second);
  double scale = 2;
  expect_followed([&, left](const Tensor& x) { return left[0] == 0 ? x : x * scale; },
                  [&](int i) { scale = i; });
}

}  // namespace
}  // namespace tpubridge::reached
