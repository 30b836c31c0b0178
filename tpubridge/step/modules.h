// The modules that a step runs: those that it was told of, and those that its function captures. Their modes
// (train or eval) are part of the guard, and what their objects hold must stay what it was.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tpubridge/step/closure.h"

namespace torch::nn {
class Module;
}

namespace tpubridge::step {

// The bytes of a module's object when a call was recorded: tensors, children, options, numbers, flags.
struct ModuleImage {
  const std::byte* at = nullptr;
  std::vector<std::byte> bytes = {};
  bool is_users = false;  // of a class that is not torch's
  bool operator==(const ModuleImage&) const = default;
};
// Empty where it is not known how large the object is.
[[nodiscard]] ModuleImage image_of(const std::shared_ptr<torch::nn::Module>& module);
[[nodiscard]] bool hold(const std::vector<ModuleImage>& images);  // of modules that live

// What members that the user's classes add to torch's point to: lists, strings, objects of their own.
[[nodiscard]] std::vector<Window> behind(const std::vector<ModuleImage>& images, const Wanted& wanted);

// Of a module that lies at this address, the words of torch's part of it; 0 where none does. What its class
// adds lies behind them.
[[nodiscard]] size_t words_of_module(uint64_t address);

class Modules {
 public:
  void add(const std::shared_ptr<torch::nn::Module>& root);  // with its children; stays alive
  // Modules that the function holds, by whatever way: they may die. Whether there are new ones.
  bool find(const Closure& closure);
  // Modes of all that live, in a form that another set of modules does not have.
  void append_modes(std::vector<uint64_t>& guard);

  [[nodiscard]] std::vector<std::shared_ptr<torch::nn::Module>> all() const;

 private:
  struct Root {
    std::weak_ptr<torch::nn::Module> root;
    std::shared_ptr<torch::nn::Module> held;  // the same, but for one that may die
    std::vector<std::shared_ptr<torch::nn::Module>> children;
  };
  void put(const std::shared_ptr<torch::nn::Module>& root, bool hold);
  std::vector<Root> roots_;
  uint64_t died_ = 0;
};

}  // namespace tpubridge::step
