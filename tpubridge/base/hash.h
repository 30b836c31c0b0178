// Checksums and keys by XXH3: fast and well spread, the same on every machine, no defence against an
// attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tpubridge {

[[nodiscard]] uint64_t hash64(std::string_view data, uint64_t seed = 0);
[[nodiscard]] uint64_t hash64(std::span<const std::byte> data, uint64_t seed = 0);

struct Hash128 {
  uint64_t high = 0, low = 0;
  [[nodiscard]] std::string hex() const;  // 32 digits, high part first: fit for a file name
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};
[[nodiscard]] Hash128 hash128(std::string_view data, uint64_t seed = 0);
[[nodiscard]] Hash128 hash128(std::span<const std::byte> data, uint64_t seed = 0);

// The hash of many pieces. `add` is plain concatenation; `add_field` also adds the length, so that ("ab",
// "c") and ("a", "bc") differ.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hasher& add(std::string_view data);
  Hasher& add_field(std::string_view data);
  [[nodiscard]] Hash128 digest() const;  // of all that was added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpubridge

template <>
struct std::hash<tpubridge::Hash128> {
  size_t operator()(const tpubridge::Hash128& h) const noexcept { return h.low; }
};
