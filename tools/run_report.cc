#include "tools/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/numbers.h"
#include "tools/output.h"
#include "tools/table.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

std::string number(double v) { return fmt::format("{:.6g}", v); }

void add_row(Table& table, const HostTensor& tensor) {
  const Summary s = summarise(tensor);
  std::string first;
  for (const Element& e : s.first) first += (first.empty() ? "" : " ") + to_text(e);
  if (s.count > std::ssize(s.first)) first += " …";
  const bool any = s.count > s.nan;
  std::string odd;
  if (s.nan > 0) odd += fmt::format("{} NaN", s.nan);
  if (s.inf > 0) odd += fmt::format("{}{} infinite", odd.empty() ? "" : ", ", s.inf);
  table.add({{tensor.name, Colour::bold},
             tensor.shape.str(),
             any ? to_text(s.min) : "–",
             any ? to_text(s.max) : "–",
             any ? number(s.mean) : "–",
             first,
             {odd, Colour::yellow}});
}

ordered_json shape_json(const Shape& shape) { return {{"dtype", name(shape.dtype)}, {"dims", shape.dims}}; }

ordered_json output_json(const HostTensor& tensor) {
  const Summary s = summarise(tensor);
  const bool any = s.count > s.nan;
  ordered_json out = {{"name", tensor.name}};
  out.update(shape_json(tensor.shape));
  out["elements"] = s.count;
  out["nan"] = s.nan;
  out["inf"] = s.inf;
  out["min"] = any ? to_json(s.min) : ordered_json();
  out["max"] = any ? to_json(s.max) : ordered_json();
  out["mean"] = any ? to_json(Element(s.mean)) : ordered_json();
  ordered_json first = ordered_json::array();
  for (const Element& e : s.first) first.push_back(to_json(e));
  out["first"] = first;
  return out;
}

std::string timing_text(const RunReport& r) {
  std::string out = fmt::format("{} in {}, first run {}", r.from_disk ? "loaded from the cache" : "compiled",
                                human_time(r.compile_s), human_time(r.first_run_s));
  return r.repeat_s.empty() ? out : out + ", " + repeat_text(r.repeat_s);
}

std::string place(const RunReport& r) {
  if (r.devices.size() == 1) return fmt::format("{}:{} ({})", r.platform, r.devices[0], r.device_kind);
  return fmt::format("{} devices of {} ({}): {} × {}", r.devices.size(), r.platform, r.device_kind,
                     human_count(r.replicas, "replica", "replicas"),
                     human_count(r.partitions, "partition", "partitions"));
}

}  // namespace

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const size_t n = values.size();
  const double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {median, values.front(), values.back()};
}

std::string outputs_text(const std::vector<HostTensor>& outputs) {
  if (outputs.empty()) return "no outputs\n";
  Table table({"output", "shape", "min", "max", "mean", "first", ""});
  for (const HostTensor& t : outputs) add_row(table, t);
  return table.str();
}

ordered_json outputs_json(const std::vector<HostTensor>& outputs) {
  ordered_json out = ordered_json::array();
  for (const HostTensor& t : outputs) out.push_back(output_json(t));
  return out;
}

std::string repeat_text(const std::vector<double>& seconds) {
  const Spread s = spread(seconds);
  return fmt::format("then {}: median {}, {} to {}", human_count(std::ssize(seconds), "run", "runs"),
                     paint(human_time(s.median), Colour::bold), human_time(s.min), human_time(s.max));
}

ordered_json repeat_json(const std::vector<double>& seconds) {
  const Spread s = spread(seconds);
  return {{"count", seconds.size()}, {"median_s", s.median}, {"min_s", s.min}, {"max_s", s.max}};
}

std::string to_text(const RunReport& r) {
  std::string out;
  for (const std::string& line : r.picture) out += line + "\n";
  out += fmt::format("{} on {}\n", paint(r.file, Colour::bold), place(r));
  out += timing_text(r) + "\n";
  out += fmt::format("memory: arguments {}, outputs {}, temporaries {}\n", human_bytes(r.memory.arguments),
                     human_bytes(r.memory.outputs), human_bytes(r.memory.temporaries));
  return out + outputs_text(r.outputs);
}

ordered_json to_json(const RunReport& r) {
  ordered_json parameters = ordered_json::array();
  for (const Shape& p : r.parameters) parameters.push_back(shape_json(p));
  ordered_json out = {
      {"file", r.file},
      {"plugin", r.plugin},
      {"platform", r.platform},
      {"device_kind", r.device_kind},
      {"devices", r.devices},
      {"replicas", r.replicas},
      {"partitions", r.partitions},
      {"arguments", parameters},
      {"outputs", outputs_json(r.outputs)},
      {"memory",
       {{"arguments", r.memory.arguments},
        {"outputs", r.memory.outputs},
        {"aliased", r.memory.aliased},
        {"temporaries", r.memory.temporaries},
        {"code", r.memory.code}}},
      {"program_from", r.from_disk ? "disk" : "compiler"},
      {"compile_s", r.compile_s},
      {"first_run_s", r.first_run_s},
  };
  if (!r.repeat_s.empty()) out["repeat"] = repeat_json(r.repeat_s);
  if (!r.saved_to.empty()) out["out"] = r.saved_to;
  if (!r.picture.empty()) out["picture"] = r.picture;
  if (!r.picture_file.empty()) out["picture_file"] = r.picture_file;
  return out;
}

}  // namespace tpubridge::tools
