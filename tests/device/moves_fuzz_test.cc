// Random programs that read one tensor by index and write into parts of it, beside the CPU: the same
// elements, to the bit. Every number is a whole one and small enough that sums and products are exact,
// however they are added up. TPUBRIDGE_FUZZ_SECONDS=600 test_device --gtest_filter=Moves.ForHours goes on
// from TPUBRIDGE_FUZZ_SEED.
#include <chrono>
#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using torch::indexing::Slice;
using torch::indexing::TensorIndex;
using Places = std::vector<TensorIndex>;

constexpr auto kWhole = torch::kLong;

// What is done, with all that chance decides, so that both worlds do the same.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {}

  // The tensors after each read, on the CPU.
  std::vector<Tensor> run(torch::Device device) {
    device_ = device;
    wide_ = below(3) == 0;
    const int64_t tensors = 1 + below(2), acts = 2 + below(7);
    sizes_ = {2 + below(3), 1 + below(3), 4 + below(13), 4 + below(13)};
    for (int64_t i = 0; i < tensors; ++i) t_.push_back(on_device(numbers(sizes_)));
    if (below(2)) weight_ = on_device(numbers({2, sizes_[1], 3, 3})).requires_grad_(below(2) == 1);
    if (below(2)) sync();
    for (int64_t i = 0; i < acts; ++i) act();
    for (const Tensor& t : t_) keep(t);
    std::vector<Tensor> out;
    for (const Tensor& t : kept_) out.push_back(t.detach().cpu());
    return out;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Tensor& any() { return t_[static_cast<size_t>(below(static_cast<int64_t>(t_.size())))]; }
  Tensor on_device(const Tensor& t) const { return t.to(device_); }
  void sync() const {
    if (device_.type() == torch::kPrivateUse1) tpubridge::sync();
  }
  void keep(const Tensor& t) { kept_.push_back(t); }

  Tensor numbers(torch::IntArrayRef sizes) {
    const auto t = torch::empty(sizes);
    for (int64_t i = 0; i < t.numel(); ++i) t.data_ptr<float>()[i] = static_cast<float>(below(15) - 7);
    return wide_ ? t.to(torch::kDouble) : t;
  }
  Tensor order(int64_t n, int64_t of) {
    const auto t = torch::empty({n}, kWhole);
    for (int64_t i = 0; i < n; ++i) t.data_ptr<int64_t>()[i] = below(of);
    return on_device(t);
  }
  Tensor permutation(int64_t n) {
    std::vector<int64_t> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<int64_t>(i);
    for (size_t i = v.size(); i > 1; --i)
      std::swap(v[i - 1], v[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
    return on_device(torch::tensor(v, kWhole));
  }

  // A part with every dimension kept: what begins and ends where.
  struct Part {
    int64_t begin[4], end[4];
    [[nodiscard]] Places places() const {
      Places out;
      for (int i = 0; i < 4; ++i) out.emplace_back(Slice(begin[i], end[i]));
      return out;
    }
    [[nodiscard]] std::vector<int64_t> sizes() const {
      std::vector<int64_t> out;
      for (int i = 0; i < 4; ++i) out.push_back(end[i] - begin[i]);
      return out;
    }
  };
  Part part() {
    Part p{};
    for (int i = 0; i < 4; ++i) {
      const int64_t n = sizes_[static_cast<size_t>(i)], how = below(3);
      p.begin[i] = how == 0 ? 0 : below(n);
      p.end[i] = how == 0 ? n : how == 1 ? p.begin[i] + 1 : p.begin[i] + 1 + below(n - p.begin[i]);
    }
    return p;
  }

  // Of the whole size, made of `x` by index, view or arithmetic.
  Tensor read(const Tensor& x) {
    switch (below(wide_ ? 12 : 10)) {
      case 0:
        return x.index({permutation(sizes_[0])});
      case 1:
        return x.index_select(2, order(sizes_[2], sizes_[2]));
      case 2:
        return x.flip({below(4)});
      case 3:
        return x.roll({below(5)}, {below(4)});
      case 4:
        return x.index({Slice(), Slice(), order(sizes_[2], sizes_[2])});
      case 5:
        return x.gather(3, order(x.numel(), sizes_[3]).view(sizes_));
      case 6:
        return torch::where(x.gt(0), x, x.flip({3}));
      case 7:
        return x.clone();
      case 8:
        return x.neg().add(1);
      case 9:
        return x.add(x.index({order(sizes_[0], sizes_[0])}));
      case 10:
        return x.mul(2).sub(1);
      default:
        return x.cumsum(2);
    }
  }

  void write(Tensor& x) {
    const Part p = part();
    switch (below(23)) {
      case 0:
        x.index_put_(p.places(), read(any()).index(p.places()));
        break;
      case 1: {  // from a part elsewhere
        Part from = p;
        for (int i = 0; i < 4; ++i) {
          const int64_t n = p.end[i] - p.begin[i];
          from.begin[i] = below(sizes_[static_cast<size_t>(i)] - n + 1);
          from.end[i] = from.begin[i] + n;
        }
        x.index(p.places()).copy_(read(any()).index(from.places()));
        break;
      }
      case 2:
        x.index(p.places()).fill_(static_cast<double>(below(5)));
        break;
      case 3:
        x.index(p.places()).add_(read(any()).index(p.places()));
        break;
      case 4:
        x.index(p.places()).mul_(-1);
        break;
      case 5: {
        const auto at = permutation(sizes_[0]);
        x.index_put_({at}, x.index({permutation(sizes_[0])}));
        break;
      }
      case 6:
        x.index_add_(2, order(sizes_[2], sizes_[2]), read(any()));
        break;
      case 7:
        x.index_copy_(3, permutation(sizes_[3]), read(any()));
        break;
      case 8:
        x.masked_fill_(read(any()).gt(2), static_cast<double>(below(3)));
        break;
      case 9:
        x.scatter_(2, permutation(sizes_[2]).view({1, 1, sizes_[2], 1}).expand(sizes_), read(any()));
        break;
      case 10: {
        const int64_t row = below(sizes_[0]), from = below(sizes_[0]);
        x[row].copy_(read(any())[from]);
        break;
      }
      case 11: {
        const int64_t row = below(sizes_[0]);
        x[row].slice(1, 0, 1 + below(sizes_[2])).fill_(0.5);
        break;
      }
      case 12: {  // every other one
        const int64_t dim = 2 + below(2), from = below(2);
        x.slice(dim, from, sizes_[static_cast<size_t>(dim)], 2)
            .copy_(read(any()).slice(dim, from, sizes_[static_cast<size_t>(dim)], 2));
        break;
      }
      case 13:
        x.diagonal(0, 2, 3).copy_(read(any()).diagonal(0, 2, 3));
        break;
      case 14: {  // seen in another way
        const auto y = read(any()).transpose(2, 3).contiguous();
        x.transpose(2, 3).slice(2, 0, 1 + below(sizes_[3])).zero_();
        x.transpose(2, 3).select(2, 0).copy_(y.select(2, below(sizes_[3])));
        break;
      }
      case 15: {
        const auto flat = x.view({-1});
        const int64_t n = 1 + below(flat.numel()), from = below(flat.numel() - n + 1),
                      to = below(flat.numel() - n + 1);
        flat.slice(0, to, to + n).copy_(read(x).view({-1}).slice(0, from, from + n));
        break;
      }
      case 16: {  // a loop, whose places become inputs of the program
        const int64_t rounds = 1 + below(5), step = 1 + below(2);
        for (int64_t i = 0; i + step < sizes_[2] && i < rounds; ++i)
          x.slice(2, i, i + step).add_(x.flip({3}).slice(2, i + 1, i + 1 + step));
        break;
      }
      case 18: {  // one place alone
        const int64_t from = below(sizes_[0]);
        x.index_put_({order(1, sizes_[0])}, read(any()).slice(0, from, from + 1));
        break;
      }
      case 19: {
        const auto at = order(1, sizes_[2]), row = order(1, sizes_[0]);
        x.index_put_({row, Slice(), at}, read(any()).index({0, Slice(), below(sizes_[2])}).unsqueeze(0));
        break;
      }
      case 20:
        x.index_copy_(2, order(1, sizes_[2]), read(any()).slice(2, 0, 1));
        break;
      case 21: {  // a number of one that the compiler takes away
        x = below(2) ? x * 1 : x + 0;
        const Part q = part();
        x.index_put_(q.places(), read(any()).index(q.places()));
        break;
      }
      case 17:
        x[below(sizes_[0])].add_(x[below(sizes_[0])].clone());
        break;
      default:
        x.copy_(read(any()));
    }
  }

  void act() {
    const int64_t kind = below(12);
    Tensor& x = any();
    if (kind < 7) {
      write(x);
    } else if (kind == 7) {
      keep(read(x));
    } else if (kind == 8) {
      keep(x.sum({2}));
    } else if (kind == 9 && weight_.defined()) {
      const auto y = torch::conv2d(x.detach().clone(), weight_.detach(), {}, 1, 1);
      keep(y);
      if (weight_.requires_grad()) {
        const auto loss = torch::conv2d(x.detach().clone(), weight_, {}, 1, 1).relu().sum();
        keep(torch::autograd::grad({loss}, {weight_})[0]);
      }
    } else if (kind == 10) {
      t_[0] = read(x);
    } else {
      sync();
    }
  }

  std::mt19937_64 random_;
  torch::Device device_ = torch::kCPU;
  bool wide_ = false;  // f64
  std::vector<int64_t> sizes_;
  std::vector<Tensor> t_, kept_;
  Tensor weight_;
};

// Which of what was kept differs, -1 where nothing does.
int64_t first_wrong(uint64_t seed) {
  const auto want = Program(seed).run(torch::kCPU), got = Program(seed).run(tpu());
  for (size_t i = 0; i < want.size(); ++i)
    if (!torch::equal(want[i], got[i])) return static_cast<int64_t>(i);
  return -1;
}

TEST(Moves, AreTheCpus) {
  for (uint64_t seed = 0; seed < 60; ++seed) EXPECT_EQ(first_wrong(seed), -1) << "seed " << seed;
}

TEST(Moves, ForHours) {
  const char* seconds = std::getenv("TPUBRIDGE_FUZZ_SECONDS");
  if (!seconds) GTEST_SKIP() << "TPUBRIDGE_FUZZ_SECONDS says how long";
  const char* from = std::getenv("TPUBRIDGE_FUZZ_SEED");
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(std::atoll(seconds));
  uint64_t seed = from ? std::strtoull(from, nullptr, 10) : 1000, cases = 0;
  for (; Clock::now() < end; ++seed, ++cases) EXPECT_EQ(first_wrong(seed), -1) << "seed " << seed;
  std::printf("%lu cases to seed %lu\n", cases, seed);
}

}  // namespace
}  // namespace tpubridge
