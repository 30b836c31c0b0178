// Tokenizers as Hugging Face's tokenizer.json describes them: text to ids and back.
//
//   const auto tokenizer = tpubridge::Tokenizer::of_file("model/tokenizer.json");
//   const std::vector<int64_t> ids = tokenizer.encode("Hello");
//   std::cout << tokenizer.decode(ids);
//
// BPE, WordPiece, Unigram and WordLevel models with the parts that published models use around them. A part
// of another kind throws UnsupportedError with its name. A tokenizer does not change; copies are cheap, and
// threads may share one. Padding and truncation that a file asks for are left to the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

class Tokenizer {
 public:
  // Of tokenizer.json, or of a folder with one.
  [[nodiscard]] static Tokenizer of_file(const Path& path);
  [[nodiscard]] static Tokenizer of_text(std::string_view json, std::string_view source);

  // The text must be UTF-8. `special`: with the tokens that the model wants around it.
  [[nodiscard]] std::vector<int64_t> encode(std::string_view text, bool special = true) const;
  // Ids that are not known are left out, and so are special tokens unless they are wanted.
  [[nodiscard]] std::string decode(std::span<const int64_t> ids, bool skip_special = true) const;

  [[nodiscard]] std::optional<int64_t> id(const std::string& token) const;
  [[nodiscard]] std::optional<std::string> token(int64_t id) const;
  [[nodiscard]] int64_t size() const;  // ids, added tokens with them: one more than the largest

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Ids that come one by one as text that may be shown at once: never half a character. All of it together is
// what decode() gives, but where bytes ("<0x41>") are no UTF-8: a later one cannot unmake what was shown.
class TextStream {
 public:
  explicit TextStream(Tokenizer tokenizer, bool skip_special = true);
  [[nodiscard]] std::string add(int64_t id);  // what can be shown now; may be empty
  [[nodiscard]] std::string finish();         // what was still held back

 private:
  [[nodiscard]] std::string take(bool all);
  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<int64_t> ids_;  // of which the first `shown_` are shown, as `before_`
  size_t shown_ = 0;
  std::string before_;
};

}  // namespace tpubridge
