// Tokenizer files, and text in them.
#include "tpubridge/text/tokenizer.h"
#include "tests/fuzz/target.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::fuzz {
namespace {

void read_tokenizer(std::string_view bytes) {
  const Tokenizer tokenizer = Tokenizer::of_text(bytes, "fuzz");
  for (const std::string_view text :
       {std::string_view("Hi  the\n1e\xCC\x81 <s>\xF0\x9F\x98\x80"), bytes.substr(0, 200)}) {
    const auto ids = tokenizer.encode(text::lossy(text));
    const std::string back = tokenizer.decode(ids, false);
    require(text::first_invalid(back) == std::string::npos, "text that is no UTF-8");
    TextStream stream(tokenizer, false);
    std::string streamed;
    for (const int64_t id : ids) streamed += stream.add(id);
    streamed += stream.finish();
    require(text::first_invalid(streamed) == std::string::npos, "a stream that is no UTF-8");
  }
}
const Adds tokenizer_target{"tokenizer", read_tokenizer};

}  // namespace
}  // namespace tpubridge::fuzz
