#include "tpubridge/pjrt/ffi.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/ffi_frame.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::ffi {
namespace {

struct Functions {
  std::shared_mutex mutex;
  std::map<std::string, Function, std::less<>> by_name;
};
Functions& functions() {
  static auto* f = new Functions;  // programs may run while static objects go
  return *f;
}

// Functions are never taken away, so the address stays good.
const Function* find(std::string_view name) {
  auto& f = functions();
  const std::shared_lock lock(f.mutex);
  const auto it = f.by_name.find(name);
  return it == f.by_name.end() ? nullptr : &it->second;
}

[[noreturn]] void no_such(std::string_view what, std::string_view name) {
  throw ArgumentError(fmt::format("there is no {} '{}'", what, name));
}

template <class T>
const T& get(const Constant& c, std::string_view name, std::string_view what) {
  if (const auto* v = std::get_if<T>(&c)) return *v;
  throw ArgumentError(fmt::format("argument '{}' is no {}", name, what));
}

}  // namespace

int64_t Buffer::elements() const {
  int64_t n = 1;
  for (const int64_t d : dims) n *= d;
  return n;
}

int64_t Buffer::dim(size_t i) const {
  if (i >= dims.size())
    throw ArgumentError(fmt::format("a buffer of rank {} has no dimension {}", dims.size(), i));
  return dims[i];
}

void Buffer::check_width(size_t bytes) const {
  if (static_cast<size_t>(bits(dtype)) != 8 * bytes)
    throw ArgumentError(fmt::format("elements of {} are not {} bytes wide", name(dtype), bytes));
}

Call::Call(std::vector<Buffer> inputs, std::vector<Buffer> outputs, void* stream,
           std::vector<std::pair<std::string, Constant>> constants, const Workers* workers)
    : inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      stream_(stream),
      workers_(workers),
      constants_(std::move(constants)) {
  if (!has(kInputsAttribute)) return;
  std::string_view names = text(kInputsAttribute);
  while (!names.empty()) {
    const auto end = std::min(names.find(','), names.size());
    input_names_.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

const Buffer& Call::input(size_t i) const {
  if (i >= inputs_.size()) no_such("input", std::to_string(i));
  return inputs_[i];
}
const Buffer& Call::output(size_t i) const {
  if (i >= outputs_.size()) no_such("output", std::to_string(i));
  return outputs_[i];
}
bool Call::has_input(std::string_view name) const {
  return std::find(input_names_.begin(), input_names_.end(), name) != input_names_.end();
}
const Buffer& Call::input(std::string_view name) const {
  for (size_t i = 0; i < input_names_.size(); ++i)
    if (input_names_[i] == name) return input(i);
  no_such("input", name);
}

bool Call::has(std::string_view name) const {
  return std::any_of(constants_.begin(), constants_.end(), [&](const auto& c) { return c.first == name; });
}
const Constant& Call::constant(std::string_view name) const {
  for (const auto& [key, value] : constants_)
    if (key == name) return value;
  no_such("constant", name);
}
bool Call::flag(std::string_view name) const { return get<bool>(constant(name), name, "flag"); }
int64_t Call::integer(std::string_view name) const { return get<int64_t>(constant(name), name, "integer"); }
const std::string& Call::text(std::string_view name) const {
  return get<std::string>(constant(name), name, "text");
}
const std::vector<int64_t>& Call::integers(std::string_view name) const {
  return get<std::vector<int64_t>>(constant(name), name, "list of integers");
}
double Call::number(std::string_view name) const {
  const Constant& c = constant(name);
  if (const auto* i = std::get_if<int64_t>(&c)) return static_cast<double>(*i);
  return get<double>(c, name, "number");
}

void add(const std::string& name, Function function) {
  if (!function) throw ArgumentError(fmt::format("the function for {} is empty", name));
  if (name.find(']') != name.npos) throw ArgumentError(fmt::format("'{}' is no name of an op", name));
  auto& f = functions();
  const std::unique_lock lock(f.mutex);
  if (!f.by_name.emplace(name, std::move(function)).second)
    throw ArgumentError(fmt::format("{} has a function already", name), {{"op", name}},
                        "Programs that call it may be running: give the new one another name.");
}

bool has(std::string_view name) { return find(name) != nullptr; }

bool is_called_by(std::string_view program) { return program.find(kTarget) != program.npos; }

std::string run(std::string_view name, const Call& call) {
  const Function* function = find(name);
  if (!function) return "this process has no function of that name: register it before the program runs";
  try {
    return (*function)(call);
  } catch (const std::exception& e) {
    return e.what()[0] ? e.what() : "it threw an exception with no text";
  } catch (...) {
    return "it threw something that is no std::exception";
  }
}

bool install(const pjrt::Plugin& plugin, std::string_view platform) {
  const bool cpu = platform == "cpu";
  if (!cpu && platform != "cuda") return false;
  try {
    plugin.register_ffi_handler(std::string(kTarget),
                                reinterpret_cast<void*>(cpu ? &handle_on_host : &handle_on_cuda),
                                cpu ? "Host" : "CUDA");
    return true;
  } catch (const UnsupportedError&) {  // no FFI extension: told where somebody calls such an op
    return false;
  }
}

}  // namespace tpubridge::ffi
