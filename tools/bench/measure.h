// Time of one call: warm, many calls a sample, the median of the samples.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace tpubridge::tools {

[[nodiscard]] inline double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  const size_t n = samples.size();
  return n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

// The compiler must believe that somebody looks at it.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

template <class F>
[[nodiscard]] double seconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Stopwatch {
 public:
  explicit Stopwatch(bool quick)
      : samples_(quick ? 3 : 15), slow_samples_(quick ? 2 : 7), sample_seconds_(quick ? 2e-4 : 5e-3) {}

  // Of a quick call: as many calls make a sample as take some milliseconds.
  template <class F>
  [[nodiscard]] double each(F&& f) const {
    f();
    int64_t calls = 1;
    const auto several = [&] {
      for (int64_t i = 0; i < calls; ++i) f();
    };
    while (seconds_of(several) < sample_seconds_ && calls < (int64_t{1} << 24)) calls *= 2;
    std::vector<double> samples;
    for (int i = 0; i < samples_; ++i) samples.push_back(seconds_of(several) / static_cast<double>(calls));
    return median(std::move(samples));
  }

  // Of a call that needs something fresh each time: `make` is not measured.
  template <class Make, class F>
  [[nodiscard]] double fresh(Make&& make, F&& f) const {
    std::vector<double> samples;
    for (int i = 0; i <= slow_samples_; ++i) {
      auto given = make();
      const double s = seconds_of([&] { f(given); });
      if (i > 0) samples.push_back(s);  // the first one warms up
    }
    return median(std::move(samples));
  }

  [[nodiscard]] int slow_samples() const { return slow_samples_; }

 private:
  int samples_, slow_samples_;
  double sample_seconds_;
};

}  // namespace tpubridge::tools
