#include "tools/fit/search.h"

#include <algorithm>
#include <bit>

namespace tpubridge::tools {
namespace {

// Between 16 and 32 of these are in each power of two.
int64_t grain(int64_t batch, int64_t step) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(batch / step / 16, 1));
  return step * static_cast<int64_t>(std::bit_floor(units));
}
int64_t down(int64_t batch, int64_t step) { return batch / grain(batch, step) * grain(batch, step); }

// Where the HBM should end, by a line through the two largest batches whose need is known.
std::optional<double> predicted(std::span<const Probe> known, int64_t hbm) {
  const Probe *a = nullptr, *b = nullptr;
  for (const Probe& p : known) {
    if (!p.fits || p.needed <= 0) continue;
    if (!b || p.batch > b->batch)
      a = b, b = &p;
    else if (!a || p.batch > a->batch)
      a = &p;
  }
  if (!a || b->needed <= a->needed) return std::nullopt;
  const double each = static_cast<double>(b->needed - a->needed) / static_cast<double>(b->batch - a->batch);
  return static_cast<double>(b->batch) + static_cast<double>(hbm - b->needed) / each;
}

}  // namespace

std::vector<int64_t> next_batches(std::span<const Probe> known, BatchRange range, int64_t hbm) {
  const int64_t step = std::max<int64_t>(range.step, 1);
  const int64_t least = (std::max<int64_t>(range.least, 1) + step - 1) / step * step;
  const int64_t most = range.most / step * step;
  if (least > most || known.size() >= kMostProbes) return {};
  const auto is_known = [&](int64_t b) { return std::ranges::find(known, b, &Probe::batch) != known.end(); };
  const auto unknown = [&](std::vector<int64_t> wanted) {
    std::ranges::sort(wanted);
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    std::erase_if(wanted, [&](int64_t b) { return b < least || b > most || is_known(b); });
    return wanted;
  };
  if (known.empty()) return unknown({least, std::min(most, std::max(least, 8 * step))});

  std::optional<int64_t> lo, hi;
  for (const Probe& p : known)
    if (p.fits) lo = std::max(lo.value_or(p.batch), p.batch);
  for (const Probe& p : known)
    if (!p.fits && (!lo || p.batch > *lo)) hi = std::min(hi.value_or(p.batch), p.batch);
  if (!lo) return unknown({least});
  if (*lo >= most) return {};
  if (!hi) {
    // Where a larger batch needed less the compiler has begun to save memory: the end is not far.
    const double times = std::ranges::count_if(known, &Probe::fits) > 1 ? 2 : 8;
    const double guess = std::clamp(predicted(known, hbm).value_or(static_cast<double>(*lo) * times),
                                    static_cast<double>(*lo + step), static_cast<double>(most));
    const int64_t far = *lo > most / 64 ? most : *lo * 64;
    const int64_t at = std::clamp(down(static_cast<int64_t>(guess), step), *lo + step, far);
    return unknown({at, std::min(most, at + grain(at, step))});
  }
  if (*hi - *lo <= grain(*lo, step)) return {};
  const int64_t middle = *lo + (*hi - *lo) / 2;
  const int64_t at = std::clamp(down(middle, step), *lo + step, *hi - step);
  return unknown({at});
}

}  // namespace tpubridge::tools
