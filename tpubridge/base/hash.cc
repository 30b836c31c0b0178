#include "tpubridge/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <new>

namespace tpubridge {

uint64_t hash64(std::string_view data, uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}
uint64_t hash64(std::span<const std::byte> data, uint64_t seed) {
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::string_view data, uint64_t seed) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(data.data(), data.size(), seed);
  return {h.high64, h.low64};
}
Hash128 hash128(std::span<const std::byte> data, uint64_t seed) {
  return hash128(std::string_view(reinterpret_cast<const char*>(data.data()), data.size()), seed);
}

struct Hasher::State {
  State() : state(XXH3_createState()) {
    if (state == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state);
  }
  ~State() { XXH3_freeState(state); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* state;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::add(std::string_view data) {
  XXH3_128bits_update(state_->state, data.data(), data.size());
  return *this;
}

Hasher& Hasher::add_field(std::string_view data) {
  std::array<char, 8> length{};  // little endian, whatever the machine
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(data.size() >> (8 * i));
  return add({length.data(), length.size()}).add(data);
}

Hash128 Hasher::digest() const {
  const XXH128_hash_t h = XXH3_128bits_digest(state_->state);
  return {h.high64, h.low64};
}

}  // namespace tpubridge
