// Every object that the fake has handed out, by its handle.
//
// A handle is a number that never was an address and is never given out twice: a null, foreign, wrong or dead
// one is recognised without touching memory, recorded as misuse, and answered with an error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "pjrt_c_api.h"

namespace fake {

// Thrown inside the fake; leaves it as a PJRT_Error.
struct Failure {
  PJRT_Error_Code code;
  std::string message;
};

enum class Kind {
  error,
  event,
  client,
  device,
  description,
  memory,
  buffer,
  executable,
  loaded_executable,
  topology,
  context,
  serialized,
  count
};
[[nodiscard]] const char* name(Kind kind);

class Object {
 public:
  virtual ~Object() = default;
};

// Each class that is handed out has `Handle` (the C type) and `kKind`.
namespace registry {

void* insert(Kind kind, std::shared_ptr<Object> object, void* handle = nullptr);  // with a handle: that one
std::shared_ptr<Object> find(Kind kind, const void* handle);                      // throws, records misuse
std::shared_ptr<Object> remove(Kind kind, const void* handle);                    // throws, records misuse
[[nodiscard]] int64_t live(Kind kind);

// Records a caller's mistake and throws the error that answers it.
[[noreturn]] void misuse(const std::string& what);
void note_misuse(const std::string& what);  // where there is nobody to answer
[[nodiscard]] int64_t misuses();
[[nodiscard]] std::string misuse_text();  // one line each
void forget_misuse();

}  // namespace registry

template <class T>
typename T::Handle* add(std::shared_ptr<T> object) {
  return static_cast<typename T::Handle*>(registry::insert(T::kKind, std::move(object)));
}
template <class T>
std::shared_ptr<T> get(const typename T::Handle* handle) {
  return std::static_pointer_cast<T>(registry::find(T::kKind, handle));
}
template <class T>
std::shared_ptr<T> take(const typename T::Handle* handle) {
  return std::static_pointer_cast<T>(registry::remove(T::kKind, handle));
}

// For places that cannot answer with an error: a misuse is only recorded.
template <class T>
void take_quietly(const typename T::Handle* handle) {
  try {
    (void)take<T>(handle);
  } catch (const Failure&) {  // recorded by take
  }
}

// The function of the table that runs in this thread; named in misuse reports.
extern thread_local const char* current_function;

}  // namespace fake
