#include "tools/run_inputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <map>

#include "tools/numbers.h"
#include "tools/output.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

struct Given {
  std::string file;
  HostTensor tensor;
};

// arg3 or, for one device alone, arg3.1
struct ArgumentName {
  int argument = 0;
  std::optional<int> device;
};

std::optional<int> parse_index(std::string_view text) {
  int out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size() && out >= 0 ? std::optional(out)
                                                                               : std::nullopt;
}

std::optional<ArgumentName> parse_name(std::string_view name) {
  if (!name.starts_with("arg")) return std::nullopt;
  name.remove_prefix(3);
  const auto dot = name.find('.');
  const auto argument = parse_index(name.substr(0, dot));
  if (!argument) return std::nullopt;
  if (dot == name.npos) return ArgumentName{*argument, std::nullopt};
  const auto device = parse_index(name.substr(dot + 1));
  return device ? std::optional(ArgumentName{*argument, device}) : std::nullopt;
}

std::string takes(const std::vector<Shape>& parameters) {
  std::string out;
  for (size_t i = 0; i < parameters.size(); ++i)
    out += fmt::format("{}arg{} {}", i ? ", " : "", i, parameters[i].str());
  return out.empty() ? "no arguments" : out;
}

// Tensors by argument name, each from one file.
class Collection {
 public:
  Collection(const std::vector<Shape>& parameters, int devices)
      : parameters_(parameters), devices_(devices) {}

  void add_file(const std::string& file) {
    const bool npy = Path(file).extension() == ".npy";
    for (HostTensor& tensor : read_tensors(file).tensors) {
      if (npy && !parse_name(tensor.name)) tensor.name = fmt::format("arg{}", first_free());
      add(file, std::move(tensor));
    }
  }

  [[nodiscard]] const Given* find(int argument, int device) const {
    auto it = given_.find(fmt::format("arg{}.{}", argument, device));
    if (it == given_.end()) it = given_.find(fmt::format("arg{}", argument));
    return it == given_.end() ? nullptr : &it->second;
  }

 private:
  int first_free() const {
    int i = 0;
    while (given_.contains(fmt::format("arg{}", i))) ++i;
    return i;
  }

  void add(const std::string& file, HostTensor tensor) {
    const auto name = parse_name(tensor.name);
    const Details details = {{"file", file}, {"tensor", tensor.name}, {"takes", takes(parameters_)}};
    if (!name)
      throw ArgumentError(
          fmt::format("{} holds a tensor {}, which is no argument's name", file, quote(tensor.name)), details,
          "Name the tensors arg0, arg1, … in the order of the program's arguments.");
    if (name->argument >= static_cast<int>(parameters_.size()))
      throw ArgumentError(fmt::format("{} gives {}, but the program takes {}", file, tensor.name,
                                      human_count(std::ssize(parameters_), "argument", "arguments")),
                          details, "Leave it out, or run the program it was made for.");
    if (name->device && *name->device >= devices_)
      throw ArgumentError(fmt::format("{} gives {}, but the program runs on {}", file, tensor.name,
                                      human_count(devices_, "device", "devices")),
                          details, "Devices are counted from 0.");
    check_shape(file, tensor, parameters_[static_cast<size_t>(name->argument)]);
    const std::string key = tensor.name;
    const auto [it, fresh] = given_.try_emplace(key, Given{file, std::move(tensor)});
    if (!fresh)
      throw ArgumentError(fmt::format("{} is given twice: by {} and by {}", key, it->second.file, file),
                          details, "Give each argument once.");
  }

  static void check_shape(const std::string& file, const HostTensor& tensor, const Shape& expected) {
    if (tensor.shape == expected) return;
    const bool type = tensor.shape.dims == expected.dims;
    std::string hint;
    if (type)
      hint = fmt::format("Convert it to {} first (numpy: x.astype(…)).", name(expected.dtype));
    else if (tensor.shape.elements() == expected.elements())
      hint = "It has as many elements: reshape or transpose it first.";
    throw ArgumentError(fmt::format("{} in {} is {}, but the program takes {}", tensor.name, file,
                                    tensor.shape.str(), expected.str()),
                        {{"file", file},
                         {"tensor", tensor.name},
                         {"expected", expected.str()},
                         {"found", tensor.shape.str()}},
                        hint);
  }

  const std::vector<Shape>& parameters_;
  int devices_;
  std::map<std::string, Given> given_;
};

[[noreturn]] void throw_missing(const std::vector<std::string>& missing, const std::vector<Shape>& parameters,
                                bool any_file) {
  std::string list;
  for (const auto& m : missing) list += (list.empty() ? "" : ", ") + m;
  throw ArgumentError(
      fmt::format("{} missing: {}", missing.size() == 1 ? "an argument is" : "arguments are", list),
      {{"missing", list}, {"takes", takes(parameters)}},
      fmt::format("Give {} with --in FILE.safetensors or --in FILE.npy, or fill {} with --random SEED.",
                  missing.size() == 1 ? "it" : "them", any_file ? "what is missing" : "all arguments"));
}

void check_memory(int64_t bytes) {
  const auto total = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (bytes > total)
    throw OutOfMemoryError(
        fmt::format("the random arguments would take {}, more than this machine's memory of {}",
                    human_bytes(bytes), human_bytes(total)),
        {{"needed", std::to_string(bytes)}, {"available", std::to_string(total)}}, "Use smaller shapes.",
        Code::resource_exhausted);
}

}  // namespace

std::vector<std::vector<HostTensor>> gather_inputs(const std::vector<Shape>& parameters, int devices,
                                                   const InputOptions& options) {
  Collection given(parameters, devices);
  for (const std::string& file : options.files) given.add_file(file);

  std::vector<std::vector<HostTensor>> out(static_cast<size_t>(devices));
  std::vector<std::string> missing;
  int64_t random_bytes = 0;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    const Shape& shape = parameters[static_cast<size_t>(i)];
    std::optional<HostTensor> random;  // one for all devices
    for (int d = 0; d < devices; ++d) {
      auto& list = out[static_cast<size_t>(d)];
      if (const Given* found = given.find(i, d)) {
        list.push_back(found->tensor);
      } else if (options.random_seed) {
        if (!random) {
          check_memory(random_bytes += shape.bytes());
          random =
              random_tensor(fmt::format("arg{}", i), shape, *options.random_seed, static_cast<uint64_t>(i));
        }
        list.push_back(*random);
      } else if (d == 0 || given.find(i, 0)) {
        missing.push_back(fmt::format(
            "{} {}", d == 0 ? fmt::format("arg{}", i) : fmt::format("arg{}.{}", i, d), shape.str()));
      }
    }
  }
  if (!missing.empty()) throw_missing(missing, parameters, !options.files.empty());
  return out;
}

}  // namespace tpubridge::tools
