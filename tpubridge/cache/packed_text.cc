#include "tpubridge/cache/packed_text.h"

#include <zstd.h>

namespace tpubridge::cache {

PackedText::PackedText(std::string_view text) : size_(text.size()) {
  packed_.resize(ZSTD_compressBound(text.size()));
  const size_t n = ZSTD_compress(packed_.data(), packed_.size(), text.data(), text.size(), /*level=*/1);
  if (ZSTD_isError(n) || n >= text.size())
    packed_ = text;
  else
    packed_.resize(n);
  packed_.shrink_to_fit();
}

bool PackedText::holds(std::string_view text) const {
  if (text.size() != size_) return false;
  if (packed_.size() == size_) return packed_ == text;
  std::string plain(size_, '\0');
  const size_t n = ZSTD_decompress(plain.data(), plain.size(), packed_.data(), packed_.size());
  return !ZSTD_isError(n) && n == size_ && plain == text;
}

}  // namespace tpubridge::cache
