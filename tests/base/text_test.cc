// Edit distance by hand-counted cases, the nearest word, quoting.
#include "tpubridge/base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace tpubridge {
namespace {

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("sunday", "saturday"), 3u);
  EXPECT_EQ(edit_distance("LOG", "LGO"), 1u);  // one swap
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
  EXPECT_EQ(edit_distance("plugin", "plugn"), 1u);
}

TEST(Text, Nearest) {
  const std::array<std::string_view, 3> known = {"v5e", "v5p", "v6e"};
  EXPECT_EQ(nearest("v5ee", known), "v5e");
  EXPECT_EQ(nearest("6e", known), "v6e");
  EXPECT_EQ(nearest("v5", known), "v5e") << "the first of equals";
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, JoinAndQuote) {
  const std::array<std::string_view, 3> words = {"a", "b", "c"};
  EXPECT_EQ(join(words), "a, b, c");
  EXPECT_EQ(join(words, "|"), "a|b|c");
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(quote("a \"b\"\\\n\t\x01\x7f"), R"("a \"b\"\\\n\t\x01\x7f")");
}

TEST(Text, PrintableKeepsLinesAndLetters) {
  EXPECT_EQ(printable("a\tb\né \"x\" \\"), "a\tb\né \"x\" \\");
  EXPECT_EQ(printable("\x1b[2J\r\x07\x7f"), R"(\x1b[2J\x0d\x07\x7f)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            R"(\x9b2J)")
      << "one character that some terminals take for ESC [";
  EXPECT_EQ(printable("\xc2\xa0\xc2"), "\xc2\xa0\xc2");
}

TEST(Text, NearestOfAVeryLongWord) {
  const std::array<std::string_view, 2> known = {"plugin", "seed"};
  EXPECT_EQ(nearest(std::string(50'000'000, 'p'), known), "plugin");
}

}  // namespace
}  // namespace tpubridge
