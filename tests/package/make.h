// Small packages for the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pjrt/cpu.h"
#include "tpubridge/hlo/hlo.h"
#include "tpubridge/package/runner.h"

namespace tpubridge::package {

inline HostTensor floats(const std::string& name, Shape shape, std::vector<float> values) {
  return make_tensor(name, std::move(shape), std::as_bytes(std::span(values)));
}

// x * w + x for x [rows, 2], and x itself; `y` is taken and not read.
inline Contents::NewProgram scaled(int64_t rows) {
  const Shape x{DType::f32, {rows, 2}}, w{DType::f32, {2}};
  hlo::Builder b;
  const auto weight = b.parameter(w, {.name = "w"}), in = b.parameter(x, {.name = "x"});
  const auto wide = hlo::broadcast_in_dim(weight, {rows, 2}, {1});
  const std::string text = b.finish({hlo::add(hlo::multiply(in, wide), in), in});
  Contents::NewProgram out;
  out.inputs = {{"x", x}, {"y", {DType::s32, {}}}};
  out.outputs = {{"scaled", x}, {"same", x}};
  out.parameters = {{true, 0}, {false, 0}};
  out.codes = {{"any", text, {}}};
  return out;
}

inline Contents contents(std::vector<int64_t> rows = {1, 3}) {
  Contents out{"a test", {{"tpubridge", "0"}}, {floats("w", {DType::f32, {2}}, {10, 20})}, {}};
  for (const int64_t n : rows) out.programs.push_back(scaled(n));
  return out;
}

// Compiled here, for here.
inline Contents with_executables(Contents c) {
  for (auto& p : c.programs)
    p.executables.push_back(
        {this_machine(*pjrt::cpu()), pjrt::cpu()->compile({p.codes[0].text}).info().serialize()});
  return c;
}

class InFolder : public testing::Test {
 protected:
  Path write(const Contents& c, const std::string& name = "model.tbp") const {
    const Path path = folder_.path() / name;
    write_package(path, c);
    return path;
  }
  std::shared_ptr<const Package> packed(const Contents& c) const {
    return std::make_shared<const Package>(write(c));
  }
  TempFolder folder_;
};

inline HostTensor number(const std::string& name, int32_t value) {
  return make_tensor(name, {DType::s32, {}}, std::as_bytes(std::span(&value, 1)));
}

template <class F>
std::string what_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(e.type_name()) + ": " + e.what();
  }
  return "nothing was thrown";
}

}  // namespace tpubridge::package
