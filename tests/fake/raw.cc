#include "tests/fake/raw.h"

namespace fake_test {
namespace {

void* symbol(const char* name) {
  static void* const library = dlopen(FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  void* const found = library ? dlsym(library, name) : nullptr;
  EXPECT_NE(found, nullptr) << name;
  return found;
}

const char* const kLive[] = {"live.error",
                             "live.event",
                             "live.client",
                             "live.device",
                             "live.memory",
                             "live.buffer",
                             "live.description",
                             "live.topology",
                             "live.context",
                             "live.executable",
                             "live.loaded_executable",
                             "live.serialized"};

}  // namespace

const std::string kOptions = "\x1a\x04\x20\x01\x28\x01";

void Raw::SetUp() {
  configure("reset");
  for (const char* name : kLive) live_.push_back(count(name));
  api_ = get_api();
}

void Raw::TearDown() {
  configure("reset,release");
  size_t i = 0;
  for (const char* name : kLive) EXPECT_EQ(count(name), live_[i++]) << name;
}

void Raw::configure(const std::string& text) {
  const auto function = reinterpret_cast<const char* (*)(const char*)>(symbol("fake_pjrt_configure"));
  const char* problem = function(text.c_str());
  EXPECT_EQ(problem, nullptr) << problem;
}

int64_t Raw::count(const std::string& name) {
  return reinterpret_cast<int64_t (*)(const char*)>(symbol("fake_pjrt_counts"))(name.c_str());
}

std::string Raw::misuse() { return reinterpret_cast<const char* (*)()>(symbol("fake_pjrt_misuse"))(); }

const PJRT_Api* Raw::get_api() { return reinterpret_cast<const PJRT_Api* (*)()>(symbol("GetPjrtApi"))(); }

std::optional<Failed> Raw::failed(PJRT_Error* error) const {
  if (!error) return std::nullopt;
  auto message = args<PJRT_Error_Message_Args>();
  message.error = error;
  api_->PJRT_Error_Message(&message);
  auto code = args<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(api_->PJRT_Error_GetCode(&code), nullptr);
  Failed out{code.code, std::string(message.message, message.message_size)};
  auto freed = args<PJRT_Error_Destroy_Args>();
  freed.error = error;
  api_->PJRT_Error_Destroy(&freed);
  return out;
}

void Raw::ok(PJRT_Error* error) const {
  const auto problem = failed(error);
  EXPECT_FALSE(problem) << problem->code << ": " << problem->message;
}

PJRT_Client* Raw::make_client(const std::string& settings) {
  configure(settings);
  auto a = args<PJRT_Client_Create_Args>();
  ok(api_->PJRT_Client_Create(&a));
  return a.client;
}

void Raw::destroy(PJRT_Client* client) const {
  auto a = args<PJRT_Client_Destroy_Args>();
  a.client = client;
  ok(api_->PJRT_Client_Destroy(&a));
}

std::vector<PJRT_Device*> Raw::devices(PJRT_Client* client, bool addressable) const {
  if (addressable) {
    auto a = args<PJRT_Client_AddressableDevices_Args>();
    a.client = client;
    ok(api_->PJRT_Client_AddressableDevices(&a));
    return {a.addressable_devices, a.addressable_devices + a.num_addressable_devices};
  }
  auto a = args<PJRT_Client_Devices_Args>();
  a.client = client;
  ok(api_->PJRT_Client_Devices(&a));
  return {a.devices, a.devices + a.num_devices};
}

PJRT_DeviceDescription* Raw::description(PJRT_Device* device) const {
  auto a = args<PJRT_Device_GetDescription_Args>();
  a.device = device;
  ok(api_->PJRT_Device_GetDescription(&a));
  return a.device_description;
}

Raw::FromHost Raw::try_buffer(PJRT_Client* client, PJRT_Device* device,
                              const std::vector<float>& values) const {
  const auto dim = static_cast<int64_t>(values.size());
  auto a = args<PJRT_Client_BufferFromHostBuffer_Args>();
  a.client = client;
  a.device = device;
  a.data = values.data();
  a.type = PJRT_Buffer_Type_F32;
  a.dims = &dim;
  a.num_dims = 1;
  a.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  FromHost out;
  out.error = failed(api_->PJRT_Client_BufferFromHostBuffer(&a));
  if (out.error) return out;
  EXPECT_FALSE(await_and_destroy(a.done_with_host_buffer));
  out.buffer = a.buffer;
  return out;
}

PJRT_Buffer* Raw::buffer(PJRT_Client* client, PJRT_Device* device, const std::vector<float>& values) const {
  const FromHost out = try_buffer(client, device, values);
  EXPECT_FALSE(out.error) << out.error->message;
  return out.buffer;
}

void Raw::destroy(PJRT_Buffer* buffer) const {
  auto a = args<PJRT_Buffer_Destroy_Args>();
  a.buffer = buffer;
  ok(api_->PJRT_Buffer_Destroy(&a));
}

std::optional<Failed> Raw::read(PJRT_Buffer* buffer, std::vector<float>& into) const {
  auto a = args<PJRT_Buffer_ToHostBuffer_Args>();
  a.src = buffer;
  a.dst = into.data();
  a.dst_size = into.size() * sizeof(float);
  if (auto error = failed(api_->PJRT_Buffer_ToHostBuffer(&a))) return error;
  return await_and_destroy(a.event);
}

PJRT_Event* Raw::ready(PJRT_Buffer* buffer) const {
  auto a = args<PJRT_Buffer_ReadyEvent_Args>();
  a.buffer = buffer;
  ok(api_->PJRT_Buffer_ReadyEvent(&a));
  return a.event;
}

bool Raw::is_ready(PJRT_Event* event) const {
  auto a = args<PJRT_Event_IsReady_Args>();
  a.event = event;
  ok(api_->PJRT_Event_IsReady(&a));
  return a.is_ready;
}

std::optional<Failed> Raw::await_and_destroy(PJRT_Event* event) const {
  auto a = args<PJRT_Event_Await_Args>();
  a.event = event;
  auto error = failed(api_->PJRT_Event_Await(&a));
  auto d = args<PJRT_Event_Destroy_Args>();
  d.event = event;
  ok(api_->PJRT_Event_Destroy(&d));
  return error;
}

Raw::Compiled Raw::try_compile(PJRT_Client* client, const std::string& code) const {
  auto program = args<PJRT_Program>();
  program.code = const_cast<char*>(code.data());
  program.code_size = code.size();
  program.format = "mlir";
  program.format_size = 4;
  auto a = args<PJRT_Client_Compile_Args>();
  a.client = client;
  a.program = &program;
  a.compile_options = kOptions.data();
  a.compile_options_size = kOptions.size();
  Compiled out;
  out.error = failed(api_->PJRT_Client_Compile(&a));
  if (!out.error) out.executable = a.executable;
  return out;
}

PJRT_LoadedExecutable* Raw::compile(PJRT_Client* client, const std::string& code) const {
  const Compiled out = try_compile(client, code);
  EXPECT_FALSE(out.error) << out.error->message;
  return out.executable;
}

void Raw::destroy(PJRT_LoadedExecutable* executable) const {
  auto a = args<PJRT_LoadedExecutable_Destroy_Args>();
  a.executable = executable;
  ok(api_->PJRT_LoadedExecutable_Destroy(&a));
}

Raw::Ran Raw::execute(PJRT_LoadedExecutable* executable, std::vector<PJRT_Buffer*> arguments,
                      size_t outputs) const {
  auto options = args<PJRT_ExecuteOptions>();
  Ran out;
  out.outputs.resize(outputs);
  PJRT_Buffer* const* inputs = arguments.data();
  PJRT_Buffer** results = out.outputs.data();
  auto a = args<PJRT_LoadedExecutable_Execute_Args>();
  a.executable = executable;
  a.options = &options;
  a.num_devices = 1;
  a.num_args = arguments.size();
  a.argument_lists = &inputs;
  a.output_lists = &results;
  a.device_complete_events = &out.done;
  out.error = failed(api_->PJRT_LoadedExecutable_Execute(&a));
  return out;
}

PJRT_Device_MemoryStats_Args Raw::memory(PJRT_Device* device) const {
  auto a = args<PJRT_Device_MemoryStats_Args>();
  a.device = device;
  ok(api_->PJRT_Device_MemoryStats(&a));
  return a;
}

std::string doubling(int64_t n) {
  const std::string type = "tensor<" + std::to_string(n) + "xf32>";
  return "func.func @main(%x: " + type + ") -> " + type + " { %y = stablehlo.add %x, %x : " + type +
         " return %y : " + type + " }";
}

}  // namespace fake_test
