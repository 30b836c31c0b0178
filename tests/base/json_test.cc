// JSON: values by type, and errors that say where and what.
#include "tpubridge/base/json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using ::testing::HasSubstr;

// The text of the error that `f` throws.
template <class E = ConfigurationError, class F>
std::string complaint(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing thrown";
  return "";
}

JsonReader read(std::string_view text) { return JsonReader::of_text(text, "cfg"); }

TEST(Json, ValuesByType) {
  const auto r = read(R"({"s":"é","i":-3,"n":2.5,"b":true,"z":null,"li":[1,2],"ls":["a"],"ln":[1,0.5],
                          "o":{"k":1},"lo":[{"k":1},{"k":2}]})");
  EXPECT_EQ(r.text("s"), "é");
  EXPECT_EQ(r.integer("i"), -3);
  EXPECT_EQ(r.number("n"), 2.5);
  EXPECT_EQ(r.number("i"), -3.0);
  EXPECT_TRUE(r.flag("b"));
  EXPECT_EQ(r.integers("li"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(r.texts("ls"), std::vector<std::string>{"a"});
  EXPECT_EQ(r.numbers("ln"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(r.object("o").integer("k"), 1);
  ASSERT_EQ(r.objects("lo").size(), 2u);
  EXPECT_EQ(r.objects("lo")[1].integer("k"), 2);
  EXPECT_FALSE(r.has("z"));
  EXPECT_FALSE(r.has("none"));
  EXPECT_TRUE(r.has("b"));
  EXPECT_EQ(read(R"({"b":1,"a":2})").keys(), (std::vector<std::string>{"a", "b"}));
}

TEST(Json, Fallbacks) {
  const auto r = read(R"({"z":null,"i":7,"b":false,"s":"x","n":1.5})");
  EXPECT_EQ(r.integer("none", 4), 4);
  EXPECT_EQ(r.integer("z", 4), 4);
  EXPECT_EQ(r.integer("i", 4), 7);
  EXPECT_EQ(r.text("z", "d"), "d");
  EXPECT_EQ(r.text("s", "d"), "x");
  EXPECT_EQ(r.number("n", 0.0), 1.5);
  EXPECT_EQ(r.number("none", 0.25), 0.25);
  EXPECT_FALSE(r.flag("b", true));
  EXPECT_TRUE(r.flag("none", true));
  EXPECT_THROW((void)r.integer("s", 4), ConfigurationError) << "a wrong value is no missing one";
}

TEST(Json, MissingOrIllTypedNamesTheWholePath) {
  const auto r =
      read(R"({"mesh":{"axes":[{"size":"two"},{}],"ids":[1,"x"]},"n":1.5,"big":9223372036854775808})");
  EXPECT_EQ(complaint([&] { (void)r.object("mesh").objects("axes")[0].integer("size"); }),
            "cfg: mesh.axes[0].size must be a whole number of 64 bits, but is \"two\" "
            "(source=cfg, key=mesh.axes[0].size)");
  EXPECT_THAT(complaint([&] { (void)r.object("mesh").objects("axes")[1].text("name"); }),
              HasSubstr("mesh.axes[1].name is missing"));
  EXPECT_THAT(complaint([&] { (void)r.object("mesh").integers("ids"); }), HasSubstr("mesh.ids[1] must be"));
  EXPECT_THAT(complaint([&] { (void)r.object("n"); }), HasSubstr("n must be an object, but is 1.5"));
  EXPECT_THAT(complaint([&] { (void)r.integers("n"); }), HasSubstr("n must be a list"));
  EXPECT_THAT(complaint([&] { (void)r.integer("n"); }), HasSubstr("1.5"));
  EXPECT_THAT(complaint([&] { (void)r.integer("big"); }), HasSubstr("9223372036854775808"));
  EXPECT_EQ(r.number("big"), 9223372036854775808.0);
  EXPECT_THAT(complaint([] { (void)read("[1]"); }), HasSubstr("the document must be an object, but is [1]"));
}

TEST(Json, UnknownKeyGetsTheNearestKnownOne) {
  const auto r = read(R"({"train":{"batch_sise":1}})");
  r.only({"train"});
  const std::string what = complaint([&] { r.object("train").only({"epochs", "batch_size", "seed"}); });
  EXPECT_THAT(what, HasSubstr("train.batch_sise is not a known key"));
  EXPECT_THAT(what, HasSubstr("Did you mean batch_size?"));
  EXPECT_THAT(what, HasSubstr("epochs, batch_size, seed"));
}

TEST(Json, SyntaxErrorsNameLineAndColumn) {
  EXPECT_THAT(complaint([] { (void)parse_json("{\n  \"a\": 1,\n  \"b\": x\n}", "cfg"); }),
              HasSubstr("cfg:3:8: bad JSON"));
  EXPECT_THAT(complaint([] { (void)parse_json("x", "cfg"); }), HasSubstr("cfg:1:1: "));
  EXPECT_THAT(complaint([] { (void)parse_json("", "cfg"); }), HasSubstr("cfg:1:1: "));
  EXPECT_THAT(complaint([] { (void)parse_json("{\"a\": 1} 2", "cfg"); }), HasSubstr("cfg:1:10: "));
  EXPECT_THAT(complaint([] { (void)parse_json("{\"a\":\n1e999}", "cfg"); }), HasSubstr("number overflow"));
  EXPECT_THAT(complaint([] { (void)parse_json("[1,\n \"\xff\"]", "cfg"); }), HasSubstr("cfg:2:3: "));
  EXPECT_THAT(complaint([] { (void)parse_json("{\"a\": NaN}", "cfg"); }), HasSubstr("bad JSON"));
}

TEST(Json, EqualKeysAreRefused) {
  const std::string what =
      complaint([] { (void)parse_json("{\"a\":1,\n\"b\":{\"a\":2},\n\"a\":3}", "cfg"); });
  EXPECT_THAT(what, HasSubstr("cfg:3:"));
  EXPECT_THAT(what, HasSubstr("the key \"a\" stands twice"));
  EXPECT_EQ(parse_json(R"([{"a":1},{"a":2}])", "cfg").size(), 2u) << "equal keys of two objects are fine";
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(parse_json(nested(150), "cfg").size(), 1u);
  EXPECT_THAT(complaint([&] { (void)parse_json(nested(300), "cfg"); }), HasSubstr("levels deep"));
  EXPECT_THAT(complaint([&] { (void)parse_json(std::string(3'000'000, '['), "cfg"); }),
              HasSubstr("levels deep"));
}

// A parser that looks at all members again for each new one needs minutes here.
TEST(Json, TimeGrowsWithTheLengthAlone) {
  constexpr int kCount = 200'000;
  std::string objects = "[", keys = "{";
  for (int i = 0; i < kCount; ++i) {
    objects += fmt::format("{}{{\"a\":[{}]}}", i == 0 ? "" : ",", i);
    keys += fmt::format("{}\"key{}\":{{}}", i == 0 ? "" : ",", i);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto list = parse_json(objects + "]", "cfg");
  EXPECT_EQ(list.size(), size_t{kCount});
  EXPECT_EQ(list[kCount - 1]["a"][0], kCount - 1);
  EXPECT_EQ(parse_json(keys + "}", "cfg").size(), size_t{kCount});
  EXPECT_THAT(complaint([&] { (void)parse_json(keys + ",\"key7\":1}", "cfg"); }),
              HasSubstr("the key \"key7\" stands twice"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(Json, LimitsAreToldAsSuch) {
  std::string many = "[0";
  for (int i = 0; i < 4'000'000; ++i) many += ",0";
  EXPECT_THAT(complaint([&] { (void)parse_json(many + "]", "cfg"); }),
              HasSubstr("more than 4000000 values, the most that are read"));
  EXPECT_THAT(complaint([] { (void)parse_json(std::string(100'000'001, ' '), "cfg"); }),
              HasSubstr("cfg: 100000001 bytes of JSON; at most 100000000 are read"));
}

TEST(Json, Files) {
  const TempFolder folder;
  const Path path = folder.path() / "c.json";
  write_file(path, R"({"a":5})");
  EXPECT_EQ(JsonReader::of_file(path).integer("a"), 5);
  write_file(path, "{\n");
  const std::string what = complaint<FileError>([&] { (void)JsonReader::of_file(path); });
  EXPECT_THAT(what, HasSubstr(path.string() + ":2:"));
  EXPECT_THROW((void)parse_json_file(folder.path() / "none"), FileError);
}

TEST(Json, ReaderOutlivesItsParent) {
  auto inner = read(R"({"a":{"b":{"c":1}}})").object("a").object("b");
  EXPECT_EQ(inner.integer("c"), 1);
  EXPECT_EQ(inner.json(), nlohmann::json({{"c", 1}}));
}

}  // namespace
}  // namespace tpubridge
