#include "tpubridge/distributed/agreement.h"

namespace tpubridge::distributed {
namespace {

constexpr uint64_t kBase = 0x9E3779B97F4A7C15;  // odd

uint64_t power(size_t n) {
  uint64_t out = 1;
  for (size_t i = 0; i < n; ++i) out *= kBase;
  return out;
}

}  // namespace

bool Agreement::foresees(uint64_t signature) const {
  for (size_t w = 0; w < kWindows.size(); ++w) {
    if (last_.size() < kWindows[w]) continue;
    const auto known = next_[w].find(hash_[w]);
    if (known != next_[w].end()) return known->second == signature;
  }
  return false;
}

void Agreement::happened(uint64_t signature) {
  static const std::array<uint64_t, kWindows.size()> kOut = [] {
    std::array<uint64_t, kWindows.size()> out{};
    for (size_t w = 0; w < kWindows.size(); ++w) out[w] = power(kWindows[w]);
    return out;
  }();
  for (size_t w = 0; w < kWindows.size(); ++w) {
    if (last_.size() >= kWindows[w]) {
      if (next_[w].size() >= kMost) next_[w].clear();
      next_[w][hash_[w]] = signature;
      hash_[w] -= kOut[w] * last_[last_.size() - kWindows[w]];
    }
    hash_[w] = (hash_[w] + signature) * kBase;
  }
  last_.push_back(signature);
  if (last_.size() > kWindows[0]) last_.pop_front();
  ++count_;
}

}  // namespace tpubridge::distributed
