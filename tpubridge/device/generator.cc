// The generator: 16 bytes of state.
#include "tpubridge/device/generator.h"

#include <array>
#include <cstring>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

struct Generator final : c10::GeneratorImpl {
  explicit Generator(c10::DeviceIndex index)
      : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override { set({seed, 0}); }
  void set_offset(uint64_t offset) override { set({seed_, offset}); }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(
        state.numel() == 16 && state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
        "the state of a tpu generator is a CPU byte tensor of 16 elements");
    std::array<uint64_t, 2> words{};
    std::memcpy(words.data(), state.data(), sizeof(words));
    set({words[0], words[1]});
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const std::array<uint64_t, 2> words{seed_, offset_};
    auto t = at::empty({16}, at::kByte);
    std::memcpy(t.mutable_data_ptr(), words.data(), sizeof(words));
    return t.getIntrusivePtr();
  }

  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
  uint64_t settings_ = 0;

 private:
  void set(Draw to) {
    seed_ = to.seed;
    offset_ = to.offset;
    ++settings_;
  }
  Generator* clone_impl() const override {
    auto* g = new Generator(device().index());
    g->seed_ = seed_;
    g->offset_ = offset_;
    return g;
  }
};

thread_local Draws* repeated = nullptr;

// Where this thread repeats the draws of the generator: the place.
Draw* repeated_of(const at::Generator& g) {
  const auto index = g.device().index();
  if (!repeated || static_cast<size_t>(index) >= repeated->devices.size() || g != default_generator(index))
    return nullptr;
  return &repeated->devices[static_cast<size_t>(index)];
}

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<Generator>(std::max<c10::DeviceIndex>(device, 0));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::array<at::Generator, 128> all;  // more than an index can be
  if (device < 0) device = c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->getDevice().index();
  std::lock_guard lock(mutex);
  auto& g = all[static_cast<unsigned char>(device)];
  if (!g.defined()) g = new_generator(device);
  return g;
}

Draw draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device, int64_t elements) {
  auto* g = at::get_generator_or_default<Generator>(generator, default_generator(device));
  if (repeated) {
    const auto index = static_cast<size_t>(g->device().index());
    if (index < repeated->devices.size() &&
        g == default_generator(g->device().index()).unsafeGetGeneratorImpl()) {
      const Draw d = repeated->devices[index];
      repeated->devices[index].offset += advance_of(elements);
      return d;
    }
  }
  std::lock_guard lock(g->mutex_);
  Draw d{g->seed_, g->offset_};
  g->offset_ += advance_of(elements);
  return d;
}

Draw state_of(const at::Generator& generator) {
  auto g = generator;
  const std::scoped_lock lock(g.mutex());
  return {g.current_seed(), g.get_offset()};
}

uint64_t settings_of(const at::Generator& generator) {
  auto g = generator;
  const std::scoped_lock lock(g.mutex());
  return g.get<Generator>()->settings_;
}

Draw next_draw(const at::Generator& generator) {
  const Draw* r = repeated_of(generator);
  return r ? *r : state_of(generator);
}

void set_next_draw(const at::Generator& generator, Draw next) {
  if (Draw* r = repeated_of(generator)) {
    *r = next;
    return;
  }
  auto g = generator;
  const std::scoped_lock lock(g.mutex());
  g.get<Generator>()->offset_ = next.offset;
}

Draws Draws::now() {
  Draws d;
  for (int i = 0; i < exec::device_count(); ++i)
    d.devices.push_back(repeated ? repeated->devices.at(static_cast<size_t>(i))
                                 : state_of(default_generator(static_cast<c10::DeviceIndex>(i))));
  return d;
}

void Draws::put_back() const {
  if (repeated) {
    *repeated = *this;
    return;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    at::Generator g = default_generator(static_cast<c10::DeviceIndex>(i));
    const std::scoped_lock lock(g.mutex());
    g.set_current_seed(devices[i].seed);
    g.set_offset(devices[i].offset);
  }
}

RepeatDraws::RepeatDraws(Draws from) : draws_(std::move(from)), before_(std::exchange(repeated, &draws_)) {}
RepeatDraws::~RepeatDraws() { repeated = before_; }

}  // namespace tpubridge::device
