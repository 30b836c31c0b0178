// Loading of the plugin below and the few calls into it that several nouns share.
#include "under.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tpubridge/plugin/host_cpu.h"

namespace fake {
namespace {

const PJRT_Api* load() {
  const char* path = std::getenv("FAKE_PJRT_UNDER");
  if (!path) path = FAKE_PJRT_UNDER_DEFAULT;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) throw Failure{PJRT_Error_Code_NOT_FOUND, std::string("FAKE_PJRT_UNDER: ") + dlerror()};
  tpubridge::pjrt::hide_sve_if_missing(library);
  const auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  const PJRT_Api* api = get ? get() : nullptr;
  if (!api) throw Failure{PJRT_Error_Code_FAILED_PRECONDITION, std::string(path) + " is no PJRT plugin"};
  return api;
}

struct Waiting {
  PJRT_Event* event;
  std::function<void(std::optional<Failure>)> done;
};

void free_event(PJRT_Event* event) {
  auto a = args<PJRT_Event_Destroy_Args>();
  a.event = event;
  (void)failure_from(under().PJRT_Event_Destroy(&a));
}

}  // namespace

const PJRT_Api& under() {
  static const PJRT_Api* const api = [] {
    const PJRT_Api* loaded = load();
    auto a = args<PJRT_Plugin_Initialize_Args>();
    if (PJRT_Error* error = loaded->PJRT_Plugin_Initialize(&a)) {
      auto freed = args<PJRT_Error_Destroy_Args>();
      freed.error = error;
      loaded->PJRT_Error_Destroy(&freed);
      throw Failure{PJRT_Error_Code_INTERNAL, "the plugin under the fake one does not initialise"};
    }
    return loaded;
  }();
  return *api;
}

std::optional<Failure> failure_from(PJRT_Error* error) {
  if (!error) return std::nullopt;
  auto message = args<PJRT_Error_Message_Args>();
  message.error = error;
  under().PJRT_Error_Message(&message);
  auto code = args<PJRT_Error_GetCode_Args>();
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  under().PJRT_Error_GetCode(&code);
  Failure failure{code.code, std::string(message.message, message.message_size)};
  auto freed = args<PJRT_Error_Destroy_Args>();
  freed.error = error;
  under().PJRT_Error_Destroy(&freed);
  return failure;
}

void check(PJRT_Error* error) {
  if (auto failure = failure_from(error)) throw Failure(*failure);
}

void when_ready(PJRT_Event* event, std::function<void(std::optional<Failure>)> done) {
  auto waiting = std::make_unique<Waiting>(Waiting{event, std::move(done)});
  auto a = args<PJRT_Event_OnReady_Args>();
  a.event = event;
  a.user_arg = waiting.get();
  a.callback = [](PJRT_Error* error, void* arg) {
    const std::unique_ptr<Waiting> mine(static_cast<Waiting*>(arg));
    auto failure = failure_from(error);
    free_event(mine->event);
    mine->done(std::move(failure));
  };
  check(under().PJRT_Event_OnReady(&a));
  (void)waiting.release();  // NOLINT(bugprone-unused-return-value): the callback owns it now
}

void await(PJRT_Event* event) {
  auto a = args<PJRT_Event_Await_Args>();
  a.event = event;
  const auto failure = failure_from(under().PJRT_Event_Await(&a));
  free_event(event);
  if (failure) throw Failure(*failure);
}

PJRT_Client* new_client(int devices) {
  PJRT_NamedValue count = args<PJRT_NamedValue>();
  count.name = "cpu_device_count";
  count.name_size = std::strlen(count.name);
  count.type = PJRT_NamedValue_kInt64;
  count.int64_value = devices;
  count.value_size = 1;
  auto a = args<PJRT_Client_Create_Args>();
  a.create_options = &count;
  a.num_options = 1;
  call(&PJRT_Api::PJRT_Client_Create, a);
  return a.client;
}

PJRT_Client* compile_client(int devices) {
  static std::mutex lock;
  static auto* const clients = new std::map<int, PJRT_Client*>;
  const std::lock_guard guard(lock);
  PJRT_Client*& client = (*clients)[devices];
  if (!client) client = new_client(devices);
  return client;
}

}  // namespace fake
