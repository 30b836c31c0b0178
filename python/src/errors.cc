// Errors of ours as the exceptions of tpubridge.errors, and the interpreter's lock beside ours.
#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include "scopes.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/device/addresses.h"
#include "tpubridge/device/hand_over.h"
#include "tpubridge/exec/waiting.h"

namespace py = pybind11;

namespace tpubridge::python {
namespace {

thread_local bool inside = false;

bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

// Sets Python's error; with the interpreter's lock.
void set_error(const Error& e) {
  try {
    py::dict details;
    for (const auto& [key, value] : e.details()) details[py::str(key)] = value;
    py::module_::import("tpubridge.errors")
        .attr("_raise")(e.type_name(), e.what(), e.message(), details, e.hint(),
                        std::string(to_string(e.code())));
    PyErr_SetString(PyExc_RuntimeError, e.what());  // never reached
  } catch (py::error_already_set& raised) {
    raised.restore();
  }
}

// An op that Python called has failed. Throws what torch takes for an exception of Python.
void leave_op(const Error& e) {
  if (inside || python_ends()) return;
  const py::gil_scoped_acquire lock;
  set_error(e);
  python_error error;
  error.persist();
  throw std::move(error);
}

// Where a thread holds the interpreter's lock and has to wait for ours (a tensor dies), it lets the other go:
// who has ours may need that one, for a shape that only Python knows.
void* before_waiting() { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void after_waiting(void* state) {
  if (state) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}
// A thread that asks for the interpreter's lock when Python ends would be ended in the middle of C++.
bool may_not_return(void* state) { return state && python_ends() && getpid() != gettid(); }

}  // namespace

bool in_cpp() { return inside; }
bool set_in_cpp(bool on) { return std::exchange(inside, on); }

Held::~Held() {
  if (python_ends()) {
    (void)object_.release();
    return;
  }
  const py::gil_scoped_acquire lock;
  object_ = py::object();
}

void bind_errors() {
  device::give_addresses();
  device::set_hand_over(leave_op);
  exec::set_waiting({before_waiting, after_waiting, may_not_return});
  py::register_exception_translator([](std::exception_ptr p) {  // NOLINT
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error& e) {
      set_error(e);
    } catch (python_error& e) {
      e.restore();
    } catch (const c10::IndexError& e) {
      PyErr_SetString(PyExc_IndexError, e.what_without_backtrace());
    } catch (const c10::TypeError& e) {
      PyErr_SetString(PyExc_TypeError, e.what_without_backtrace());
    } catch (const c10::Error& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
    }
  });
}

}  // namespace tpubridge::python
