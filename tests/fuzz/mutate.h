// Changes that a hostile or damaged file may have, the same ones for the same seed on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace tpubridge::fuzz {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : state_(seed * 2 + 1) {}
  // A few changes of `bytes`; `other` is what parts may be taken from.
  [[nodiscard]] std::string operator()(std::string bytes, const std::string& other);

 private:
  uint64_t next();
  size_t below(size_t n) { return n == 0 ? 0 : next() % n; }
  void change(std::string& bytes, const std::string& other);
  uint64_t state_;
};

}  // namespace tpubridge::fuzz
