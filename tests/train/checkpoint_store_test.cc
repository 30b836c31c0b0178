// Checkpoints on disk, without torch: whole or not there, verified, the newest good one found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tpubridge/base/log.h"
#include "tpubridge/train/checkpoint_store.h"

namespace tpubridge {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

HostTensor tensor(std::string name, std::vector<float> values) {
  return make_tensor(std::move(name), {DType::f32, {static_cast<int64_t>(values.size())}},
                     std::as_bytes(std::span(values)));
}

// Every value follows from the step, so that what was loaded can be told.
CheckpointData data_of(int64_t step, size_t size = 20) {
  const auto v = static_cast<float>(step);
  CheckpointData data;
  data.files["model"] = {tensor("weight", std::vector<float>(size, v)), tensor("bias", {v + 0.5f})};
  data.files["optimizer"] = {tensor("m", {v * 2})};
  data.numbers = {{"step", step}, {"rate", 0.1 * v}};
  return data;
}

void expect_is(const CheckpointData& data, int64_t step, size_t size = 20) {
  const auto v = static_cast<float>(step);
  EXPECT_EQ(data.numbers, (nlohmann::json{{"step", step}, {"rate", 0.1 * v}}));
  ASSERT_EQ(data.files.size(), 2u);
  const auto& model = data.files.at("model");
  ASSERT_EQ(model.size(), 2u);
  const auto& weight = model[model[0].name == "weight" ? 0 : 1];
  const auto& bias = model[model[0].name == "weight" ? 1 : 0];
  EXPECT_THAT(weight.as<float>(), testing::ElementsAreArray(std::vector<float>(size, v)));
  EXPECT_THAT(bias.as<float>(), testing::ElementsAre(v + 0.5f));
  EXPECT_THAT(data.files.at("optimizer").at(0).as<float>(), testing::ElementsAre(v * 2));
}

std::vector<int64_t> steps(const CheckpointStore& store) {
  std::vector<int64_t> out;
  for (const auto& c : store.list()) out.push_back(c.step);
  return out;
}

std::string content(const Path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CheckpointStore, KeepsTheLastOnesAndFindsTheNewest) {
  const TempFolder folder;
  CheckpointStore store(folder.path() / "run", {.keep = 2});
  EXPECT_FALSE(store.latest());
  EXPECT_FALSE(store.newest_good());
  for (const int64_t step : {int64_t{5}, int64_t{10}, int64_t{1'000'000'000'000}})
    store.save(step, data_of(step));
  store.wait();
  EXPECT_THAT(steps(store), testing::ElementsAre(10, 1'000'000'000'000));
  EXPECT_EQ(store.latest()->step, 1'000'000'000'000);
  const auto found = store.newest_good();
  ASSERT_TRUE(found);
  expect_is(found->data, 1'000'000'000'000);
  expect_is(read_checkpoint(store.path_of(10)), 10);
}

TEST(CheckpointStore, WhereTheCurrentFolderIsGoneItSaysSo) {
  const pid_t child = fork();
  if (child == 0) {
    const Path gone = TempFolder().path();
    fs::create_directory(gone);
    if (chdir(gone.c_str()) != 0 || rmdir(gone.c_str()) != 0) _exit(1);
    try {
      const CheckpointStore store("run");
    } catch (const FileError& e) {
      _exit(std::string(e.what()).find("current folder") == std::string::npos ? 2 : 0);
    } catch (const std::exception&) {
      _exit(3);
    }
    _exit(4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CheckpointStore, KeepZeroKeepsAllAndTheSameStepIsReplaced) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.keep = 0, .asynchronous = false});
  for (const int64_t step : {1, 2, 3, 4, 5}) store.save(step, data_of(step));
  EXPECT_THAT(steps(store), testing::ElementsAre(1, 2, 3, 4, 5));
  auto other = data_of(3);
  other.numbers["note"] = "second";
  store.save(3, other);
  EXPECT_EQ(read_checkpoint(store.path_of(3)).numbers["note"], "second");
  EXPECT_THAT(steps(store), testing::ElementsAre(1, 2, 3, 4, 5));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-")) << entry.path();
}

TEST(CheckpointStore, AFailedWriteSurfacesAtWaitAndTheOneBeforeStays) {
  const TempFolder folder;
  CheckpointStore store(folder.path());
  store.save(1, data_of(1));
  auto bad = data_of(2);
  bad.files["model"].push_back(bad.files["model"][0]);  // the same name twice
  store.save(2, bad);
  try {
    store.wait();
    FAIL() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_THAT(e.what(), HasSubstr("TPU checkpoint save failed for '"));
    EXPECT_THAT(e.what(), HasSubstr("weight"));
    EXPECT_EQ(e.detail("operation"), "save");
  }
  store.wait();  // told once
  store.save(3, bad);
  EXPECT_THROW(store.save(4, data_of(4)), TPUCheckpointError);  // the next call tells as well
  EXPECT_THAT(steps(store), testing::ElementsAre(1));
  EXPECT_THROW(store.save(-1, data_of(1)), TPUCheckpointError);
}

TEST(CheckpointStore, AFolderThatCannotBeMade) {
  const TempFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  CheckpointStore store(folder.path() / "file" / "run");
  EXPECT_THROW(store.save(1, data_of(1)), TPUCheckpointError);
  EXPECT_FALSE(store.newest_good());
}

TEST(CheckpointStore, OneWriterAtATime) {
  const TempFolder folder;
  CheckpointStore first(folder.path()), second(folder.path());
  first.save(1, data_of(1));
  first.wait();
  try {
    second.save(2, data_of(2));
    FAIL() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_EQ(e.code(), Code::failed_precondition);
  }
  EXPECT_TRUE(second.newest_good());  // reading is free
}

// A store with two checkpoints, the newer of which is damaged by `damage`: the older one is found, and why
// the newer was skipped is logged.
void expect_skipped(const std::function<void(const Path& newest)>& damage, const std::string& reason) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  store.save(1, data_of(1));
  store.save(2, data_of(2));
  damage(store.path_of(2));
  const log::Capture logged;
  const auto found = store.newest_good();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 1);
  expect_is(found->data, 1);
  const auto records = logged.records("checkpoint.skipped");
  ASSERT_EQ(records.size(), 1u);
  EXPECT_THAT(records[0].field("reason"), HasSubstr(reason));
}

TEST(CheckpointStore, MissingFile) {
  expect_skipped([](const Path& c) { fs::remove(c / "optimizer.safetensors"); }, "optimizer.safetensors");
  expect_skipped([](const Path& c) { fs::remove(c / "manifest.json"); }, "manifest.json");
  expect_skipped([](const Path& c) { fs::remove_all(c), fs::create_directory(c); }, "manifest.json");
}

TEST(CheckpointStore, AChangedValueIsNamed) {
  const auto flip = [](const Path& c) {
    const Path path = c / "model.safetensors";
    std::string bytes = content(path);
    bytes[bytes.size() - 1] ^= 1;  // in the last of the tensors
    std::ofstream(path, std::ios::binary) << bytes;
  };
  expect_skipped(flip, "does not fit its checksum");
  const TempFolder folder;
  write_checkpoint(folder.path() / "c", data_of(2));
  flip(folder.path() / "c");
  try {
    (void)read_checkpoint(folder.path() / "c");
    FAIL() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_EQ(e.detail("file"), "model.safetensors");
    EXPECT_EQ(e.detail("tensor"), "bias");
    EXPECT_THAT(e.hint(), HasSubstr("newest_good"));
  }
}

TEST(CheckpointStore, AManifestThatWasChanged) {
  const auto edit = [](const std::string& from, const std::string& to) {
    return [from, to](const Path& c) {
      std::string text = content(c / "manifest.json");
      const size_t at = text.find(from);
      ASSERT_NE(at, text.npos);
      std::ofstream(c / "manifest.json") << text.replace(at, from.size(), to);
    };
  };
  expect_skipped(edit("\"step\": 2", "\"step\": 3"), "does not fit its checksum");
  expect_skipped(edit("\"version\": 1", "\"version\": 0"), "version 0, known are 1 to 1");
  expect_skipped(edit("tpubridge checkpoint", "something else"), "no manifest");
  expect_skipped(edit("\"format\"", "\"fromat\""), "format");
}

// A store of two, of which the newer may be whole and cannot be read: the older one is not taken for it.
void expect_refused(const std::function<void(const Path& newest)>& hide, Code code,
                    const std::string& reason) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  store.save(1, data_of(1));
  store.save(2, data_of(2));
  hide(store.path_of(2));
  try {
    (void)store.newest_good();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_FALSE(is_damage(e));
    EXPECT_THAT(e.what(), HasSubstr(reason));
    EXPECT_THAT(e.what(), HasSubstr("step-000000002"));
  }
}

TEST(CheckpointStore, WhatMayBeWholeIsNotPassedOver) {
  expect_refused(
      [](const Path& c) {
        std::string text = content(c / "manifest.json");
        std::ofstream(c / "manifest.json") << text.replace(text.find("\"version\": 1"), 12, "\"version\": 7");
      },
      Code::unsupported, "version 7, known are 1 to 1");
  // Where the memory of a process is read at address 0, the answer is EIO.
  expect_refused(
      [](const Path& c) {
        fs::remove(c / "manifest.json");
        fs::create_symlink("/proc/self/mem", c / "manifest.json");
      },
      Code::unavailable, "Input/output error");
}

TEST(CheckpointStore, TooManyOpenFiles) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  store.save(1, data_of(1));
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const rlimit few{64, old.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<int> taken;
  for (int fd = dup(1); fd >= 0; fd = dup(1)) taken.push_back(fd);
  std::string said;
  Code code = Code::ok;
  try {
    (void)store.newest_good();
  } catch (const TPUCheckpointError& e) {
    said = e.what(), code = e.code();
  }
  for (const int fd : taken) ::close(fd);
  setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(code, Code::resource_exhausted);
  EXPECT_THAT(said, HasSubstr("Too many open files"));
  EXPECT_EQ(store.newest_good()->step, 1);
}

TEST(CheckpointStore, AFolderThatCannotBeRead) {
  const TempFolder folder;
  const Path inner = folder.path() / "run";
  CheckpointStore store(inner, {.asynchronous = false});
  store.save(1, data_of(1));
  fs::permissions(inner, fs::perms(0300));
  fs::permissions(folder.path(), fs::perms(0755));
  const bool root = geteuid() == 0;
  if (root && seteuid(65534) != 0) FAIL();
  try {
    (void)store.newest_good();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_EQ(e.code(), Code::permission_denied);
    EXPECT_THAT(e.what(), HasSubstr(inner.string()));
  }
  if (root && seteuid(0) != 0) FAIL();
  fs::permissions(inner, fs::perms(0700));
}

TEST(CheckpointStore, StepsThatNobodyCounted) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  store.save(3, data_of(3));
  for (const char* name : {"step--5", "step-9223372036854775807", "step-99999999999999999999", "step-"})
    fs::create_directory(folder.path() / name);
  EXPECT_THAT(steps(store), testing::ElementsAre(3));
  EXPECT_EQ(store.newest_good()->step, 3);
  EXPECT_THROW(store.save(std::numeric_limits<int64_t>::max(), data_of(1)), TPUCheckpointError);
}

TEST(CheckpointStore, SetAside) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  EXPECT_EQ(store.set_aside(), std::nullopt);
  for (int n = 1; n <= 2; ++n) {
    store.save(n, data_of(n));
    fs::create_directory(folder.path() / "step--5");
    const auto aside = store.set_aside();
    ASSERT_TRUE(aside);
    EXPECT_EQ(aside->filename(), "before-" + std::to_string(n));
    EXPECT_TRUE(steps(store).empty());
    expect_is(read_checkpoint(*aside / store.path_of(n).filename()), n);
    EXPECT_TRUE(fs::exists(*aside / "step--5"));
  }
}

TEST(CheckpointStore, TheSecondIsToldBeforeItWrites) {
  const TempFolder folder;
  CheckpointStore first(folder.path()), second(folder.path());
  first.claim();
  first.claim();
  try {
    second.claim();
    FAIL() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_EQ(e.code(), Code::failed_precondition);
    EXPECT_THAT(e.what(), HasSubstr("another process writes its checkpoints there"));
  }
}

TEST(CheckpointStore, CutOffAtAnyByte) {
  const TempFolder folder;
  CheckpointStore store(folder.path(), {.asynchronous = false});
  store.save(1, data_of(1));
  store.save(2, data_of(2));
  const log::Capture quiet;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    const Path path = store.path_of(2) / name;
    const std::string whole = content(path);
    // The manifest's last byte is a newline, without which it is still whole.
    const size_t end = whole.size() - (whole.ends_with("\n") ? 1 : 0);
    for (size_t size = 0; size < end; ++size) {
      fs::resize_file(path, size);
      EXPECT_THROW((void)read_checkpoint(store.path_of(2)), TPUCheckpointError) << name << " " << size;
      if (size % 97 == 0) {
        EXPECT_EQ(store.newest_good()->step, 1) << name << " " << size;
      }
      std::ofstream(path, std::ios::binary) << whole;
    }
    expect_is(read_checkpoint(store.path_of(2)), 2);
  }
}

TEST(CheckpointStore, AnyByteChanged) {
  const TempFolder folder;
  const Path c = folder.path() / "c";
  write_checkpoint(c, data_of(3));
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    const std::string whole = content(c / name);
    for (size_t at = 0; at < whole.size(); at += 3) {
      std::string bad = whole;
      bad[at] ^= 4;
      std::ofstream(c / name, std::ios::binary) << bad;
      try {
        // White space in a manifest may change; then it still says the same.
        expect_is(read_checkpoint(c), 3);
        EXPECT_TRUE(std::isspace(static_cast<unsigned char>(whole[at]))) << name << " " << at;
      } catch (const TPUCheckpointError&) {
      }
    }
    std::ofstream(c / name, std::ios::binary) << whole;
  }
}

// A child that writes one checkpoint after the other is killed at some moment, again and again: what is left
// can always be loaded, and the next process goes on from there.
TEST(CheckpointStore, KilledWhileWriting) {
  const TempFolder folder;
  constexpr size_t kSize = 50'000;  // large enough that most of the time is spent in writing
  int64_t last = 0;
  for (int round = 0; round < 12; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        CheckpointStore store(folder.path(), {.keep = 2, .asynchronous = false});
        for (int64_t step = last + 1;; ++step) {
          store.save(step, data_of(step, kSize));
          if (::write(pipe[1], "x", 1) != 1) _exit(1);
        }
      } catch (...) {
        _exit(2);
      }
    }
    ::close(pipe[1]);
    char byte = 0;
    for (int i = 0; i < 2; ++i) ASSERT_EQ(::read(pipe[0], &byte, 1), 1);  // two are there
    ::usleep(static_cast<useconds_t>(700 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    ::close(pipe[0]);
    const log::Capture logged;
    const auto found = CheckpointStore(folder.path()).newest_good();
    ASSERT_TRUE(found);
    EXPECT_TRUE(logged.records("checkpoint.skipped").empty());  // half-written ones are not even seen
    EXPECT_GE(found->step, last + 2);
    expect_is(found->data, found->step, kSize);
    last = found->step;
  }
}

}  // namespace
}  // namespace tpubridge
