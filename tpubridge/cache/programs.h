// From a program to something that runs: what is still in memory, then the disk, then the compiler.
//
//   ProgramCache programs(*client);
//   auto found = programs.get({text});
//   found.program->execute(arguments);
//
// May be called from any thread. Threads and processes that want the same program at the same time compile it
// once. It is a handle: copies of it are the same cache.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tpubridge/cache/disk.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::cache {

enum class Source { memory, disk, compiler };
[[nodiscard]] std::string_view to_string(Source source);

struct Found {
  std::shared_ptr<const pjrt::LoadedExecutable> program;
  Source source = Source::memory;
  double seconds = 0;  // of compiling or loading
};

class ProgramCache {
 public:
  // A null `disk` means none. TPUBRIDGE_COMPILE_TIMEOUT gives the deadline.
  explicit ProgramCache(const pjrt::Client& client,
                        std::shared_ptr<DiskCache> disk = DiskCache::from_environment());

  // The signature, where the caller knows it, saves reading it off the program. Throws what the compiler
  // throws; past the deadline XLACompilationTimeoutError, while the compile goes on: its result, if one
  // comes, is kept in memory and on disk, and whoever asks again before it is there waits for the same
  // compile. `deadline`, where given, counts for this call in the place of deadline().
  [[nodiscard]] Found get(const pjrt::Program& program, const pjrt::CompileOptions& options = {},
                          std::optional<pjrt::Signature> signature = std::nullopt,
                          std::optional<std::chrono::milliseconds> deadline = std::nullopt);

  // Begins to load what this command took first the last time (ahead.h), and writes down what it takes now.
  // Before the first get; nothing without a disk, or where TPUBRIDGE_LOAD_AHEAD is 0.
  void load_ahead(const std::string& command);

  [[nodiscard]] std::chrono::milliseconds deadline() const;
  std::chrono::milliseconds set_deadline(std::chrono::milliseconds deadline);  // 0: none; returns the old one
  // How long to wait for another process that compiles the same, before compiling too (10 minutes).
  std::chrono::milliseconds set_patience(std::chrono::milliseconds patience);  // returns the old one
  [[nodiscard]] std::shared_ptr<DiskCache> disk() const;
  [[nodiscard]] bool on_disk(const pjrt::Program& program, const pjrt::CompileOptions& options) const;
  [[nodiscard]] ProgramId id(const pjrt::Program& program, const pjrt::CompileOptions& options) const;
  [[nodiscard]] Hash128 key(const pjrt::Program& program, const pjrt::CompileOptions& options) const {
    return id(program, options).key;
  }

 private:
  struct State;
  struct Job;
  static Found work(const State& state, const Job& job);
  static void finish(State& state, Job& job);
  std::shared_ptr<State> state_;  // shared with compiles that outlive their deadline
};

}  // namespace tpubridge::cache
