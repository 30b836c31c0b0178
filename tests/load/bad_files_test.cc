// Files that are damaged, hostile or of another version: each is refused in words.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/load/exports.h"
#include "tpubridge/base/zip.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A copy of an export whose entries can be changed.
struct Copy {
  TempFolder folder;
  std::map<std::string, std::string> entries;  // without the folder of the archive
  Path path = folder.path() / "model.pt2";

  explicit Copy(const std::string& name) {
    const ZipFile zip(export_path(name));
    for (const auto& e : zip.entries())
      entries[e.name.substr(e.name.find('/') + 1)] =
          std::string(reinterpret_cast<const char*>(e.data.data()), e.data.size());
  }
  void change(const std::string& entry, const std::function<void(json&)>& how) {
    json value = json::parse(entries.at(entry));
    how(value);
    entries[entry] = value.dump();
  }
  void graph(const std::function<void(json&)>& how) {
    change("models/model.json", [&](json& m) { how(m["graph_module"]["graph"]); });
  }
  void weights(const std::function<void(json&)>& how) {
    change("data/weights/model_weights_config.json", [&](json& m) { how(m["config"]); });
  }
  std::string write() const {
    std::vector<ZipContent> contents;
    for (const auto& [name, data] : entries) contents.push_back({"m/" + name, data});
    write_zip(path, contents);
    return path.string();
  }
  template <class E = FileError>
  void expect_refused(const std::string& words) const {
    write();
    try {
      (void)load(path);
      ADD_FAILURE() << "it was loaded: " << words;
    } catch (const E& e) {
      EXPECT_THAT(e.what(), HasSubstr(words));
    }
  }
};

void expect_bytes_refused(const std::string& bytes, const std::string& words) {
  const TempFolder folder;
  const Path path = folder.path() / "x.pt2";
  write_file(path, bytes);
  EXPECT_THAT([&] { (void)load(path); }, testing::ThrowsMessage<FileError>(HasSubstr(words)));
}

TEST(BadExport, AnUnchangedCopyLoads) {
  const Copy copy("mlp");
  copy.write();
  EXPECT_EQ(load(copy.path)->parameters().size(), 4U);
}
TEST(BadExport, OtherVersions) {
  Copy copy("mlp");
  copy.change("models/model.json", [](json& m) { m["schema_version"]["minor"] = 99, m["new_field"] = 1; });
  copy.write();
  EXPECT_NO_THROW((void)load(copy.path));
  copy.change("models/model.json", [](json& m) { m["schema_version"]["major"] = 9; });
  copy.expect_refused<UnsupportedError>("version 9.99 of torch.export's schema; 8.x is read");
}
TEST(BadExport, CutOffAnywhere) {
  const std::string whole = read_file(export_path("mlp"));
  for (size_t n = 0; n < whole.size(); n += 97) expect_bytes_refused(whole.substr(0, n), "archive");
}
TEST(BadExport, NoFileNoArchive) {
  EXPECT_THROW((void)load("/nowhere/x.pt2"), FileError);
  expect_bytes_refused("PK", "too short");
  expect_bytes_refused(std::string(1000, 'x'), "no directory");
}
TEST(BadExport, WeightsMissingOrTooMany) {
  Copy missing("mlp");
  missing.weights([](json& w) { w.erase("a.weight"); });
  missing.expect_refused("the parameter a.weight: it is missing among the weights");
  Copy entry("mlp");
  entry.entries.erase("data/weights/weight_0");
  entry.expect_refused("missing");
  Copy extra("mlp");
  extra.weights([](json& w) { w["other"] = w["a.weight"]; });
  extra.expect_refused("\"other\" belongs to nothing");
}
TEST(BadExport, WeightsOfAnotherTypeOrSize) {
  Copy type("mlp");
  type.weights([](json& w) { w["a.weight"]["tensor_meta"]["dtype"] = 8; });
  type.expect_refused("stored as float64, the graph wants float32");
  Copy size("mlp");
  size.weights([](json& w) { w["a.weight"]["tensor_meta"]["sizes"][0]["as_int"] = 1'000'000'000'000; });
  size.expect_refused("sizes [1000000000000, 6], the graph wants [16, 6]");
  Copy bytes("mlp");
  bytes.entries["data/weights/weight_0"].resize(100);
  bytes.expect_refused("the entry has 100 bytes");
  for (const int64_t stride : {int64_t{-1}, INT64_MAX}) {
    Copy strides("mlp");
    strides.weights([&](json& w) { w["a.weight"]["tensor_meta"]["strides"][0]["as_int"] = stride; });
    strides.expect_refused("no numbers that a tensor can have");
  }
}
TEST(BadExport, Pickles) {
  Copy copy("mlp");
  copy.weights([](json& w) { w["a.weight"]["use_pickle"] = true; });
  copy.expect_refused("a pickle, which is a program and is never run");
}
TEST(BadExport, ValuesThatNothingGives) {
  Copy unknown("mlp");
  unknown.graph([](json& g) { g["nodes"][0]["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody"; });
  unknown.expect_refused("the value \"nobody\" is used, and nothing before it gives it");
  Copy cycle("mlp");
  cycle.graph([](json& g) { std::swap(g["nodes"][0], g["nodes"][2]); });
  cycle.expect_refused("nothing before it gives it");
  Copy twice("mlp");
  twice.graph([](json& g) { g["nodes"].push_back(g["nodes"][0]); });
  twice.expect_refused("is given twice");
}
TEST(BadExport, AnOpThatIsNotThereIsNamedWithItsPythonLine) {
  Copy copy("mlp");
  copy.graph([](json& g) { g["nodes"][1]["target"] = "torch.ops.mylib.fancy.default"; });
  copy.expect_refused<UnsupportedError>("node gelu (torch.ops.mylib.fancy.default): this op is not there");
  copy.expect_refused<UnsupportedError>("make_exports.py");
}
// A node in the place of gelu, which takes one tensor and gives one.
json node_of(const std::string& target, const std::vector<std::pair<std::string, json>>& arguments,
             bool gives = true) {
  json node = {{"target", target}, {"inputs", json::array()}, {"outputs", json::array()}, {"name", "n"}};
  for (const auto& [name, arg] : arguments)
    node["inputs"].push_back({{"name", name}, {"arg", arg}, {"kind", 1}});
  if (gives) node["outputs"].push_back({{"as_tensor", {{"name", "gelu"}}}});
  return node;
}
TEST(BadExport, OpsThatReachOutsideOfTensors) {
  const TempFolder folder;
  const std::string secret = (folder.path() / "file").string();
  write_file(secret, std::string(4096, 's'));
  const json x = {{"as_tensor", {{"name", "linear"}}}}, tag = {{"as_string", "x"}}, four = {{"as_int", 4}};
  struct Case {
    json node;
    const char* why;
  };
  for (const auto& [node, why] :
       {Case{node_of("torch.ops.aten.from_file.default", {{"filename", {{"as_string", secret}}},
                                                          {"shared", {{"as_bool", true}}},
                                                          {"size", {{"as_int", 1000}}}}),
             "it reads or writes a file"},
        Case{node_of("torch.ops.aten.from_file.out", {{"filename", {{"as_string", secret}}}, {"out", x}}),
             "it reads or writes a file"},
        Case{node_of("torch.ops.aten._print.default", {{"s", tag}}, false), "it acts on the process"},
        Case{node_of("torch.ops.aten._cufft_clear_plan_cache.default", {{"device_index", four}}, false),
             "it acts on the process"},
        Case{node_of("torch.ops.profiler._record_function_enter.default", {{"name", tag}}),
             "it acts on the process"},
        Case{node_of("torch.ops._c10d_functional.all_reduce.default",
                     {{"input", x}, {"reduce_op", tag}, {"group_name", tag}}),
             "it talks to other processes"},
        Case{node_of("torch.ops.aten.record_stream.default", {{"self", x}, {"s", four}}, false),
             "it works on objects of the process"},
        Case{node_of("torch.ops.aten.set_.source_Storage", {{"self", x}, {"source", four}}),
             "it works on objects of the process"},
        Case{node_of("torch.ops.aten._reshape_alias.default",
                     {{"self", x},
                      {"size", json::parse(R"({"as_ints": [1000000]})")},
                      {"stride", json::parse(R"({"as_ints": [1]})")}}),
             "it does not look where its tensor ends"}}) {
    Copy copy("mlp");
    copy.graph([&](json& g) {
      const bool gives = !node["outputs"].empty();
      if (gives)
        g["nodes"][1] = node;
      else
        g["nodes"].push_back(node);
    });
    copy.expect_refused<UnsupportedError>("this op is not run for a model: " + std::string(why));
  }
  EXPECT_EQ(read_file(secret), std::string(4096, 's'));
}
TEST(BadExport, InputsThatAreLists) {
  Copy copy("mlp");
  copy.graph([](json& g) { g["inputs"][4] = json::parse(R"({"as_tensors": [{"name": "x"}]})"); });
  copy.expect_refused("an input of the graph is a list or a graph");
}
TEST(BadExport, SizesWhoseProductDoesNotFit) {
  Copy copy("mlp");
  const auto grow = [](json& meta) {
    for (int i = 0; i < 2; ++i) {
      meta["sizes"][i]["as_int"] = int64_t{1} << 40;
      meta["strides"][i]["as_int"] = 0;
    }
  };
  copy.graph([&](json& g) { grow(g["tensor_values"]["p_a_weight"]); });
  copy.weights([&](json& w) { grow(w["a.weight"]["tensor_meta"]); });
  copy.expect_refused("no numbers that a tensor can have");
}
TEST(BadExport, OwnOpsWithoutOutputs) {
  Copy copy("mlp");
  copy.graph([](json& g) {
    g["nodes"].push_back(
        node_of("torch.ops.aten.histc.default", {{"self", {{"as_tensor", {{"name", "linear"}}}}}}, false));
  });
  copy.expect_refused("the op gives 1 value, the graph wants 0");
}
// Sizes that only expressions have: 2*s44 alone says what s44 is.
TEST(BadExport, SizesThatAreMadeOfASymbol) {
  Copy copy("dynamic");
  copy.graph([](json& g) { g["tensor_values"]["y"]["sizes"][1] = {{"as_int", 2}}; });
  copy.write();
  auto model = load(copy.path);
  const auto run = [&](int64_t length) {
    return [=] { (void)model->call({torch::ones({3, length, 8}), torch::ones({3, 2, 8})}); };
  };
  EXPECT_NO_THROW(run(4)());
  EXPECT_THAT(run(5), testing::ThrowsMessage<ArgumentError>(
                          HasSubstr("x, dimension 1 must be a multiple of 2 (2*s44), got 5")));
  EXPECT_THAT(run(40), testing::ThrowsMessage<ArgumentError>(
                           HasSubstr("x, dimension 1 divided by 2 (s44) must be in 2..16, got 20")));
}
TEST(BadExport, ArgumentsThatTheOpDoesNotTake) {
  Copy name("mlp");
  name.graph([](json& g) { g["nodes"][0]["inputs"][0]["name"] = "what"; });
  name.expect_refused("node linear");
  Copy kind("mlp");
  kind.graph([](json& g) { g["nodes"][1]["inputs"][0]["arg"] = {{"as_string", "x"}}; });
  kind.write();
  EXPECT_THROW((void)load(kind.path)->forward(torch::ones({4, 6})), Error);
  Copy number("mlp");  // libtorch's own error: a number where lists of tensors are read
  number.graph([](json& g) {
    const json x = {{"as_tensor", {{"name", "linear"}}}};
    g["nodes"][1] = node_of("torch.ops.mkldnn._linear_pointwise.default",
                            {{"X", x},
                             {"W", x},
                             {"attr", {{"as_string", "none"}}},
                             {"scalars", json::parse(R"({"as_floats": [1.5]})")}});
  });
  number.write();
  EXPECT_THROW((void)load(number.path), Error);
}
TEST(BadExport, DeepJson) {
  Copy copy("mlp");
  copy.entries["models/model.json"] = std::string(100'000, '[');
  copy.expect_refused("levels deep");
}
TEST(BadExport, NamesThatAreNone) {
  for (const char* name : {"", "a..b", "a.weight.x"}) {
    Copy copy("mlp");
    copy.change("models/model.json", [&](json& m) {
      m["graph_module"]["signature"]["input_specs"][1]["parameter"]["parameter_name"] = name;
    });
    copy.weights([&](json& w) { w[name] = w["a.bias"], w.erase("a.bias"); });
    copy.expect_refused("is no name that a module's tensor can have");
  }
}

// Of archives.
void expect_zip_refused(std::vector<ZipContent> entries, const std::string& words) {
  const TempFolder folder;
  const Path path = folder.path() / "x.zip";
  write_zip(path, entries);
  EXPECT_THAT([&] { const ZipFile zip(path); }, testing::ThrowsMessage<FileError>(HasSubstr(words)));
}
TEST(BadArchive, NamesThatLeadElsewhereOrStandTwice) {
  for (const char* name : {"../x", "/x", "a/../b", "a//b", "a\\b", "./a", ""})
    expect_zip_refused({{name, "1"}}, "leads elsewhere");
  expect_zip_refused({{"a", "1"}, {"a", "2"}}, "two entries are named \"a\"");
}
TEST(BadArchive, CompressedOrSharedEntries) {
  const TempFolder folder;
  const Path path = folder.path() / "x.zip";
  write_zip(path, std::vector<ZipContent>{{"aaaa", "1111"}, {"bbbb", "2222"}});
  const std::string good = read_file(path);
  const auto second = good.find("PK\x01\x02", good.find("PK\x01\x02") + 1);
  std::string compressed = good;
  compressed[second + 10] = 8;
  expect_bytes_refused(compressed, "is compressed; only stored entries are read");
  std::string grown = good;  // the first entry claims the bytes of the second one as well
  const auto first = good.find("PK\x01\x02");
  grown[first + 50 + 4] = grown[first + 50 + 12] = 60;
  expect_bytes_refused(grown, "share bytes");
  std::string flipped = read_file(export_path("mlp"));
  flipped[flipped.find("\"graph_module\"") + 3] ^= 1;
  expect_bytes_refused(flipped, "not those that were written");
}

}  // namespace
}  // namespace tpubridge
