#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace tpubridge::fuzz {
namespace {

// Where readers go wrong: ends of ranges, numbers as text, what opens and closes.
constexpr std::array<uint64_t, 10> kNumbers = {0,          1,          0x7f,       0xff,  0x7fffffff,
                                               0xffffffff, 1ULL << 32, ~0ULL >> 1, ~0ULL, 1ULL << 63};
constexpr std::array<std::string_view, 16> kWords = {"9223372036854775807",
                                                     "18446744073709551616",
                                                     "-1",
                                                     "1e999",
                                                     "0.5",
                                                     "null",
                                                     "true",
                                                     "\"\"",
                                                     "{}",
                                                     "[]",
                                                     "[[[[",
                                                     "{\"a\":",
                                                     "\\u0000",
                                                     "\xff\xfe",
                                                     "\n",
                                                     "%s"};

}  // namespace

// SplitMix64.
uint64_t Mutator::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

void Mutator::change(std::string& bytes, const std::string& other) {
  const size_t at = below(bytes.size() + 1), length = below(std::min<size_t>(bytes.size() - at, 64) + 1);
  switch (below(9)) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(next());
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.resize(at);
      break;
    case 4:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 5: {  // a number as it lies in memory
      const uint64_t n = kNumbers[below(kNumbers.size())];
      for (size_t i = 0; i < (length % 2 == 0 ? 4U : 8U) && at + i < bytes.size(); ++i)
        bytes[at + i] = static_cast<char>(n >> (8 * i));
      break;
    }
    case 6:
      bytes.insert(at, kWords[below(kWords.size())]);
      break;
    case 7: {  // a number as it is written
      const auto digit = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
      if (digit == bytes.end()) break;
      bytes.replace(static_cast<size_t>(digit - bytes.begin()), 1, kWords[below(6)]);
      break;
    }
    default:
      if (other.empty()) break;
      const size_t from = below(other.size());
      bytes.replace(at, length, other.substr(from, below(64) + 1));
  }
}

std::string Mutator::operator()(std::string bytes, const std::string& other) {
  for (size_t i = below(4) + 1; i > 0; --i) change(bytes, other);
  return bytes;
}

}  // namespace tpubridge::fuzz
