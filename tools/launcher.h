// Several processes of one job on this host: started together, their lines with their rank in front, ended
// together when one of them fails.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace tpubridge::tools {

struct Launch {
  std::vector<std::string> argv;
  int processes = 1;
  int port = 0;                        // 0: a free one
  std::string job = {};                // one for each attempt
  bool prefix = true;                  // "[3] " before each line of rank 3
  bool to_stderr = false;              // all that they write
  std::chrono::milliseconds grace{0};  // after the first failure, before the others are told to end
  const std::atomic<bool>* cancel = nullptr;
};

struct Ended {
  int rank = 0;
  int code = 0;    // exit code, where it ended by itself
  int signal = 0;  // that killed it
  double seconds = 0;
  bool first = false;  // that failed, of all
  bool told = false;   // to end
  [[nodiscard]] bool ok() const { return code == 0 && signal == 0; }
};

// Returns when all have ended. Throws FileError where the program cannot be started.
[[nodiscard]] std::vector<Ended> launch(const Launch& what);

}  // namespace tpubridge::tools
