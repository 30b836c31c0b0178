// A shell script in place of tpubridge-aot, and an empty file in place of libtpu. In the script $1 is the
// request and $2 where the response is expected.
#pragma once

#include <sys/stat.h>

#include <string>

#include "tests/base/scoped_env.h"
#include "tpubridge/base/files.h"

namespace tpubridge::aot {

class FakeChild {
 public:
  explicit FakeChild(const std::string& script) {
    write_file(child_, "#!/bin/sh\n" + script + "\n");
    ::chmod(child_.c_str(), 0755);
    write_file(libtpu_, "no library");
  }
  [[nodiscard]] const Path& folder() const { return folder_.path(); }

 private:
  TempFolder folder_{"fake-child"};
  Path child_ = folder_.path() / "child", libtpu_ = folder_.path() / "libtpu.so";
  ScopedEnv child_variable_{"TPUBRIDGE_AOT_CHILD", child_.c_str()};
  ScopedEnv libtpu_variable_{"TPUBRIDGE_LIBTPU", libtpu_.c_str()};
};

// What the real child answers for a program that fits a v5e.
inline const std::string kFits = R"({"stage": "done", "load_seconds": 1.0, "compile_seconds": 3.5,
  "topology": {"platform": "tpu", "devices": 1, "chips": 1, "hosts": 1, "device_kind": "TPU v5 lite",
               "hbm_bytes": 16909336064},
  "memory": {"arguments": 262144, "outputs": 131072, "temporaries": 4096, "aliased": 65536, "code": 54272,
             "peak": 524288},
  "cost": {"flops": 33554432.0, "bytes accessed": 922112.0, "optimal_seconds": 1.25e-06, "utilization0{}": 3.0}})";

// A script that answers with a text.
inline std::string answering(const std::string& response) {
  return "cat > \"$2\" <<'END'\n" + response + "\nEND";
}

}  // namespace tpubridge::aot
