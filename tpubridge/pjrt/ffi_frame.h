// Inside of pjrt/: what the plugin calls, and the layout of what it hands over. The layouts are those of
// XLA's FFI, version 0.1, which every later plugin of major version 0 keeps at the front of its structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpubridge::ffi {

class Call;

struct Frame;
// Null: all went well.
void* handle_on_host(Frame* frame);
void* handle_on_cuda(Frame* frame);

// Finds the function and calls it; what went wrong, or nothing. Never throws what the function throws.
[[nodiscard]] std::string run(std::string_view name, const Call& call);

struct Extension {
  size_t struct_size;
  int type;  // 1: a question about the handler, not a call
  Extension* next;
};
struct Version {
  size_t struct_size;
  Extension* extensions;
  int major, minor;
};
struct Metadata {
  size_t struct_size;
  Version version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};
struct Array {  // an argument or a result
  size_t struct_size;
  Extension* extensions;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct List {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;  // 1: an Array
  void** items;
};
struct Bytes {
  const char* data;
  size_t size;
};
struct ScalarAttribute {
  int dtype;
  void* value;
};
struct ArrayAttribute {
  int dtype;
  size_t size;
  void* data;
};
enum AttributeType { array_attribute = 1, dictionary_attribute, scalar_attribute, string_attribute };
struct AttributeList {
  size_t struct_size;
  Extension* extensions;
  int64_t size;
  int* types;
  Bytes** names;
  void** items;
};
struct ErrorArgs {
  size_t struct_size;
  Extension* extensions;
  const char* message;
  int code;
};
struct DestroyArgs {
  size_t struct_size;
  Extension* extensions;
  void* error;
};
struct StreamArgs {
  size_t struct_size;
  Extension* extensions;
  void* context;
  void* stream;
};
struct ScheduleArgs {
  size_t struct_size;
  Extension* extensions;
  void* context;
  void (*task)(void*);
  void* data;
};
struct ThreadCountArgs {
  size_t struct_size;
  Extension* extensions;
  void* context;
  int64_t* threads;
};
struct Api {
  size_t struct_size;
  Extension* extensions;
  Version version;
  const void* internal;
  void* (*error_create)(ErrorArgs*);
  void* error_message;
  void (*error_destroy)(DestroyArgs*);
  void* handler_register;
  void* (*stream_get)(StreamArgs*);
  void *type_register, *execution_context_get, *state_set, *state_get;
  void *memory_allocate, *memory_free;
  void* (*schedule)(ScheduleArgs*);
  void* (*thread_count)(ThreadCountArgs*);
};
struct Frame {
  size_t struct_size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;  // 3: execute
  List arguments, results;
  AttributeList attributes;
};

}  // namespace tpubridge::ffi
