// The exported functions, and the table that GetPjrtApi hands out: built anew wherever the settings ask for
// another.
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>

#include "entry.h"
#include "fake_pjrt.h"
#include "functions.h"
#include "state.h"
#include "under.h"

namespace fake {
namespace {

constexpr size_t kFirstFunction = offsetof(PJRT_Api, PJRT_Error_Destroy);

// Functions of a newer version than ours: they are there, and nobody who knows 0.81 calls them.
PJRT_Error* newer(void*) {
  return make_error(PJRT_Error_Code_UNIMPLEMENTED, "a function newer than the fake plugin");
}

// The FFI extension: the plugin's own functions (they know no handle of ours), with its errors made ours.
struct Ffi {
  PJRT_Extension_Base base;
  PJRT_Error* (*functions[3])(void*);
};

struct Table {
  Settings made_for;
  std::unique_ptr<std::byte[]> bytes;
  std::list<Ffi> extensions;
  [[nodiscard]] PJRT_Api* api() const { return reinterpret_cast<PJRT_Api*>(bytes.get()); }
};

void fill(PJRT_Api& api) {
#define FAKE_FUNCTION(name, since) api.name = &absent<Fn::name, name##_Args>;
#include "functions.inc"
#undef FAKE_FUNCTION
  install_errors(api);
  install_events(api);
  install_plugin(api);
  install_clients(api);
  install_devices(api);
  install_memories(api);
  install_buffers(api);
  install_transfers(api);
  install_compilers(api);
  install_executables(api);
  install_loaded(api);
  install_execute(api);
  install_serializers(api);
  install_topologies(api);
}

const Ffi* ffi_below() {
  for (PJRT_Extension_Base* e = under().extension_start; e; e = e->next)
    if (e->type == PJRT_Extension_Type_FFI && e->struct_size >= sizeof(Ffi))
      return reinterpret_cast<const Ffi*>(e);
  return nullptr;
}
template <int I>
PJRT_Error* call_ffi(void* a) {
  const auto failure = failure_from(ffi_below()->functions[I](a));
  return failure ? make_error(*failure) : nullptr;
}

// Of every other type there is the bare head, whose struct_size says so.
void chain(Table& table) {
  static const Ffi ffi = {{sizeof(Ffi), PJRT_Extension_Type_FFI, nullptr},
                          {&call_ffi<0>, &call_ffi<1>, &call_ffi<2>}};
  PJRT_Extension_Base** next = &table.api()->extension_start;
  for (const int type : table.made_for.extensions) {
    Ffi& extension = table.extensions.emplace_back();
    extension.base.struct_size = sizeof(PJRT_Extension_Base);
    std::memcpy(&extension.base.type, &type, sizeof type);  // the enum of our header does not know newer ones
    if (type == PJRT_Extension_Type_FFI && ffi_below()) extension = ffi;
    *next = &extension.base;
    next = &extension.base.next;
  }
}

void build(Table& table) {
  const Settings& s = table.made_for;
  const size_t newer_functions = s.minor > PJRT_API_MINOR ? static_cast<size_t>(s.minor - PJRT_API_MINOR) : 0;
  const size_t size = sizeof(PJRT_Api) + newer_functions * sizeof(void*);
  table.bytes = std::make_unique<std::byte[]>(size);
  PJRT_Api& api = *new (table.bytes.get()) PJRT_Api{};
  fill(api);
  auto* const slots = reinterpret_cast<PJRT_Error* (**)(void*)>(table.bytes.get() + kFirstFunction);
  for (size_t i = 0; i < newer_functions; ++i) slots[kFunctions + i] = &newer;
  api.struct_size = size;
  for (int i = kFunctions - 1; i >= 0 && since(static_cast<Fn>(i)) > s.minor; --i)
    api.struct_size -= sizeof(void*);
  for (const auto& name : s.missing) slots[static_cast<int>(*function_from_name(name))] = nullptr;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = s.major;
  api.pjrt_api_version.minor_version = s.minor;
  chain(table);
}

const PJRT_Api* table_for(const Settings& s) {
  static std::mutex lock;
  static auto* const tables = new std::list<Table>;  // whoever has one keeps it
  const std::lock_guard guard(lock);
  for (const Table& t : *tables)
    if (t.made_for.major == s.major && t.made_for.minor == s.minor && t.made_for.missing == s.missing &&
        t.made_for.extensions == s.extensions)
      return t.api();
  Table& table = tables->emplace_back();
  table.made_for = s;
  build(table);
  return table.api();
}

int64_t count(std::string_view name) {
  if (const auto function = function_from_name(name)) return calls(*function);
  if (name == "misuse") return registry::misuses();
  if (name.starts_with("fired.")) return times_fired(name.substr(6));
  if (name.starts_with("live."))
    for (int k = 0; k < static_cast<int>(Kind::count); ++k)
      if (name.substr(5) == fake::name(static_cast<Kind>(k))) return registry::live(static_cast<Kind>(k));
  return -1;
}

}  // namespace
}  // namespace fake

extern "C" {

__attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  try {
    const fake::Settings now = fake::settings();
    return now.no_api ? nullptr : fake::table_for(now);
  } catch (const fake::Failure&) {  // no plugin below: there is nothing to hand out
    return nullptr;
  }
}

const char* fake_pjrt_configure(const char* text) {
  static thread_local std::string problem;
  try {
    fake::configure(text ? text : "");
    return nullptr;
  } catch (const fake::Failure& failure) {
    problem = failure.message;
    return problem.c_str();
  }
}

int64_t fake_pjrt_counts(const char* name) { return name ? fake::count(name) : -1; }

const char* fake_pjrt_misuse() {
  static thread_local std::string text;
  text = fake::registry::misuse_text();
  return text.c_str();
}

}  // extern "C"
