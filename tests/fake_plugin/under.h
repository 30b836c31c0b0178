// The real plugin underneath: loaded once, called with our handles exchanged for its own.
#pragma once

#include <functional>
#include <optional>

#include "registry.h"

namespace fake {

// The table of the plugin at FAKE_PJRT_UNDER, or of the XLA CPU plugin this was built with. Throws Failure.
[[nodiscard]] const PJRT_Api& under();

// Our copy of an error of the plugin below, which is freed; nothing where `error` is null.
[[nodiscard]] std::optional<Failure> failure_from(PJRT_Error* error);
void check(PJRT_Error* error);  // throws it

template <class Args>
[[nodiscard]] Args args() {
  Args a{};
  a.struct_size = sizeof(Args);
  return a;
}

template <class Args>
void call(PJRT_Error* (*PJRT_Api::*function)(Args*), Args& a) {
  check((under().*function)(&a));
}

// The caller's own struct goes down with one handle exchanged, and comes back with the answer.
template <class Args, class Handle>
void forward(PJRT_Error* (*PJRT_Api::*function)(Args*), Args& a, Handle Args::*field, Handle below) {
  const Handle ours = a.*field;
  a.*field = below;
  PJRT_Error* const error = (under().*function)(&a);
  a.*field = ours;
  check(error);
}

// Calls `done` once `event` is ready, on whatever thread that is, and frees the event.
void when_ready(PJRT_Event* event, std::function<void(std::optional<Failure>)> done);
void await(PJRT_Event* event);  // throws its error, frees it

// A client of the plugin below with this many devices; never freed, shared by all offline compiles.
[[nodiscard]] PJRT_Client* compile_client(int devices);
[[nodiscard]] PJRT_Client* new_client(int devices);

}  // namespace fake
