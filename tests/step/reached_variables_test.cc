// Functions, containers and objects that a step's function captures, and that change after replay began.
#include <array>
#include <list>
#include <map>
#include <set>
#include <variant>

#include "tests/step/reached.h"

namespace tpubridge::reached {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

Function function_of(int i) {
  if (odd(i)) return [](const Tensor& x) { return x.tanh(); };
  return [](const Tensor& x) { return x.sin(); };
}
using Pointer = Tensor (*)(const Tensor&);
Pointer pointer_of(int i) {
  if (odd(i)) return [](const Tensor& x) { return x.cos(); };
  return [](const Tensor& x) { return x.exp(); };
}

TEST(ReachedVariables, AFunction) {
  Function act = [](const Tensor& x) { return x.relu(); };
  expect_followed([&](const Tensor& x) { return act(x - 1); }, [&](int i) { act = function_of(i); });
}

TEST(ReachedVariables, AFunctionWithANumber) {
  Function act = [by = 2.5](const Tensor& x) { return x * by; };
  expect_followed([&](const Tensor& x) { return act(x - 1); },
                  [&](int i) { act = [by = 0.5 * i](const Tensor& x) { return x * by; }; });
}

TEST(ReachedVariables, AFunctionThatCaptures) {
  double by = 2;
  const Function act = [&by](const Tensor& x) { return x * by; };
  expect_followed([act](const Tensor& x) { return act(x - 1); }, [&](int i) { by = i; });
}

TEST(ReachedVariables, APointerToAFunction) {
  Pointer act = [](const Tensor& x) { return x.sin(); };
  expect_followed([&](const Tensor& x) { return act(x); }, [&](int i) { act = pointer_of(i); });
}

TEST(ReachedVariables, AnObjectOfAnotherClass) {
  std::unique_ptr<Layer> layer = std::make_unique<Twice>();
  expect_followed([&](const Tensor& x) { return layer->run(x); }, [&](int i) { layer = layer_of(i); });
  Twice twice;
  Half half;
  Layer* which = &twice;
  expect_followed([&](const Tensor& x) { return which->run(x); },
                  [&](int i) { which = odd(i) ? static_cast<Layer*>(&twice) : &half; });
}

TEST(ReachedVariables, Strings) {
  for (const size_t length : {4, 50}) {
    std::string mode(length, 'a');
    const auto fn = [&](const Tensor& x) { return mode.back() == 'a' ? (x - 1).relu() : (x - 1).tanh(); };
    expect_followed(fn, [&](int i) { mode.back() = odd(i) ? 'a' : 'b'; });
    expect_followed(fn, [&](int i) { mode = std::string(length + 10, odd(i) ? 'a' : 'b'); });
  }
}

TEST(ReachedVariables, Vectors) {
  if (!changes::kKnowsBlocks) GTEST_SKIP();
  std::vector<double> v{1, 2, 3};
  const auto product = [&](const Tensor& x) {
    Tensor y = x;
    for (const double d : v) y = y * d;
    return y;
  };
  expect_followed(product, [&](int i) { v.push_back(i); });
  v = {1, 2, 3};
  v.reserve(40);
  expect_followed(product, [&](int i) { v.push_back(i); });
  std::vector<double> large(900, 1.0);
  for (const size_t at : {150, 850})
    expect_followed([&](const Tensor& x) { return x * large[at]; }, [&](int i) { large[at] = i; });
}

// What lies in the middle of a block of the heap: nothing tells where it begins and ends.
TEST(ReachedVariables, AnElementOfManyWords) {
  struct Settings {
    double values[20] = {1, 2, 3};
    int repeats = 1;
    bool flips = false;
  };
  std::vector<Settings> all(5);
  Settings& some = all[2];
  const auto fn = [&](const Tensor& x) {
    Tensor y = x + some.values[1];
    for (int i = 0; i < some.repeats; ++i) y = y.sin();
    return some.flips ? -y : y;
  };
  expect_followed(fn, [&](int i) { some.repeats = i % 4; });
  expect_followed(fn, [&](int) { some.flips = !some.flips; });
  expect_followed(fn, [&](int i) { some.values[1] = i; });
  const auto by_index = [&](const Tensor& x) { return all[3].flips ? -x : x + all[3].repeats; };
  expect_followed(by_index, [&](int i) { all[3].repeats = i; });
  expect_followed(by_index, [&](int) { all[3].flips = !all[3].flips; });
}

TEST(ReachedVariables, AnArrayOnTheStack) {
  std::array<double, 64> a{};
  a.fill(2);
  expect_followed([&](const Tensor& x) { return x * a[50]; }, [&](int i) { a[50] = i; });
}

TEST(ReachedVariables, Containers) {
  std::unordered_map<int, double> table{{1, 2.}, {2, 3.}};
  expect_followed([&](const Tensor& x) { return x * table[2]; }, [&](int i) { table[2] = i; });
  std::list<double> list{1, 2, 3, 4, 5};
  expect_followed([&](const Tensor& x) { return x * list.back(); }, [&](int i) { list.back() = i; });
  std::set<int> set{1, 2};
  expect_followed([&](const Tensor& x) { return set.contains(7) ? x * 2 : x * 3; },
                  [&](int i) { odd(i) ? (void)set.erase(7) : (void)set.insert(7); });
}

TEST(ReachedVariables, TensorsWhileTheOldOnesAreHeld) {
  std::vector<Tensor> held, v{filled(1), filled(2)};
  const auto replace = [&](Tensor& t, int i) {
    held.push_back(t);
    t = filled(i);
  };
  expect_followed([&](const Tensor& x) { return x * v[1]; }, [&](int i) { replace(v[1], i); });
  std::map<std::string, Tensor> map{{"a", filled(1)}, {"b", filled(2)}};
  expect_followed([&](const Tensor& x) { return x * map["b"]; }, [&](int i) { replace(map["b"], i); });
  const auto shared = std::make_shared<Tensor>(filled(2));
  expect_followed([shared](const Tensor& x) { return x * *shared; }, [&](int i) { replace(*shared, i); });
}

TEST(ReachedVariables, OptionalsAndVariants) {
  std::vector<Tensor> held;
  std::optional<Tensor> maybe = filled(2);
  expect_followed([&](const Tensor& x) { return maybe ? x * *maybe : x + 1; },
                  [&](int i) {
                    if (maybe) held.push_back(*maybe);
                    maybe = odd(i) ? std::optional(filled(i)) : std::nullopt;
                  });
  std::variant<double, Tensor> either = 2.0;
  expect_followed(
      [&](const Tensor& x) {
        return either.index() == 0 ? x * std::get<0>(either) : x * std::get<1>(either);
      },
      [&](int i) { odd(i) ? (void)(either = filled(i)) : (void)(either = 1.0 * i); });
}

TEST(ReachedVariables, ThreePointersAway) {
  if (!changes::kKnowsBlocks) GTEST_SKIP();
  struct Inner {
    double factor = 2;
  };
  struct Outer {
    std::unique_ptr<Inner> inner = std::make_unique<Inner>();
  };
  auto outer = std::make_shared<Outer>();
  expect_followed([&](const Tensor& x) { return x * outer->inner->factor; },
                  [&](int i) { outer->inner->factor = i; });
  expect_followed([&](const Tensor& x) { return x * outer->inner->factor; },
                  [&](int i) {
                    outer->inner = std::make_unique<Inner>();
                    outer->inner->factor = i;
                  });
}

Function the_function = [](const Tensor& x) { return x.relu(); };
Pointer the_pointer = [](const Tensor& x) { return x.sin(); };
std::unique_ptr<Layer> the_layer = std::make_unique<Twice>();
std::vector<double> the_list{1, 2, 3};
thread_local double the_threads = 1.5;

TEST(ReachedVariables, Globals) {
  expect_followed([](const Tensor& x) { return the_function(x - 1); },
                  [](int i) { the_function = function_of(i); });
  expect_followed([](const Tensor& x) { return the_pointer(x); }, [](int i) { the_pointer = pointer_of(i); });
  expect_followed([](const Tensor& x) { return the_layer->run(x); }, [](int i) { the_layer = layer_of(i); });
  expect_followed([](const Tensor& x) { return x * the_list[1]; }, [](int i) { the_list[1] = i; });
  expect_followed([](const Tensor& x) { return x * the_threads; }, [](int i) { the_threads = i; });
}

// A list beside what is used, which grows by every call, soon costs no traced call.
TEST(ReachedVariables, AListThatGrowsIsForgotten) {
  struct Model {
    double factor = 2;
    std::vector<double> losses;
  };
  const auto model = std::make_unique<Model>();
  model->losses.reserve(300);
  auto step = compile([m = model.get()](const Tensor& x) { return x * m->factor; });
  for (int i = 0; i < 100; ++i) {
    expect_close(step(filled(i)), torch::full({3}, 2.0 * i, torch::kDouble));
    model->losses.push_back(0.5 + i);
  }
  EXPECT_GT(step.report().replayed, 30) << step.report().why_traced;
}

}  // namespace
}  // namespace tpubridge::reached
