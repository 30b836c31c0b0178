// Going on from checkpoints: what cannot be read is never written over, and a full disk ends no training.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/device/check.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/log.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Line : torch::nn::Module {
  Line() { w = register_parameter("w", torch::full({4}, 0.5)); }
  torch::Tensor w;
};

// A training on the CPU; made anew for each, as in a new process.
struct Attempt {
  explicit Attempt(TrainerOptions options)
      : data({torch::ones({24, 4})}, {.batch = 2}),
        model(std::make_shared<Line>()),
        optimizer(model->parameters(), torch::optim::SGDOptions(0.1)),
        trainer(
            model, [m = model](const Batch& b) { return (b[0] * m->w).pow(2).mean(); }, optimizer,
            std::move(options)) {}
  TrainResult train() { return trainer.train(data); }
  TensorData data;
  std::shared_ptr<Line> model;
  torch::optim::SGD optimizer;
  Trainer trainer;
};

TPUCheckpointError refusal(Attempt& run) {
  try {
    (void)run.trainer.resume();
  } catch (const TPUCheckpointError& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return TPUCheckpointError("");
}

std::string text_of(const Path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Resume : public testing::Test {
 protected:
  Resume() {
    Attempt run(options);
    (void)run.train();
  }
  // The numbers of the newest checkpoint, changed by somebody who knows how to make its checksum.
  void forge(const std::string& key, int64_t value) {
    const Path path = CheckpointStore(folder.path()).latest()->path / "manifest.json";
    auto manifest = nlohmann::json::parse(text_of(path));
    manifest["numbers"]["training"][key] = value;
    manifest.erase("checksum");
    manifest["checksum"] = hash128(manifest.dump()).hex();
    std::ofstream(path) << manifest.dump(1);
  }
  TempFolder folder;
  TrainerOptions options{.steps = 4, .checkpoint_every = 2, .checkpoints = folder.path()};
};

TEST_F(Resume, ANewerFormatIsNotWrittenOver) {
  const Path manifest = CheckpointStore(folder.path()).latest()->path / "manifest.json";
  std::string text = text_of(manifest);
  std::ofstream(manifest) << text.replace(text.find("\"version\": 1"), 12, "\"version\": 7");
  Attempt run(options);
  const auto e = refusal(run);
  EXPECT_EQ(e.code(), Code::unsupported);
  EXPECT_THAT(e.what(), HasSubstr("version 7"));
  EXPECT_THAT(e.hint(), HasSubstr("--restart"));
  EXPECT_EQ(run.trainer.step(), 0);
  EXPECT_EQ(CheckpointStore(folder.path()).list().size(), 2u);
}

TEST_F(Resume, WhereAllAreDamagedNothingIsStarted) {
  for (const auto& c : CheckpointStore(folder.path()).list())
    fs::resize_file(c.path / "model.safetensors", 9);
  Attempt run(options);
  const auto e = refusal(run);
  EXPECT_EQ(e.code(), Code::data_loss);
  EXPECT_THAT(e.what(), HasSubstr("step-000000004"));
  EXPECT_THAT(e.hint(), HasSubstr("No checkpoint of the folder can be read"));
}

TEST_F(Resume, RestartKeepsWhatWasThere) {
  fs::resize_file(CheckpointStore(folder.path()).path_of(4) / "model.safetensors", 9);
  {
    Attempt run(options);
    const auto aside = run.trainer.restart();
    ASSERT_TRUE(aside);
    EXPECT_EQ(*aside, folder.path() / "before-1");
    EXPECT_EQ(run.train().step, 4);
    EXPECT_EQ(CheckpointStore(*aside).list().size(), 2u);
  }
  Attempt next(options);
  EXPECT_TRUE(next.trainer.resume());
  EXPECT_EQ(next.trainer.step(), 4);
}

TEST_F(Resume, ForgedNumbersAreRefused) {
  const auto forged = [&](const std::string& key, int64_t value) {
    forge(key, value);
    Attempt run(options);
    const auto e = refusal(run);
    EXPECT_EQ(e.code(), Code::invalid_argument) << key;
    EXPECT_THAT(e.what(), HasSubstr(key + " " + std::to_string(value)));
    EXPECT_EQ(run.trainer.step(), 0);
    EXPECT_EQ(run.model->w[0].item<float>(), 0.5f) << "nothing was loaded";
  };
  for (const int64_t step : {int64_t{-5}, std::numeric_limits<int64_t>::max()}) forged("step", step);
  forge("step", 4);
  forged("epoch", -1);
  forge("epoch", 0);
  forged("parts", 0);
}

TEST_F(Resume, ACopyUnderAnotherNameIsRefused) {
  const CheckpointStore store(folder.path());
  fs::copy(store.path_of(2), store.path_of(900), fs::copy_options::recursive);
  {
    Attempt run(options);
    const auto e = refusal(run);
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("its name says step 900, but it is of step 2"));
    EXPECT_THAT(e.hint(), HasSubstr("move it out of the folder"));
    EXPECT_EQ(run.trainer.step(), 0);
    EXPECT_EQ(run.model->w[0].item<float>(), 0.5f) << "nothing was loaded";
  }
  fs::remove_all(store.path_of(900));
  Attempt run(options);
  EXPECT_TRUE(run.trainer.resume());
  EXPECT_EQ(run.trainer.step(), 4);
}

TEST_F(Resume, TheSecondTrainerIsToldAtItsStart) {
  Attempt first(options), second(options), third(options);
  EXPECT_TRUE(first.trainer.resume());
  EXPECT_EQ(refusal(second).code(), Code::failed_precondition);
  try {
    (void)third.train();
    FAIL() << "nothing was thrown";
  } catch (const TPUCheckpointError& e) {
    EXPECT_THAT(e.what(), HasSubstr("another process writes its checkpoints there"));
  }
  EXPECT_EQ(third.trainer.step(), 0);
}

// While it lives no file can grow past `bytes`, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit tiny{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tiny);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int);
};

TEST(FullDisk, TrainingGoesOnAndTriesAgain) {
  const TempFolder folder;
  const log::Capture logged;
  std::optional<FullDisk> full;
  TrainerOptions options{.steps = 12, .log_every = 1, .checkpoint_every = 2, .checkpoints = folder.path()};
  options.metrics = folder.path() / "m.jsonl";
  options.on_progress = [&](const Progress& p) {
    if (p.step == 3) {  // when the second is on the disk
      while (!fs::exists(folder.path() / "step-000000002")) std::this_thread::yield();
      full.emplace(20);
    }
    if (p.step == 9) full.reset();
  };
  Attempt run(options);
  EXPECT_EQ(run.train().step, 12);
  EXPECT_EQ(CheckpointStore(folder.path()).newest_good()->step, 12);
  const auto failed = logged.records("checkpoint.not_saved");
  ASSERT_GE(failed.size(), 2u) << "told again and again";
  EXPECT_THAT(failed[0].field("cause"), HasSubstr("File too large"));
  EXPECT_THAT(failed[0].field("kept"), HasSubstr("step-000000002"));
  EXPECT_EQ(logged.records("metrics.not_written").size(), 1u);
  EXPECT_EQ(logged.records("metrics.written_again").size(), 1u);
  std::istringstream lines(text_of(options.metrics));
  std::vector<int64_t> steps;
  for (std::string line; std::getline(lines, line);)
    steps.push_back(nlohmann::json::parse(line).at("step").get<int64_t>());
  EXPECT_THAT(steps, testing::IsSupersetOf({1, 2, 3, 10, 11, 12}));
  EXPECT_THAT(steps, testing::Not(testing::Contains(6)));
}

TEST(FullDisk, TheLastCheckpointMustBeWritten) {
  const TempFolder folder;
  {
    Attempt run({.steps = 2, .checkpoints = folder.path()});
    (void)run.train();
  }
  Attempt run({.steps = 4, .checkpoints = folder.path()});
  ASSERT_TRUE(run.trainer.resume());
  {
    const FullDisk full(20);
    EXPECT_THROW((void)run.train(), TPUCheckpointError);
  }
  EXPECT_EQ(CheckpointStore(folder.path()).newest_good()->step, 2) << "the one before stays";
  run.trainer.save();
  EXPECT_EQ(CheckpointStore(folder.path()).newest_good()->step, 4);
}

}  // namespace
}  // namespace tpubridge
