// What an executable was made for: it is machine code, and right on no other machine.
#pragma once

#include <string>

#include "tpubridge/base/files.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::package {

// A text that is empty is not compared: of a machine that is not here less is known.
struct Machine {
  std::string target;  // as it is asked for: "cpu", "cuda", "v6e:2x2"
  std::string platform, platform_version, device_kind;
  std::string plugin;    // version, attributes and digest of its library; of one that is not here the digest
  std::string flags;     // variables that the compiler reads
  std::string cpu;       // model and features
  std::string topology;  // every device
  int64_t devices = 0;
};

[[nodiscard]] Machine this_machine(const pjrt::Client& client);
// A TPU that is not here ("v6e:2x2"), whose programs this libtpu compiles.
[[nodiscard]] Machine tpu_machine(const std::string& slice, const Path& libtpu);

// What keeps an executable for the one from running on the other, in words; empty where nothing does.
[[nodiscard]] std::string difference(const Machine& made_for, const Machine& here);

}  // namespace tpubridge::package
