// From the plugin's structs to a Call, and back to an error of its own.
#include "tpubridge/pjrt/ffi_frame.h"

#include <fmt/format.h>

#include <cstring>

#include "tpubridge/base/errors.h"
#include "tpubridge/capi/signature.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::ffi {
namespace {

constexpr int kPred = 1, kS64 = 5, kF64 = 12, kExecute = 3, kInternal = 13;

std::vector<Buffer> buffers(const List& list) {
  std::vector<Buffer> out;
  for (int64_t i = 0; i < list.size; ++i) {
    if (list.types[i] != 1) throw ArgumentError("an argument is no array");
    const auto& array = *static_cast<const Array*>(list.items[i]);
    const auto dtype = pjrt::element_type(array.dtype);
    if (!dtype) throw ArgumentError(fmt::format("an array of the unknown element type {}", array.dtype));
    out.push_back({*dtype, {array.dims, static_cast<size_t>(array.rank)}, array.data});
  }
  return out;
}

template <class T>
std::vector<T> elements(const ArrayAttribute& a) {
  std::vector<T> out(a.size);
  if (a.size) std::memcpy(out.data(), a.data, a.size * sizeof(T));
  return out;
}

// Those that we write ourselves (kernels/ffi_op.cc); nothing for others.
std::optional<Constant> constant(int type, const void* item) {
  if (type == string_attribute) {
    const auto& s = *static_cast<const Bytes*>(item);
    return std::string(s.data, s.size);
  }
  if (type == scalar_attribute) {
    const auto& s = *static_cast<const ScalarAttribute*>(item);
    if (s.dtype == kPred) return *static_cast<const bool*>(s.value);
    if (s.dtype == kS64) return *static_cast<const int64_t*>(s.value);
    if (s.dtype == kF64) return *static_cast<const double*>(s.value);
  }
  if (type == array_attribute) {
    const auto& a = *static_cast<const ArrayAttribute*>(item);
    if (a.dtype == kS64) return elements<int64_t>(a);
    if (a.dtype == kF64) return elements<double>(a);
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, Constant>> constants(const AttributeList& list) {
  std::vector<std::pair<std::string, Constant>> out;
  for (int64_t i = 0; i < list.size; ++i)
    if (auto c = constant(list.types[i], list.items[i]))
      out.emplace_back(std::string(list.names[i]->data, list.names[i]->size), std::move(*c));
  return out;
}

// Whether there was none; it is destroyed.
bool is_none(const Frame& frame, void* error) {
  if (!error) return true;
  DestroyArgs destroy{sizeof destroy, nullptr, error};
  frame.api->error_destroy(&destroy);
  return false;
}

void* stream_of(const Frame& frame) {
  StreamArgs args{sizeof args, nullptr, frame.context, nullptr};
  if (!is_none(frame, frame.api->stream_get(&args))) throw UnsupportedError("the plugin tells no stream");
  return args.stream;
}

// The plugin's own threads, where it lends them.
class FrameWorkers final : public Workers {
 public:
  explicit FrameWorkers(const Frame& frame) : frame_(frame) {
    const Api& api = *frame.api;
    if (api.struct_size < sizeof(Api) || !api.schedule || !api.thread_count) return;
    int64_t threads = 0;
    ThreadCountArgs args{sizeof args, nullptr, frame.context, &threads};
    if (is_none(frame, api.thread_count(&args)) && threads > 1) count_ = threads;
  }
  [[nodiscard]] int64_t count() const override { return count_; }
  bool give(void (*task)(void*), void* data) const override {
    if (count_ == 1) return false;
    ScheduleArgs args{sizeof args, nullptr, frame_.context, task, data};
    return is_none(frame_, frame_.api->schedule(&args));
  }

 private:
  const Frame& frame_;
  int64_t count_ = 1;
};

std::string name_of(const std::vector<std::pair<std::string, Constant>>& all) {
  for (const auto& [key, value] : all)
    if (key == kOpAttribute)
      if (const auto* name = std::get_if<std::string>(&value)) return *name;
  return {};
}

std::string answer(const Frame& frame, bool cuda, std::string& name) {
  try {
    auto all = constants(frame.attributes);
    name = name_of(all);
    if (cuda)
      return run(name, {buffers(frame.arguments), buffers(frame.results), stream_of(frame), std::move(all)});
    const FrameWorkers workers(frame);
    return run(name, {buffers(frame.arguments), buffers(frame.results), nullptr, std::move(all), &workers});
  } catch (const std::exception& e) {
    return e.what();
  }
}

void* handle(Frame* frame, bool cuda) {
  if (frame->extensions && frame->extensions->type == 1) {
    Version& version = reinterpret_cast<MetadataExtension*>(frame->extensions)->metadata->version;
    version.major = 0;
    version.minor = 1;
    return nullptr;
  }
  if (frame->stage != kExecute) return nullptr;
  std::string name;
  const std::string problem = answer(*frame, cuda, name);
  if (problem.empty()) return nullptr;
  const std::string message = fmt::format("[tpubridge op {}] {}", name, problem);  // read by capi/errors.cc
  ErrorArgs args{sizeof args, nullptr, message.c_str(), kInternal};
  return frame->api->error_create(&args);
}

}  // namespace

void* handle_on_host(Frame* frame) { return handle(frame, false); }
void* handle_on_cuda(Frame* frame) { return handle(frame, true); }

}  // namespace tpubridge::ffi
