// A StableHLO module that somebody else wrote (what jax.export writes, as text), as functions of a program of
// ours: @main becomes a private function that is called, the functions beside it get names of their own.
//
// Reads no more of MLIR than it must: names, brackets, strings, and the signatures of functions. Whether the
// ops make sense, the plugin's parser says when the program is compiled.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/builder.h"

namespace tpubridge::hlo {

class ModuleText {
 public:
  // Throws ProgramError, with the line, where the text is no module that can be taken in: dynamic dimensions,
  // several devices or platforms, other things than functions in it, ops that would wait for ever, bytecode.
  [[nodiscard]] static ModuleText parse(std::string text);

  [[nodiscard]] const std::vector<Shape>& parameters() const { return parameters_; }  // of @main
  [[nodiscard]] const std::vector<Shape>& results() const { return results_; }
  [[nodiscard]] const std::vector<std::string>& custom_calls() const {
    return custom_calls_;
  }  // targets, sorted

  [[nodiscard]] std::string text() const;  // all that is taken of it: equal texts are the same kernel

  // @main as a function of the program, under `name`. Added once: the next time it is found by its name.
  const Function& add_to(Builder& b, std::string_view name) const;

 private:
  friend class ModuleReader;
  // A part of the text, where `name` stands in for what comes from this module.
  struct Piece {
    enum class Kind { text, symbol, alias } kind;
    std::string text;
  };
  using Pieces = std::vector<Piece>;
  static void append(std::string& out, const Pieces& pieces, std::string_view name);

  std::vector<Shape> parameters_, results_;
  std::vector<std::string> custom_calls_;
  Pieces functions_, aliases_;
};

}  // namespace tpubridge::hlo
