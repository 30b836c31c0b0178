// Checkpoints: a new one, one in the place of another, reading, moving all aside.
#include "tests/faults/scenario.h"
#include "tpubridge/train/checkpoint_store.h"

namespace tpubridge::faults {
namespace {

constexpr StoreOptions kOne{.keep = 1, .asynchronous = false};

CheckpointData data_of(float value) {
  CheckpointData out;
  const std::vector<float> values(50, value);
  out.files["model"] = {make_tensor("w", {DType::f32, {50}}, std::as_bytes(std::span(values)))};
  out.files["optimizer"] = {make_tensor("m", {DType::f32, {50}}, std::as_bytes(std::span(values)))};
  out.numbers = {{"value", value}};
  return out;
}

// What a whole checkpoint holds; NaN where its parts do not fit each other.
float value_of(const CheckpointData& data) {
  const float value = data.numbers.at("value").get<float>();
  const CheckpointData want = data_of(value);
  for (const char* name : {"model", "optimizer"}) {
    const auto found = data.files.find(name);
    if (found == data.files.end() ||
        !std::ranges::equal(found->second.at(0).bytes(), want.files.at(name)[0].bytes()))
      return std::numeric_limits<float>::quiet_NaN();
  }
  return value;
}

class CheckpointScenario : public Scenario {
 public:
  void prepare() override { CheckpointStore(folder(), kOne).save(1, data_of(1)); }
  std::string look() override { return look_in(folder()); }

 protected:
  static std::string look_in(const Path& folder) try {
    const auto found = CheckpointStore(folder, kOne).newest_good();
    if (!found) return "there is none";
    const float value = value_of(found->data);
    return value == 1 ? "old" : value == 2 ? "new" : "wrong content";
  } catch (const Error& e) {
    return e.what();
  }
};

class Save : public CheckpointScenario {
 public:
  void act() override { CheckpointStore(folder(), kOne).save(2, data_of(2)); }
};

class SaveFirst : public CheckpointScenario {
 public:
  void prepare() override {}
  void act() override { CheckpointStore(folder() / "a" / "b", kOne).save(2, data_of(2)); }
  std::string look() override {
    const std::string found = look_in(folder() / "a" / "b");
    return found == "there is none" ? "old" : found;
  }
};

class Replace : public CheckpointScenario {
 public:
  void act() override { CheckpointStore(folder(), kOne).save(1, data_of(2)); }
};

// The newest of two, or an error: going on from the older one, or from nothing, would lose steps.
class Resume : public CheckpointScenario {
 public:
  void prepare() override {
    CheckpointStore store(folder(), {.keep = 2, .asynchronous = false});
    store.save(1, data_of(1));
    store.save(2, data_of(2));
  }
  void act() override {
    const auto found = CheckpointStore(folder(), kOne).newest_good();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, 2);
    EXPECT_EQ(value_of(found->data), 2);
  }
};

class SetAside : public CheckpointScenario {
 public:
  void act() override { (void)CheckpointStore(folder(), kOne).set_aside(); }
  std::string look() override {
    const std::string here = look_in(folder());
    if (here != "there is none") return here;
    for (const auto& e : std::filesystem::directory_iterator(folder()))
      if (e.is_directory() && look_in(e.path()) == "old") return "new";
    return "lost";
  }
};

}  // namespace

std::vector<Named> checkpoint_scenarios() {
  return {{"CheckpointSave", make_scenario<Save>},
          {"CheckpointSaveFirst", make_scenario<SaveFirst>},
          {"CheckpointReplace", make_scenario<Replace>},
          {"CheckpointResume", make_scenario<Resume>},
          {"CheckpointSetAside", make_scenario<SetAside>}};
}

}  // namespace tpubridge::faults
