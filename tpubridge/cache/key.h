// What decides whether a compiled program may be used again, and its hash: the name of an entry.
//
// A compiled program holds machine code. One that was made for other CPU features, by another compiler or for
// other devices must never be loaded, so all of that is in the key.
#pragma once

#include <string>

#include "tpubridge/cache/entry.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::cache {

// Changes with the layout of entries or the meaning of a key. Two versions of the library may share a folder:
// neither finds the other's entries.
inline constexpr uint32_t kFormatVersion = 2;

struct KeyParts {
  std::string program, format;  // what is compiled
  std::string options;          // CompileOptionsProto
  std::string flags;            // variables that the compiler reads: XLA_FLAGS, LIBTPU_INIT_ARGS, PJRT_NPROC
  std::string platform, platform_version;
  std::string plugin;       // API version, attributes, and a digest of the library's file
  std::string device_kind;  // "TPU v5 lite", "cpu"
  std::string cpu;       // model and features as the plugin sees them, and how many; empty on other devices
  std::string topology;  // every device: id, process, kind, place; and which process this is

  [[nodiscard]] ProgramId id() const;
  [[nodiscard]] Hash128 hash() const { return id().key; }
};

// All but `program`, `format` and `options`.
[[nodiscard]] KeyParts target_of(const pjrt::Client& client);

// The lines of /proc/cpuinfo that tell what code the CPU can run, each once. Without clock rates and the
// like.
[[nodiscard]] std::string cpu_features(const std::string& cpuinfo);

// The file's size and a hash of samples of it: a rebuilt plugin differs, and reading all of it would take
// longer than loading a program.
[[nodiscard]] std::string file_digest(const std::string& path);

}  // namespace tpubridge::cache
