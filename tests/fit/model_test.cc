// `tpubridge fit MODEL`: what is planned, what is searched for and found again, prices and the page.
#include <csignal>
#include <thread>

#include "tests/fit/fit_model.h"

namespace tpubridge::tools_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The command in a folder of its own, so that what lies beside it can be another.
class OwnBuild {
 public:
  explicit OwnBuild(Environment environment) : environment_(std::move(environment)) {
    std::filesystem::create_directories(bin());
    std::filesystem::create_directory_symlink(Path(BUILD_DIR) / "lib", folder_.path() / "lib");
    copy("tpubridge");
  }
  [[nodiscard]] Path bin() const { return folder_.path() / "bin"; }
  void copy(const std::string& name) const {
    std::filesystem::copy_file(Path(BUILD_DIR) / "bin" / name, bin() / name);
  }
  [[nodiscard]] Ran fit(const std::string& model) const {
    Command command{{(bin() / "tpubridge").string(), "fit", model, "--tpu", "v5e", "--batch", "1", "--length",
                     "16", "--json"}};
    command.environment = environment_;
    command.deadline = std::chrono::seconds(120);
    const Outcome end = run_command(command);
    return {end.code, end.out, end.err};
  }

 private:
  TempFolder folder_;
  Environment environment_;
};

TEST_F(FitModel, PartsAddUpToWhatIsNeeded) {
  const aot::FakeChild child(kByBatch);
  const Ran ran = fit({"--tpu", "v5e,v6e", "--batch", "2", "--length", "16", "--train", "adamw", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto j = ran.json();
  EXPECT_EQ(j["kind"], "llama");
  EXPECT_EQ(j["train"], "adamw");
  EXPECT_THAT(j["loss"].get<std::string>(), HasSubstr("next token"));
  ASSERT_EQ(j["targets"].size(), 2U);
  const auto& point = j["targets"][0]["points"][0];
  EXPECT_EQ(point["batch"], 2);
  EXPECT_EQ(point["tokens"], 32);
  int64_t sum = 0;
  for (const auto& part : point["hbm"]) sum += part.get<int64_t>();
  EXPECT_EQ(sum, point["needed_bytes"]);
  // Two moments of four bytes for each four bytes of weights, and the step's count.
  EXPECT_EQ(point["hbm"]["optimizer_bytes"].get<int64_t>(), 8 * j["parameters"].get<int64_t>() + 4);
  EXPECT_EQ(point["hbm"]["temporaries_bytes"], 2000000000);
  EXPECT_EQ(point["binds"], "neither");
  EXPECT_NEAR(point["tokens_per_second"].get<double>(), 32 / 0.0002, 1e-3);
  EXPECT_TRUE(point["price_per_million"].is_null());  // nobody said what a chip costs
}

TEST_F(FitModel, ATableForPeople) {
  const aot::FakeChild child(kByBatch);
  const Ran ran = fit({"--tpu", "v5e", "--batch", "1,2", "--length", "16"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("v5e:1x1"), HasSubstr("tokens/s"), HasSubstr("llama"), HasSubstr("yes")));
  EXPECT_EQ(ran.err, "");
}

TEST_F(FitModel, TheLargestBatchAndTheSecondAnswer) {
  const aot::FakeChild child(kByBatch);
  const Ran first = fit(search());
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  const auto one = first.json();
  EXPECT_EQ(one["targets"][0]["largest_batch"], 16);
  EXPECT_EQ(one["targets"][0]["too_large_batch"], 17);
  const size_t compiles = started(child);
  EXPECT_EQ(one["compiled"], compiles);
  EXPECT_LE(compiles, 7U);
  // The second is read: nothing is compiled, and no process that has torch is started.
  const auto two = fit(search()).json();
  EXPECT_EQ(started(child), compiles);
  EXPECT_EQ(two["compiled"], 0);
  EXPECT_EQ(two["traced"], 0);
  EXPECT_EQ(two["targets"][0]["largest_batch"], 16);
  for (size_t i = 0; i < one["targets"][0]["points"].size(); ++i)
    EXPECT_EQ(one["targets"][0]["points"][i]["hbm"], two["targets"][0]["points"][i]["hbm"]);
  // Anew where that is asked for.
  auto fresh = search();
  fresh.emplace_back("--fresh");
  EXPECT_EQ(fit(fresh).json()["compiled"], compiles);
  // Other sizes are other programs.
  auto other = search();
  other[5] = "17";
  EXPECT_GT(fit(other).json()["traced"].get<int>(), 0);
}

// A build in a folder without git, or with edits, has the commit of another one.
TEST_F(FitModel, AnotherBuildAsksAnew) {
  const aot::FakeChild child(kByBatch);
  const OwnBuild build(cache());
  build.copy("tpubridge-plan");
  const auto asked = [&] {
    const Ran ran = build.fit(folder_of("llama"));
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    const auto j = ran.json();
    return std::pair(j["traced"].get<int>(), j["compiled"].get<int>());
  };
  EXPECT_EQ(asked(), std::pair(1, 1));
  EXPECT_EQ(asked(), std::pair(0, 0));
  const Path plan = build.bin() / "tpubridge-plan";
  std::filesystem::last_write_time(plan, std::filesystem::last_write_time(plan) + std::chrono::hours(1));
  EXPECT_EQ(asked(), std::pair(1, 1));
}

// A package comes without torch: the variable is for the program that traces as for those that are run.
TEST_F(FitModel, TheTracerIsShownTorch) {
  const aot::FakeChild child(kByBatch);
  Environment environment = cache();
  environment.emplace_back("TPUBRIDGE_TORCH_DIR", "/nowhere/torch");
  const OwnBuild build(environment);
  const Path plan = build.bin() / "tpubridge-plan", seen = build.bin() / "seen";
  write_file(plan, "#!/bin/sh\necho \"$LD_LIBRARY_PATH:\" > '" + seen.string() + "'\nexit 3\n");
  std::filesystem::permissions(plan, std::filesystem::perms::owner_all);
  EXPECT_EQ(build.fit(folder_of("llama")).code, 1);
  EXPECT_TRUE(read_file(seen).starts_with("/nowhere/torch/lib:")) << read_file(seen);
}

TEST_F(FitModel, AKilledSearchGoesOnWhereItWas) {
  const aot::FakeChild child(kByBatch);
  const Path slow = child.folder() / "slow";
  write_file(slow, "");
  // One sample is compiled and stored; the larger batch hangs, and everything is killed.
  const std::string script =
      "'" BUILD_DIR "/bin/tpubridge' fit '" + folder_of("llama") +
      "' --tpu v5e --batch auto --length 16 --jobs 1 --json >/dev/null 2>&1 & me=$!; "
      "until [ \"$(wc -l < '" +
      (child.folder() / "started").string() +
      "' 2>/dev/null || echo 0)\" -ge 2 ]; do sleep 0.05; done; kill -9 $me; wait $me; exit 0";
  Command command{{"sh", "-c", script}};
  command.environment = cache();
  command.deadline = std::chrono::seconds(100);
  ASSERT_TRUE(run_command(command).ok());
  std::filesystem::remove(slow);
  const size_t before = started(child);
  const auto j = fit(search()).json();
  EXPECT_EQ(j["targets"][0]["largest_batch"], 16);
  EXPECT_GE(j["stored"].get<size_t>(), 1U);
  EXPECT_EQ(j["compiled"].get<size_t>(), started(child) - before);
}

TEST_F(FitModel, DamagedEntriesAreCompiledAnew) {
  const aot::FakeChild child(kByBatch);
  const auto good = fit(search()).json();
  size_t i = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "cache/fit")) {
    std::string text = read_file(file.path());
    switch (i++ % 5) {
      case 0:
        text.resize(text.size() / 2);
        break;
      case 1:
        text[text.size() / 2] ^= 1;
        break;
      case 2:
        text.clear();
        break;
      case 3:
        text = "{}";
        break;
      default:
        text.replace(0, 6, "result");
    }
    write_file(file.path(), text);
  }
  const auto again = fit(search()).json();
  EXPECT_EQ(again["targets"][0]["largest_batch"], 16);
  EXPECT_GT(again["compiled"].get<int>(), 0);
  const auto third = fit(search()).json();
  EXPECT_EQ(third["compiled"], 0);
  EXPECT_EQ(third["traced"], 0);
}

TEST_F(FitModel, ACacheThatCannotBeWritten) {
  const aot::FakeChild child(kByBatch);
  write_file(folder_.path() / "cache", "a file");
  const Ran ran = fit(search());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["targets"][0]["largest_batch"], 16);
}

TEST_F(FitModel, TwoSearchesAtOnce) {
  const aot::FakeChild child(kByBatch);
  std::vector<int> found(3, 0);
  {
    std::vector<std::jthread> all;
    for (int& f : found)
      all.emplace_back([&] { f = fit(search()).json()["targets"][0]["largest_batch"].get<int>(); });
  }
  EXPECT_THAT(found, testing::Each(16));
  EXPECT_EQ(fit(search()).json()["compiled"], 0);
}

TEST_F(FitModel, CtrlCEndsTheSearchAndKeepsWhatIsThere) {
  const aot::FakeChild child(kByBatch);
  write_file(child.folder() / "slow", "");
  const std::string script =
      "'" BUILD_DIR "/bin/tpubridge' fit '" + folder_of("llama") +
      "' --tpu v5e --batch auto --length 16 --jobs 1 & me=$!; until [ \"$(wc -l < '" +
      (child.folder() / "started").string() +
      "' 2>/dev/null || echo 0)\" -ge 2 ]; do sleep 0.05; done; kill -TERM $me; wait $me";
  Command command{{"sh", "-c", script}};
  command.environment = cache();
  const Outcome end = run_command(command);
  EXPECT_EQ(end.code, 128 + SIGTERM) << end.out << end.err;
  EXPECT_THAT(end.out, HasSubstr("cancelled"));
}

TEST_F(FitModel, AModelThatFitsNowhere) {
  const aot::FakeChild child(kByBatch);
  const Ran ran = fit({"--tpu", "v5e", "--batch", "40", "--length", "16", "--json"});
  EXPECT_EQ(ran.code, 2) << ran.err;
  const auto j = ran.json();
  EXPECT_EQ(j["fits"], false);
  EXPECT_EQ(j["targets"][0]["too_large_batch"], 40);
  std::string advice;
  for (const auto& a : j["advice"]) advice += a.get<std::string>() + "\n";
  EXPECT_THAT(advice, AllOf(HasSubstr("too much"), HasSubstr("v5e:2x2"), HasSubstr("--mesh fsdp=4`")));
}

// What is advised is not refused: a batch is split evenly, weights in few bits are not split at all.
TEST_F(FitModel, AdviceThatCanBeFollowed) {
  const aot::FakeChild child(kByBatch);
  const auto advice = [&](std::vector<std::string> words) {
    const Ran ran = fit(std::move(words));
    EXPECT_EQ(ran.code, 2) << ran.out << ran.err;
    const auto j = ran.json();
    std::string out;
    for (const auto& a : j["advice"]) out += a.get<std::string>() + "\n";
    return out;
  };
  EXPECT_THAT(advice({"--tpu", "v5e", "--batch", "41", "--length", "16", "--json"}),
              HasSubstr("--mesh fsdp=4 --batch 44`"));
  EXPECT_THAT(advice({"--tpu", "v5e", "--batch", "40", "--length", "16", "--weights", "int8", "--json"}),
              AllOf(HasSubstr("v5e:2x2"), HasSubstr("without --weights"), Not(HasSubstr("--mesh"))));
}

TEST_F(FitModel, TheCompilerThatFailsIsNoAnswer) {
  const aot::FakeChild child("echo 'F1115 03:59:59.2 7 a.cc:1] Check failed: x' >&2; kill -ABRT $$");
  const Ran ran = fit({"--tpu", "v5e", "--batch", "auto", "--length", "16"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("a.cc:1] Check failed: x"));
}

TEST_F(FitModel, WithoutLibtpuItSaysHowToGetIt) {
  const aot::FakeChild child(kByBatch);
  Environment environment = cache();
  environment.emplace_back("TPUBRIDGE_LIBTPU", "/nowhere/libtpu.so");
  const Ran ran = tpubridge({"fit", folder_of("llama"), "--tpu", "v5e"}, environment);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("TPUBRIDGE_LIBTPU"));
}

// ------------------------------------------------------------------ prices and the page

TEST_F(FitModel, PricesComeFromAFileWithItsSource) {
  const aot::FakeChild child(kByBatch);
  const std::vector<std::string> words = {"--tpu",    "v5e,v7", "--batch", "2",
                                          "--length", "16",     "--json",  "--prices"};
  const auto with = [&](const std::string& text) {
    const File file("prices.json", text);
    auto all = words;
    all.push_back(file.str());
    return fit(all);
  };
  const auto j = with(R"({"date": "2026-11-18", "source": "a test", "chip_hour": {"v5e": 3.6}})").json();
  // 0.0002 s for 32 tokens, a thousandth of a dollar a second.
  EXPECT_NEAR(j["targets"][0]["points"][0]["price_per_million"].get<double>(), 0.001 * 0.0002 / 32 * 1e6,
              1e-12);
  EXPECT_TRUE(j["targets"][1]["points"][0]["price_per_million"].is_null());  // unknown stays unknown
  // Half a chip.
  const auto half =
      with(
          R"({"chip_hour": {"v7": {"price": 3.6, "source": "a test", "date": "2026-11-18"}}, "currency": "EUR"})")
          .json();
  EXPECT_NEAR(half["targets"][1]["points"][0]["price_per_million"].get<double>(), 0.001 * 0.0002 / 64 * 1e6,
              1e-12);
  EXPECT_EQ(half["currency"], "EUR");
  for (const char* bad :
       {R"({"chip_hour": {"v5e": 1}})", R"({"date": "2026-11-18", "chip_hour": {"v5e": 1}})",
        R"({"date": "yesterday", "source": "x", "chip_hour": {"v5e": 1}})",
        R"({"date": "2026-11-18", "source": "x", "chip_hour": {"v9": 1}})",
        R"({"date": "2026-11-18", "source": "x", "chip_hour": {"v5e": -1}})",
        R"({"date": "2026-11-18", "source": "x", "chip_hour": {"v5e": "1"}})",
        R"({"date": "2026-11-18", "source": "x", "chip_hour": {"v5e": 1e999}})",
        R"({"date": "2026-11-18", "source": "x", "chiphour": {}})", "{", ""}) {
    const Ran ran = with(bad);
    EXPECT_EQ(ran.code, 1) << bad << ran.out;
    EXPECT_NE(ran.error().value("message", ""), "") << bad;
  }
}

TEST_F(FitModel, ThePageHoldsEverythingItself) {
  const aot::FakeChild child(kByBatch);
  const Path weird = folder_.path() / "<script>alert(1)</script> & \"x\"";
  std::filesystem::create_directories(weird.parent_path());
  std::filesystem::copy(folder_of("llama"), weird, std::filesystem::copy_options::recursive);
  const std::string page = (folder_.path() / "fit.html").string();
  auto words = search();
  words.insert(words.end(), {"--html", page});
  const Ran ran = fit(words, weird.string());
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const std::string html = read_file(page);
  EXPECT_THAT(html, AllOf(HasSubstr("<svg"), HasSubstr("Roofline"), HasSubstr("Memory over the batch"),
                          HasSubstr("</html>")));
  for (const char* foreign : {"http:", "https:", "<script", "src=", "@import", "url("})
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  // It cannot be written: told, with the path.
  words.back() = (folder_.path() / "no/such/folder/fit.html").string();
  EXPECT_EQ(fit(words, weird.string()).error().value("error_type", ""), "FileError");
}

// ------------------------------------------------------------------ meshes

TEST_F(FitModel, AMeshIsOneProgramForAllDevices) {
  const aot::FakeChild child(kByBatch);
  const Ran ran = fit({"--tpu", "v5e:2x4", "--mesh", "data=4,model=2", "--batch", "4", "--length", "16",
                       "--train", "sgd", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto request = nlohmann::json::parse(read_file(child.folder() / "request.json"));
  EXPECT_EQ(request["partitions"], 8);
  EXPECT_EQ(request["shardy"], true);
  EXPECT_EQ(ran.json()["targets"][0]["points"][0]["chips_used"], 8.0);
  EXPECT_THAT(failed({"--tpu", "v5e:2x2", "--mesh", "data=8"}), HasSubstr("has 4"));
  EXPECT_THAT(failed({"--tpu", "v5e:2x2", "--mesh", "data=2"}), HasSubstr("the mesh has 2 devices"));
}

}  // namespace
}  // namespace tpubridge::tools_test
