// Where two texts differ, and what that makes of their numbers.
#include "tpubridge/hlo/sized_text.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "tpubridge/hlo/bounded_text.h"

namespace tpubridge::hlo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A number of MLIR begins at `i`: 12, 1.500000e+00. Where it ends.
size_t end_of_number(std::string_view text, size_t i) {
  const auto digits = [&] {
    while (i < text.size() && is_digit(text[i])) ++i;
  };
  digits();
  if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) ++i, digits();
  if (i + 2 < text.size() && text[i] == 'e' && (text[i + 1] == '+' || text[i + 1] == '-') &&
      is_digit(text[i + 2]))
    i += 2, digits();
  return i;
}

// The digits of a name (f32, loc3) are no number; those of 2x18 are two.
bool is_of_name(std::string_view text, size_t i) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return i > 0 && letter(text[i - 1]) && !(text[i - 1] == 'x' && i > 1 && is_digit(text[i - 2]));
}

// A whole number that a dimension could be.
std::optional<int64_t> whole(std::string_view token) {
  double v = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), v);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  if (!(v >= 0 && v < 1LL << 31) || v != std::floor(v)) return std::nullopt;
  return static_cast<int64_t>(v);
}

}  // namespace

int64_t bucket_of(int64_t size) {
  return std::max<int64_t>(16, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size))));
}

NumberedText::NumberedText(std::string text) : text_(std::move(text)) {
  size_t from = 0;
  for (size_t i = 0; i < text_.size();) {
    if (!is_digit(text_[i])) {
      ++i;
      continue;
    }
    const size_t end = end_of_number(text_, i);
    if (is_of_name(text_, i)) {
      while (i < end && is_digit(text_[i])) ++i;
      continue;
    }
    hash_ = XXH3_64bits_withSeed(text_.data() + from, i - from, hash_);
    tokens_.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(end - i)});
    from = i = end;
  }
  hash_ = XXH3_64bits_withSeed(text_.data() + from, text_.size() - from, hash_);
}

bool NumberedText::same_skeleton(const NumberedText& other) const {
  if (hash_ != other.hash_ || tokens_.size() != other.tokens_.size()) return false;
  size_t a = 0, b = 0;
  for (size_t i = 0; i <= tokens_.size(); ++i) {
    const size_t a_end = i < tokens_.size() ? tokens_[i].begin : text_.size();
    const size_t b_end = i < tokens_.size() ? other.tokens_[i].begin : other.text_.size();
    if (text_.compare(a, a_end - a, other.text_, b, b_end - b) != 0) return false;
    if (i < tokens_.size()) a = a_end + tokens_[i].length, b = b_end + other.tokens_[i].length;
  }
  return true;
}

std::optional<SizedText> SizedText::make(const NumberedText& one, const NumberedText& other) {
  if (!one.same_skeleton(other)) return std::nullopt;
  SizedText out;
  out.like_ = other;
  std::map<std::pair<int64_t, int64_t>, int> sizes;
  std::vector<std::pair<int64_t, int64_t>> all;
  for (size_t i = 0; i < one.tokens().size(); ++i) {
    out.size_of_.push_back(-1);
    if (one.at(i) == other.at(i)) continue;
    const auto a = whole(one.at(i)), b = whole(other.at(i));
    if (!a || !b) return std::nullopt;
    const auto [it, fresh] = sizes.try_emplace({*a, *b}, static_cast<int>(all.size()));
    if (fresh) all.push_back(it->first);
    out.size_of_.back() = it->second;
  }
  if (all.empty()) return std::nullopt;
  // What grows with another, which grows less: a number of times, and some more.
  const auto step = [&](size_t i) { return all[i].second - all[i].first; };
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::abs(step(i)); });
  out.growth_.resize(all.size());
  std::vector<size_t> bases;
  for (const size_t i : order) {
    SizedText::Growth& g = out.growth_[i] = {i, 1, 0};
    for (const size_t base : bases) {
      const int64_t times = step(i) / step(base);
      if (step(i) % step(base) != 0 || times <= 0) continue;
      g = {base, times, all[i].first - times * all[base].first};
      break;
    }
    if (g.base == i) bases.push_back(i);
  }
  return out;
}

std::optional<std::vector<int64_t>> SizedText::sizes_of(const NumberedText& text) const {
  if (!like_.same_skeleton(text)) return std::nullopt;
  std::vector<int64_t> out(growth_.size(), -1);
  for (size_t i = 0; i < size_of_.size(); ++i) {
    if (size_of_[i] < 0) {
      if (like_.at(i) != text.at(i)) return std::nullopt;
      continue;
    }
    const auto v = whole(text.at(i));
    int64_t& size = out[static_cast<size_t>(size_of_[i])];
    if (!v || *v == 0 || (size >= 0 && size != *v)) return std::nullopt;
    size = *v;
  }
  return out;
}

std::vector<int64_t> SizedText::bounds_of(const std::vector<int64_t>& sizes) const {
  std::vector<int64_t> largest = sizes, more(sizes.size(), 0), out(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Growth& g = growth_[i];
    if (g.times != 1) continue;
    largest[g.base] = std::max(largest[g.base], sizes[i]);
    more[g.base] = std::max(more[g.base], g.plus);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Growth& g = growth_[i];
    const int64_t base = bucket_of(largest[g.base]) - more[g.base];
    out[i] = g.times * base + g.plus;
  }
  return out;
}

bool SizedText::fits(const std::vector<int64_t>& sizes, const std::vector<int64_t>& made_of) const {
  const auto bounds = bounds_of(made_of);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > bounds[i]) return false;
  return bounds_of(sizes) == bounds;
}

std::optional<SizedText::Bounded> SizedText::bounded(const NumberedText& now, std::string* why) const {
  const auto sizes = sizes_of(now);
  if (!sizes) return std::nullopt;
  BoundedText text{now, size_of_, bounds_of(*sizes), {}};
  for (size_t i = 0; i < sizes->size(); ++i) {
    if (text.bounds[i] < (*sizes)[i]) return std::nullopt;
    text.at_edge.push_back(bucket_of(text.bounds[i]));
  }
  std::string refused;
  auto out = write_bounded(text, refused);
  if (why) *why = std::move(refused);
  return out;
}

}  // namespace tpubridge::hlo
