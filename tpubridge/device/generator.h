// Random numbers: a generator is a seed and an offset. An op takes the offset it finds and moves it on; both
// are inputs of the program, so that drawing again neither repeats numbers nor compiles.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

[[nodiscard]] const at::Generator& default_generator(c10::DeviceIndex device);
[[nodiscard]] at::Generator new_generator(c10::DeviceIndex device);

struct Draw {
  uint64_t seed = 0, offset = 0;
  bool operator==(const Draw&) const = default;
};
[[nodiscard]] Draw state_of(const at::Generator& generator);
// How often somebody put the generator somewhere (a seed, a state), as against drawing from it.
[[nodiscard]] uint64_t settings_of(const at::Generator& generator);
// What the next draw of this thread finds (RepeatDraws counts), and where the generator is to stand after it.
[[nodiscard]] Draw next_draw(const at::Generator& generator);
void set_next_draw(const at::Generator& generator, Draw next);
// What `elements` elements move the offset by.
[[nodiscard]] inline uint64_t advance_of(int64_t elements) {
  return static_cast<uint64_t>(std::max<int64_t>(elements, 1));
}
// Reserves numbers for `elements` elements. Without a generator: the device's default one.
[[nodiscard]] Draw draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                        int64_t elements);

// The default generators of all devices at one moment.
struct Draws {
  std::vector<Draw> devices;
  [[nodiscard]] static Draws now();
  void put_back() const;  // as if nothing had been drawn since
};
// While it lives, this thread draws from the default generators what was drawn after that moment. The
// generators themselves stay where they are.
class RepeatDraws {
 public:
  explicit RepeatDraws(Draws from);
  ~RepeatDraws();
  RepeatDraws(const RepeatDraws&) = delete;
  RepeatDraws& operator=(const RepeatDraws&) = delete;

 private:
  Draws draws_;
  Draws* before_;
};

}  // namespace tpubridge::device
