// Little-endian numbers in files, and keys as text. For the sources of cache/ and their tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tpubridge/base/hash.h"

namespace tpubridge::cache {

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}
inline void put32(std::string& out, uint32_t value) { put(out, value); }
inline void put64(std::string& out, uint64_t value) { put(out, value); }

// The caller has checked that the bytes are there.
template <class T>
[[nodiscard]] T get(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return value;
}
[[nodiscard]] inline uint32_t get32(std::string_view bytes, size_t at) { return get<uint32_t>(bytes, at); }
[[nodiscard]] inline uint64_t get64(std::string_view bytes, size_t at) { return get<uint64_t>(bytes, at); }

[[nodiscard]] std::optional<Hash128> parse_key(std::string_view hex);  // what Hash128::hex gives

}  // namespace tpubridge::cache
