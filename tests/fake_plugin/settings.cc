// The parser: one row per key, one row per option of a failure.
#include "settings.h"

#include <charconv>
#include <functional>

#include "functions.h"
#include "generations.h"
#include "registry.h"

namespace fake {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "FAKE_PJRT: " + what};
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(by);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::pair<std::string, std::string> key_and_value(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

int64_t number(const std::string& key, const std::string& value, int64_t low, int64_t high) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || n < low || n > high)
    refuse(key + "=" + value + " is not a number from " + std::to_string(low) + " to " +
           std::to_string(high));
  return n;
}

std::string known_function(const std::string& name) {
  if (!function_from_name(name)) refuse("no function of the PJRT table is called " + name);
  return name;
}

PJRT_Error_Code code(const std::string& value) {
  constexpr const char* kNames[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i)
    if (value == kNames[i]) return static_cast<PJRT_Error_Code>(i);
  return static_cast<PJRT_Error_Code>(number("code", value, 1, 16));
}

const char* const kFailures[] = {
    "initialize_error", "client_error",       "compile_error",   "compile_oom",         "compile_slow",
    "compile_hang",     "execute_error",      "execute_oom",     "execute_event_error", "execute_event_oom",
    "execute_hang",     "buffer_oom",         "from_host_error", "to_host_error",       "device_lost",
    "serialize_flip",   "serialize_truncate", "call_error",      "execute_taken",       "compile_connects"};

Rule rule(const std::string& text) {
  const auto parts = split(text, ':');
  Rule r;
  for (const char* known : kFailures)
    if (!parts.empty() && parts[0] == known) r.kind = known;
  if (r.kind.empty()) refuse("no failure is called " + text);
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto [key, value] = key_and_value(parts[i]);
    if (key == "after")
      r.after = number(key, value, 0, INT64_MAX);
    else if (key == "times")
      r.times = value == "always" ? -1 : number(key, value, 1, INT64_MAX);
    else if (key == "code")
      r.code = code(value);
    else if (key == "ms")
      r.ms = number(key, value, 0, 600'000);
    else if (key == "device")
      r.device = static_cast<int>(number(key, value, 0, 1 << 20));
    else if (key == "function")
      r.function = known_function(value);
    else
      refuse("a failure has no option " + key);
  }
  if (r.kind == "call_error" && r.function.empty()) refuse("call_error needs function=NAME");
  return r;
}

void set_extensions(Settings& s, const std::string& value) {
  s.extensions.clear();
  if (value == "none") return;
  for (const auto& part : split(value, '+'))
    s.extensions.push_back(part == "ffi" ? PJRT_Extension_Type_FFI
                                         : static_cast<int>(number("extensions", part, 0, 1000)));
}

void set_args(Settings& s, const std::string& value) {
  const auto parts = split(value, '+');
  if (parts.size() != 2) refuse("args needs the form NAME+BYTES, not " + value);
  s.args_growth[known_function(parts[0])] = static_cast<size_t>(number("args", parts[1], 0, 4096));
}

using Setter = std::function<void(Settings&, const std::string&)>;
template <class T>
Setter integer(const char* key, T Settings::*member, int64_t low, int64_t high) {
  return [=](Settings& s, const std::string& v) { s.*member = static_cast<T>(number(key, v, low, high)); };
}

const std::map<std::string, Setter>& setters() {
  static const auto* const all = new std::map<std::string, Setter>{
      {"generation", [](Settings& s, const std::string& v) { s.generation = generation(v).name; }},
      {"chips", integer("chips", &Settings::chips, 1, 256)},
      {"hosts", integer("hosts", &Settings::hosts, 1, 256)},
      {"host", integer("host", &Settings::host, 0, 255)},
      {"cores", integer("cores", &Settings::cores, 0, 2)},
      {"bounds", [](Settings& s, const std::string& v) { s.bounds = v; }},
      {"hbm_mb", integer("hbm_mb", &Settings::hbm_mb, 0, 1 << 24)},
      {"major", integer("major", &Settings::major, 0, 100)},
      {"minor", integer("minor", &Settings::minor, 0, 1000)},
      {"api", [](Settings& s, const std::string& v) { s.no_api = v == "null"; }},
      {"missing",
       [](Settings& s, const std::string& v) {
         s.missing.clear();
         if (v != "none")
           for (const auto& f : split(v, '+')) s.missing.push_back(known_function(f));
       }},
      {"extensions", set_extensions},
      {"args", set_args},
      {"kv", [](Settings& s, const std::string& v) { s.kv_all = v == "all"; }},
      {"kv_timeout_ms", integer("kv_timeout_ms", &Settings::kv_timeout_ms, 0, 600'000)},
      {"fail",
       [](Settings& s, const std::string& v) {
         if (v == "none")
           s.rules.clear();
         else
           s.rules.push_back(rule(v));
       }},
  };
  return *all;
}

}  // namespace

Orders parse(std::string_view text, Settings& settings) {
  Settings changed = settings;
  Orders orders;
  for (const auto& part : split(text, ',')) {
    const auto [key, value] = key_and_value(part);
    if (key == "release") {
      orders.release = true;
    } else if (key == "reset") {
      orders.reset = orders.release = true;
    } else {
      const auto setter = setters().find(key);
      if (setter == setters().end()) refuse("there is no setting " + key);
      setter->second(changed, value);
    }
  }
  settings = changed;
  return orders;
}

}  // namespace fake
