// Which language a thread is in. Errors of ours leave an op as Python exceptions where Python called it, and
// stay what they are where our own C++ did.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace tpubridge::python {

// Whether this thread is inside of a function of ours that Python has called.
[[nodiscard]] bool in_cpp();
bool set_in_cpp(bool on);  // gives what it was

// A call of ours from Python: other threads of Python run meanwhile.
class Cpp {
 public:
  Cpp() : before_(set_in_cpp(true)) {}
  ~Cpp() { set_in_cpp(before_); }
  Cpp(const Cpp&) = delete;
  Cpp& operator=(const Cpp&) = delete;

 private:
  bool before_;
  pybind11::gil_scoped_release released_;
};

// A call of Python from there.
class Back {
 public:
  Back() : before_(set_in_cpp(false)) {}
  ~Back() { set_in_cpp(before_); }
  Back(const Back&) = delete;
  Back& operator=(const Back&) = delete;

 private:
  pybind11::gil_scoped_acquire acquired_;
  bool before_;
};

// A Python object that C++ may hold and drop in any thread.
class Held {
 public:
  explicit Held(pybind11::object object) : object_(std::move(object)) {}
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  [[nodiscard]] const pybind11::object& get() const { return object_; }

 private:
  pybind11::object object_;
};

void bind_errors();
void bind_device(pybind11::module_& m);
void bind_steps(pybind11::module_& m);
void bind_load(pybind11::module_& m);
void bind_export(pybind11::module_& m);

}  // namespace tpubridge::python
