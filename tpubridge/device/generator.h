// Random numbers: a generator is a seed and an offset. An op takes the offset it finds and moves it on; both
// are inputs of the program, so that drawing again neither repeats numbers nor compiles.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

[[nodiscard]] const at::Generator& default_generator(c10::DeviceIndex device);
[[nodiscard]] at::Generator new_generator(c10::DeviceIndex device);

struct Draw {
  uint64_t seed = 0, offset = 0;
};
// Reserves numbers for `elements` elements. Without a generator: the device's default one.
[[nodiscard]] Draw draw(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                        int64_t elements);

}  // namespace tpubridge::device
