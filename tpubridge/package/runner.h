// Runs a package on the devices of a client. For each program the executable that was made for this machine
// is loaded; where there is none it is compiled from the StableHLO beside it, and how() says so and why.
#pragma once

#include <mutex>
#include <optional>

#include "tpubridge/package/package.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::package {

struct RunOptions {
  bool may_compile = true;      // false: CompilationError where no executable fits this machine
  bool use_executables = true;  // false: no machine code of the package is loaded, all is compiled here
};

// Where a program came from.
struct How {
  enum class Source { executable, compiler, disk };  // disk: compiled before, from the cache (docs/cache.md)
  Source source = Source::executable;
  std::string why;     // no executable was taken: what kept each of them
  std::string target;  // of the executable
  double seconds = 0;  // of loading or compiling
};

// Which program of a package takes these inputs, and they in its order.
struct Bound {
  size_t program = 0;
  std::vector<HostTensor> inputs;
};
// Inputs by the names of the signature, or arg0, arg1, … in its order. Throws ArgumentError that names what
// is missing, not known, given twice, of another type or of shapes that no program has.
[[nodiscard]] Bound bind_inputs(const Package& package, std::span<const HostTensor> given);

// May be used by several threads.
class Runner {
 public:
  Runner(std::shared_ptr<const Package> package, std::shared_ptr<pjrt::Client> client,
         RunOptions options = {});

  [[nodiscard]] const Package& package() const { return *package_; }
  // What bind_inputs says; results have the names of the signature.
  [[nodiscard]] std::vector<HostTensor> run(std::span<const HostTensor> inputs);
  [[nodiscard]] std::vector<HostTensor> run(std::initializer_list<HostTensor> inputs) {
    return run(std::span(inputs.begin(), inputs.size()));
  }
  [[nodiscard]] std::vector<HostTensor> run(const Bound& bound);
  // Loads a program before it is needed: from then on a run of it neither loads nor compiles.
  const How& prepare(size_t program);
  // Prepared, for whoever wants to look at it.
  [[nodiscard]] const pjrt::LoadedExecutable& executable(size_t program) { return *ready(program).program; }

 private:
  struct Ready {
    How how;
    std::shared_ptr<const pjrt::LoadedExecutable> program;
  };
  const Ready& ready(size_t program);
  [[nodiscard]] std::shared_ptr<const pjrt::LoadedExecutable> load(const Program& program, How& how) const;
  [[nodiscard]] std::shared_ptr<const pjrt::LoadedExecutable> compile(const Program& program, How& how) const;
  void check_signature(const Program& program, const pjrt::LoadedExecutable& loaded) const;
  const pjrt::Buffer& weight(size_t index, const pjrt::Device& device);

  std::shared_ptr<const Package> package_;
  std::shared_ptr<pjrt::Client> client_;
  RunOptions options_;
  Machine here_;
  std::mutex mutex_;  // guards what follows; what is there stays
  std::map<size_t, Ready> ready_;
  std::map<std::pair<size_t, int>, pjrt::Buffer> weights_;  // by weight and device
};

}  // namespace tpubridge::package
