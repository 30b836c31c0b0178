// Random programs of several processes beside the same on one: every rank knows what all of them have.
#include <random>

#include "tests/distributed/ranks/ranks.h"

namespace tpubridge {
namespace {

// One number of all ranks' programs, and what it must be: on the device mine alone, on the host everybody's.
struct Value {
  torch::Tensor mine;
  std::vector<torch::Tensor> all;
};

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed), own_(seed * 31 + static_cast<uint64_t>(dist::rank())) {
    for (int i = 0; i < 3; ++i) values_.push_back(fresh());
  }

  // Ops of one round; the same on all ranks.
  void round() {
    for (int i = 0; i < 8; ++i) step();
  }
  void check() {
    for (const Value& v : values_) expect_close(v.mine, v.all[size_t(dist::rank())], 20);
  }

 private:
  uint64_t pick(uint64_t n) { return random_() % n; }
  Value& any() { return values_[pick(values_.size())]; }

  Value fresh() {
    const int64_t world = dist::world_size(), rows = world * static_cast<int64_t>(1 + pick(3)),
                  columns = static_cast<int64_t>(1 + pick(4));
    const uint64_t seed = random_();
    Value v;
    v.all = on_all_ranks([&](int64_t r) {
      torch::manual_seed(seed + static_cast<uint64_t>(r));
      return torch::randn({rows, columns}, torch::kDouble);
    });
    v.mine = v.all[size_t(dist::rank())].to(tpu());
    return v;
  }

  void put(Value v) {
    Value& place = any();
    if (v.mine.size(0) % dist::world_size() != 0 || v.mine.numel() > 4096) v = fresh();
    place = std::move(v);
  }

  template <class F>
  static std::vector<torch::Tensor> each(const std::vector<torch::Tensor>& all, F f) {
    std::vector<torch::Tensor> out;
    for (int64_t r = 0; r < dist::world_size(); ++r) out.push_back(f(all[size_t(r)], r));
    return out;
  }

  void step() {
    const Value v = any();
    const int64_t world = dist::world_size();
    const auto stacked = [&] { return torch::stack(v.all); };
    switch (pick(11)) {
      case 0:
        return put(
            {dist::all_reduce(v.mine, "mean"), each(v.all, [&](auto&, auto) { return stacked().mean(0); })});
      case 1:
        return put({dist::all_reduce(v.mine, "max"),
                    each(v.all, [&](auto&, auto) { return std::get<0>(stacked().max(0)); })});
      case 2:
        return put({dist::all_gather(v.mine), each(v.all, [&](auto&, auto) { return torch::cat(v.all); })});
      case 3:
        return put({dist::reduce_scatter(v.mine, "mean"), each(v.all, [&](auto&, int64_t r) {
                      return stacked().mean(0).chunk(world)[size_t(r)];
                    })});
      case 4: {
        const auto root = static_cast<int64_t>(pick(static_cast<uint64_t>(world)));
        return put(
            {dist::broadcast(v.mine, root), each(v.all, [&](auto&, auto) { return v.all[size_t(root)]; })});
      }
      case 5:
        return put({dist::all_to_all(v.mine), each(v.all, [&](auto&, int64_t r) {
                      std::vector<torch::Tensor> parts;
                      for (const auto& t : v.all) parts.push_back(t.chunk(world)[size_t(r)]);
                      return torch::cat(parts);
                    })});
      case 6:
        return put(
            {torch::tanh(v.mine) + 0.5, each(v.all, [&](auto& t, auto) { return torch::tanh(t) + 0.5; })});
      case 7: {  // numbers that differ by rank
        const auto by = double(dist::rank());
        return put(
            {v.mine * by + by, each(v.all, [&](auto& t, int64_t r) { return t * double(r) + double(r); })});
      }
      case 8: {  // into what others see
        Value& w = any();
        if (w.mine.sizes() != v.mine.sizes()) return;
        const auto theirs = each(v.all, [&](auto& t, auto) { return t.clone(); });
        w.mine.add_(v.mine, 0.25);
        for (size_t r = 0; r < theirs.size(); ++r) w.all[r] = w.all[r] + theirs[r] * 0.25;
        return repair(w);
      }
      case 9:  // reads when it likes
        if (own_() % 3 == 0) expect_close(v.mine, v.all[size_t(dist::rank())], 20);
        if (own_() % 4 == 0) sync();
        return;
      default:
        return put(fresh());
    }
  }
  // Values that share their memory have changed with it.
  void repair(const Value& changed) {
    for (Value& v : values_)
      if (v.mine.is_same(changed.mine)) v.all = changed.all;
  }

  std::mt19937_64 random_, own_;
  std::vector<Value> values_;
};

TEST(Ranks, RandomPrograms) {
  joined();
  const char* first = std::getenv("TPUBRIDGE_FUZZ_SEED");
  const uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1;
  for (uint64_t s = seed; s < seed + 6; ++s) {
    Program program(s);
    for (int i = 0; i < 3 && !testing::Test::HasFailure(); ++i) program.round(), program.check();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << s << ", rank " << dist::rank();
  }
}

// A step that is compiled on some ranks and traced on others, with batches of changing sizes.
TEST(Ranks, RandomSteps) {
  const int64_t me = joined(), world = dist::world_size();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed), own(seed * 7 + static_cast<uint64_t>(me));
    auto weight = torch::ones({3}, torch::kDouble).to(tpu());
    auto reference = torch::ones({3}, torch::kDouble);
    const auto work = [&](const torch::Tensor& x) {
      const auto total = dist::all_reduce((x * weight).sum(0));
      weight.mul_(0.9).add_(total, 0.01);
      return dist::all_gather(total.sum().view({1}));
    };
    auto step = compile(work);
    for (int i = 0; i < 14; ++i) {
      const int64_t rows = random() % 4 == 0 ? 5 : 2;
      const uint64_t data = random();
      const auto xs = on_all_ranks([&](int64_t r) {
        torch::manual_seed(data + static_cast<uint64_t>(r));
        return torch::randn({rows + r, 3}, torch::kDouble);  // each rank has another number of rows
      });
      auto total = torch::zeros({3}, torch::kDouble);
      for (const auto& x : xs) total += (x * reference).sum(0);
      reference.mul_(0.9).add_(total, 0.01);
      const auto x = xs[size_t(me)].to(tpu());
      const auto got = own() % 5 == 0 ? work(x) : step(x);
      if (own() % 2 == 0) expect_close(got, total.sum().repeat({world}), 20);
      if (own() % 3 == 0) expect_close(weight, reference, 20);
    }
    expect_close(weight, reference, 20);
  }
}

}  // namespace
}  // namespace tpubridge
