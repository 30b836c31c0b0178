// `tpubridge status`: devices, memory, processes, cache and errors, on the CPU plugin and on the fake TPU.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/tools/command.h"
#include "tpubridge/base/error_journal.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

class Status : public testing::Test {
 protected:
  Ran status(std::vector<std::string> arguments, Environment more = {}) const {
    arguments.insert(arguments.begin(), {"status", "--lock-file", lock()});
    more.emplace_back("TPUBRIDGE_CACHE", "1");
    more.emplace_back("TPUBRIDGE_CACHE_DIR", folder.path().string());
    return tpubridge(std::move(arguments), std::move(more));
  }
  std::string lock() const { return (folder.path() / "lock").string(); }
  TempFolder folder;
  const Environment fake = {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", "generation=v6e,chips=4"}};
};

TEST_F(Status, TheCpuPluginIsASimulation) {
  const Ran ran = status({"--plugin", "cpu", "--devices", "2", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  const auto json = ran.json();
  EXPECT_EQ(json["platform"], "cpu");
  EXPECT_EQ(json["simulated"], true);
  EXPECT_EQ(json["devices"].size(), 2u);
  EXPECT_TRUE(json["devices"][0]["memory"].is_null()) << "the CPU plugin does not tell";
  EXPECT_TRUE(json["processes"].empty());
  EXPECT_EQ(json["cache"]["entries"], 0);
  EXPECT_TRUE(json["errors"].empty());
  EXPECT_THAT(status({"--plugin", "cpu"}).out, HasSubstr("cpu, a simulation: no TPU is in use"));
}

TEST_F(Status, ATpuWithItsMemory) {
  const auto json = status({"--json"}, fake).json();
  EXPECT_EQ(json["platform"], "tpu");
  EXPECT_EQ(json["simulated"], false);
  ASSERT_EQ(json["devices"].size(), 4u);
  EXPECT_EQ(json["devices"][3]["kind"], "TPU v6 lite");
  EXPECT_EQ(json["devices"][3]["memory"]["in_use"], 0);
  EXPECT_EQ(json["devices"][3]["memory"]["limit"], 33546041344);
  const Ran text = status({}, fake);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("0 B of 31.2 GiB (0 %)"));
  EXPECT_THAT(text.out, HasSubstr("processes that use the TPU none\n"));
  EXPECT_THAT(text.out, HasSubstr("cache 0 programs, 0 B of 4.0 GiB"));
  EXPECT_THAT(text.out, HasSubstr("errors none\n"));
}

TEST_F(Status, ProgramsOnDisk) {
  const Ran run = tpubridge({"run", data("donated.mlir"), "--in", data("donated.in.safetensors"), "--json"},
                            {{"TPUBRIDGE_CACHE", "1"}, {"TPUBRIDGE_CACHE_DIR", folder.path().string()}});
  ASSERT_EQ(run.code, 0) << run.err;
  Path entry;
  int64_t bytes = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder.path() / "programs"))
    if (e.is_regular_file() && e.file_size() > 0)
      entry = e.path(), bytes += static_cast<int64_t>(e.file_size());
  const auto json = status({"--plugin", "cpu", "--json"}).json();
  EXPECT_EQ(json["cache"]["entries"], 1);
  EXPECT_EQ(json["cache"]["bytes"], bytes);
  std::filesystem::resize_file(entry, 10);
  const Ran damaged = status({"--plugin", "cpu"});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.out, HasSubstr("cache: 1 program is damaged"));
  EXPECT_THAT(damaged.out, HasSubstr("tpubridge cache verify --remove"));
}

TEST_F(Status, WhoHoldsTheTpu) {
  const int held = open(lock().c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  const auto json = status({"--json"}, fake).json();
  ASSERT_EQ(json["processes"].size(), 1u);
  EXPECT_EQ(json["processes"][0]["pid"], getpid());
  EXPECT_THAT(json["processes"][0]["command"].get<std::string>(), HasSubstr("_tools"));
  EXPECT_EQ(json["devices"].size(), 4u) << "a plugin that is not libtpu can be asked all the same";
  close(held);
}

TEST_F(Status, PastErrors) {
  const Environment state = {{"TPUBRIDGE_STATE_DIR", folder.path().string()}, {"TPUBRIDGE_ERROR_LOG", "1"}};
  const Ran none = status({"--plugin", "cpu"}, state);
  EXPECT_THAT(none.out, HasSubstr("past errors none (" + folder.path().string() + "/errors.jsonl)\n"));
  const ErrorJournal journal(folder.path() / "errors.jsonl");
  for (int i = 0; i < 7; ++i)
    journal.append({.time = 1790000000.0 + i,
                    .process = 40 + i,
                    .program = "train",
                    .operation = "step",
                    .error_class = "memory",
                    .error_type = "TPUOutOfMemoryError",
                    .error = "no room for " + std::to_string(i) + "\nat all",
                    .recovered = i % 2 == 0});
  const Ran ran = status({"--plugin", "cpu", "--json"}, state);
  EXPECT_EQ(ran.code, 0) << "what is past makes nothing wrong now";
  const auto past = ran.json()["past_errors"];
  EXPECT_EQ(past["kept"], true);
  ASSERT_EQ(past["last"].size(), 5u);
  EXPECT_EQ(past["last"][4], nlohmann::json::parse(R"({"time": "2026-09-21T14:13:26Z", "pid": 46,
    "program": "train", "operation": "step", "class": "memory", "type": "TPUOutOfMemoryError",
    "message": "no room for 6\nat all", "recovered": true})"));
  const Ran text = status({"--plugin", "cpu", "--errors", "2"}, state);
  EXPECT_THAT(text.out, HasSubstr("2026-09-21T14:13:25Z  train (45), step: TPUOutOfMemoryError\n"
                                  "    no room for 5\n"
                                  "  2026-09-21T14:13:26Z  train (46), step: TPUOutOfMemoryError, recovered\n"
                                  "    no room for 6\n"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("no room for 4")));
  EXPECT_EQ(status({"--errors", "-1"}, state).code, 64);
  EXPECT_THAT(status({"--plugin", "cpu"},
                     {{"TPUBRIDGE_STATE_DIR", folder.path() / "none"}, {"TPUBRIDGE_ERROR_LOG", "0"}})
                  .out,
              HasSubstr("past errors none, switched off ("));
}

TEST_F(Status, WhatCannotBeToldIsAnError) {
  const Ran broken =
      status({"--json"}, {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", "fail=client_error"}});
  EXPECT_EQ(broken.code, 1);
  const auto json = broken.json();
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_EQ(json["errors"][0]["part"], "devices");
  EXPECT_TRUE(json["platform"].is_null());
  EXPECT_EQ(json["cache"]["entries"], 0) << "the rest is told";
  const Ran variable = status({"--plugin", "cpu", "--json"}, {{"TPUBRIDGE_CACH", "1"}});
  EXPECT_EQ(variable.code, 1);
  EXPECT_EQ(variable.json()["errors"][0]["part"], "environment");
  EXPECT_EQ(status({"--plugin", "/nowhere.so"}).code, 1);
  EXPECT_EQ(status({"--devices", "0"}).code, 64);
}

}  // namespace
}  // namespace tpubridge::tools_test
