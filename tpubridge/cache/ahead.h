// Programs loaded before anybody asks for them: those that the same command took first when it ran the last
// time. They are read from disk and handed to the plugin in a thread of their own while the process still
// builds its model, so that its first step finds them there.
//
// What a command took is written down in the folder of the programs, in `HASH.start`: the hash is of the
// executable's path, its arguments and the machine they ran on. What is bad in such a file is passed over.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tpubridge/cache/disk.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::cache {

[[nodiscard]] std::string this_command();  // of this process: the executable and its arguments

class Ahead {
 public:
  struct Loaded {
    ProgramId id;
    pjrt::LoadedExecutable program;
    double compile_seconds, seconds;  // what compiling took once, and loading now
  };

  // Nothing is loaded yet. `command` tells one command on one machine from another.
  Ahead(const pjrt::Client& client, std::shared_ptr<DiskCache> disk, const std::string& command);
  ~Ahead();
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  void start();
  // The program, where it was loaded; waits for the one that is being loaded. What was not begun is left to
  // the caller.
  [[nodiscard]] std::optional<Loaded> take(const ProgramId& id, std::optional<pjrt::Signature> signature);
  // A program that this process has now, for the next time. Where it had to be compiled, the command does
  // something new: what was loaded and not taken goes.
  void note(const Hash128& key, bool compiled);

 private:
  struct State;
  static void load_all(State& state);
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace tpubridge::cache
