#include "tpubridge/package/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"

namespace tpubridge::package {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "tpubridge package";

ordered_json json_of(const Tensor& t) {
  return {{"name", t.name}, {"dtype", name(t.shape.dtype)}, {"dims", t.shape.dims}};
}
ordered_json json_of(const Entry& e) { return {{"entry", e.name}, {"hash", e.hash}}; }

ordered_json json_of(const ProgramCode& c) {
  ordered_json out = {{"platform", c.platform}}, options = ordered_json::object();
  out.update(json_of(c.entry));
  for (const auto& [name, value] : c.options.overrides)
    std::visit([&, n = name](const auto& v) { options[n] = v; }, value);
  out["xla_options"] = options;
  if (c.options.optimization_level) out["optimization_level"] = *c.options.optimization_level;
  return out;
}

ordered_json json_of(const Executable& e) {
  const Machine& m = e.machine;
  ordered_json out = {{"target", m.target}};
  out.update(json_of(e.entry));
  out.update(ordered_json{{"platform", m.platform},
                          {"platform_version", m.platform_version},
                          {"device_kind", m.device_kind},
                          {"plugin", m.plugin},
                          {"flags", m.flags},
                          {"cpu", m.cpu},
                          {"topology", m.topology},
                          {"devices", m.devices}});
  return out;
}

ordered_json json_of(const Program& p);
ordered_json json_of(const Weight& w);

template <class T>
ordered_json list_of(const std::vector<T>& items) {
  ordered_json out = ordered_json::array();
  for (const T& item : items) out.push_back(json_of(item));
  return out;
}

ordered_json json_of(const Program& p) {
  ordered_json parameters = ordered_json::array();
  for (const Parameter& x : p.parameters) parameters.push_back({{x.is_weight ? "weight" : "input", x.index}});
  return {{"inputs", list_of(p.inputs)},
          {"outputs", list_of(p.outputs)},
          {"parameters", parameters},
          {"code", list_of(p.codes)},
          {"executables", list_of(p.executables)}};
}

ordered_json json_of(const Weight& w) {
  ordered_json out = json_of(w.tensor);
  out.update(json_of(w.entry));
  return out;
}

// Reading: everything that others rely on is checked here.
class Reading {
 public:
  explicit Reading(const std::string& source) : source_(source) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw FileError(fmt::format("{}: not a sound package: {}", source_, what), {{"path", source_}},
                    "Make it again.", Code::data_loss);
  }

  Tensor tensor(const JsonReader& r) const {
    const auto type = dtype_from_name(r.text("dtype"));
    if (!type || *type == DType::token) refuse(fmt::format("{} is no element type", quote(r.text("dtype"))));
    Tensor out{r.text("name"), {*type, r.integers("dims")}};
    if (out.name.empty()) refuse("a tensor has no name");
    int64_t elements = 1;
    for (const int64_t d : out.shape.dims)
      if (d < 0 || __builtin_mul_overflow(elements, d, &elements) || elements > kMostElements)
        refuse(fmt::format("{} has sizes that make no sense", quote(out.name)));
    return out;
  }

  Entry entry(const JsonReader& r) const { return {r.text("entry"), r.text("hash")}; }

  ProgramCode code(const JsonReader& r) const {
    ProgramCode out{r.text("platform"), entry(r), {}};
    const JsonReader options = r.object("xla_options");
    for (const auto& [name, value] : options.json().items()) {
      check_option(name, value);
      if (value.is_boolean())
        out.options.overrides[name] = value.get<bool>();
      else if (value.is_number_integer())
        out.options.overrides[name] = value.get<int64_t>();
      else if (value.is_number())
        out.options.overrides[name] = value.get<double>();
      else if (value.is_string())
        out.options.overrides[name] = value.get<std::string>();
      else
        refuse(fmt::format("the option {} has no value", quote(name)));
    }
    if (r.has("optimization_level")) {
      const int64_t level = r.integer("optimization_level");
      if (level < 0 || level > 3) refuse(fmt::format("there is no optimization level {}", level));
      out.options.optimization_level = static_cast<int>(level);
    }
    return out;
  }

  Executable executable(const JsonReader& r) const {
    Machine m{r.text("target"),      r.text("platform"), r.text("platform_version"),
              r.text("device_kind"), r.text("plugin"),   r.text("flags"),
              r.text("cpu"),         r.text("topology"), r.integer("devices")};
    return {std::move(m), entry(r)};
  }

  Parameter parameter(const JsonReader& r, size_t inputs, size_t weights) const {
    const bool is_weight = r.has("weight");
    const int64_t index = r.integer(is_weight ? "weight" : "input");
    if (index < 0 || static_cast<size_t>(index) >= (is_weight ? weights : inputs))
      refuse(fmt::format("a program reads {} {}, which is not there", is_weight ? "weight" : "input", index));
    return {is_weight, static_cast<size_t>(index)};
  }

  Program program(const JsonReader& r, size_t weights) const {
    Program out;
    for (const auto& x : r.objects("inputs")) out.inputs.push_back(tensor(x));
    for (const auto& x : r.objects("outputs")) out.outputs.push_back(tensor(x));
    for (const auto& x : r.objects("parameters"))
      out.parameters.push_back(parameter(x, out.inputs.size(), weights));
    for (const auto& x : r.objects("code")) out.codes.push_back(code(x));
    for (const auto& x : r.objects("executables")) out.executables.push_back(executable(x));
    if (out.outputs.empty()) refuse("a program gives nothing");
    if (std::ranges::find(out.codes, "any", &ProgramCode::platform) == out.codes.end())
      refuse("a program has no code for any platform");
    for (const auto* list : {&out.inputs, &out.outputs}) {
      std::set<std::string> names;
      for (const Tensor& t : *list)
        if (!names.insert(t.name).second) refuse(fmt::format("two tensors are named {}", quote(t.name)));
    }
    return out;
  }

  // Whoever runs it chooses a program by shapes alone.
  void check_alike(const std::vector<Program>& programs) const {
    const auto alike = [](const Tensor& x, const Tensor& y) {
      return x.name == y.name && x.shape.dtype == y.shape.dtype;
    };
    std::set<std::vector<std::vector<int64_t>>> known;
    for (const Program& p : programs) {
      if (const Program& first = programs.front(); !std::ranges::equal(first.inputs, p.inputs, alike) ||
                                                   !std::ranges::equal(first.outputs, p.outputs, alike))
        refuse("its programs have different signatures");
      std::vector<std::vector<int64_t>> sizes;
      for (const Tensor& t : p.inputs) sizes.push_back(t.shape.dims);
      if (!known.insert(std::move(sizes)).second) refuse("two of its programs take the same shapes");
    }
  }

 private:
  // A package says how it is compiled, not what is written where, or read from where.
  void check_option(const std::string& name, const nlohmann::json& value) const {
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    const bool plain = name.starts_with("xla_") &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == name.npos;
    const bool path = value.is_string() && value.get_ref<const std::string&>().find('/') != std::string::npos;
    if (!plain || path || has("dump") || has("_dir") || has("_path") || has("_file") || has("_cache"))
      refuse(fmt::format("it asks the compiler for {}, which is not for a package to say", quote(name)));
  }

  static constexpr int64_t kMostElements = std::numeric_limits<int64_t>::max() / 16;
  const std::string& source_;
};

Manifest read(const JsonReader& r, const std::string& source) {
  const Reading reading(source);
  if (r.text("format", "") != kFormat) reading.refuse("its manifest is that of something else");
  if (const int64_t version = r.integer("version"); version != kVersion)
    throw UnsupportedError(fmt::format("{} is a package of version {}; this tpubridge reads version {}",
                                       source, version, kVersion),
                           {{"path", source}, {"version", std::to_string(version)}},
                           "Make it again with this tpubridge, or run it with the one that made it.",
                           Code::unsupported);
  Manifest out;
  out.model = r.text("model");
  const JsonReader made = r.object("made_with");
  for (const auto& key : made.keys()) out.made_with.emplace_back(key, made.text(key));
  for (const auto& w : r.objects("weights")) out.weights.push_back({reading.tensor(w), reading.entry(w)});
  for (const auto& p : r.objects("programs")) out.programs.push_back(reading.program(p, out.weights.size()));
  reading.check_alike(out.programs);
  if (out.programs.empty()) reading.refuse("it has no program");
  return out;
}

}  // namespace

std::string to_json(const Manifest& m) {
  ordered_json made = ordered_json::object();
  for (const auto& [name, version] : m.made_with) made[name] = version;
  const ordered_json out = {{"format", kFormat},
                            {"version", kVersion},
                            {"model", m.model},
                            {"made_with", made},
                            {"programs", list_of(m.programs)},
                            {"weights", list_of(m.weights)}};
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Manifest read_manifest(std::string_view text, const std::string& source) {
  try {
    return read(JsonReader::of_text(text, source), source);
  } catch (const ConfigurationError& e) {
    throw FileError(fmt::format("{}: not a sound package: {}", source, e.message()), {{"path", source}},
                    "Make it again.", Code::data_loss);
  }
}

}  // namespace tpubridge::package
