// The way into every function: counts the call, checks the size of its Args, and turns what is thrown into an
// error.
#pragma once

#include <functional>
#include <utility>

#include "functions.h"
#include "registry.h"

namespace fake {

// A handle to a new error; the caller frees it.
[[nodiscard]] PJRT_Error* make_error(PJRT_Error_Code code, std::string message);
[[nodiscard]] PJRT_Error* make_error(const Failure& failure);

// Runs `body` as `function`. `got` is the caller's struct_size (0: null Args), `want` the least that we take.
[[nodiscard]] PJRT_Error* guarded(Fn function, size_t got, size_t want, const std::function<void()>& body);

template <Fn F, size_t Size, class Args, void (*Body)(Args&)>
PJRT_Error* entry(Args* a) {
  return guarded(F, a ? a->struct_size : 0, Size, [a] { Body(*a); });
}

// What stands in the table where the fake has nothing of its own.
template <Fn F, class Args>
PJRT_Error* absent(Args*) {
  return guarded(F, sizeof(Args), 0, [] {
    throw Failure{PJRT_Error_Code_UNIMPLEMENTED,
                  std::string(name(F)) + " is UNIMPLEMENTED in the fake plugin"};
  });
}

// The functions of each noun put themselves into the table.
void install_errors(PJRT_Api& api);
void install_events(PJRT_Api& api);
void install_plugin(PJRT_Api& api);
void install_clients(PJRT_Api& api);
void install_devices(PJRT_Api& api);
void install_memories(PJRT_Api& api);
void install_buffers(PJRT_Api& api);
void install_transfers(PJRT_Api& api);
void install_compilers(PJRT_Api& api);
void install_executables(PJRT_Api& api);
void install_loaded(PJRT_Api& api);
void install_execute(PJRT_Api& api);
void install_serializers(PJRT_Api& api);
void install_topologies(PJRT_Api& api);

}  // namespace fake

#define FAKE_SET(function, body) \
  api.function = &::fake::entry<::fake::Fn::function, function##_Args_STRUCT_SIZE, function##_Args, body>
