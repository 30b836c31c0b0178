#include "tpubridge/base/errors.h"

#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <typeinfo>

#include "tpubridge/base/text.h"

namespace tpubridge {

std::string_view to_string(Code code) {
  static constexpr std::array<std::string_view, 17> names = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto i = static_cast<size_t>(code);
  return i < names.size() ? names[i] : "UNKNOWN";
}

Error::Error(std::string message, Details details, std::string hint, Code code)
    : message_(std::move(message)), hint_(std::move(hint)), details_(std::move(details)), code_(code) {
  compose();
}

void Error::add(Details more) {
  details_.insert(details_.begin(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  compose();
}

void Error::compose() {
  what_ = message_;
  for (size_t i = 0; i < details_.size(); ++i)
    what_ += (i == 0 ? " (" : ", ") + details_[i].first + "=" + details_[i].second;
  if (!details_.empty()) what_ += ')';
  if (!hint_.empty()) what_ += (what_.ends_with('.') || what_.ends_with('\n') ? " " : ". ") + hint_;
  what_ = printable(what_);
}

std::string Error::detail(std::string_view key) const {
  for (const auto& [k, v] : details_)
    if (k == key) return v;
  return {};
}

std::string Error::type_name() const {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status), std::free);
  std::string full = status == 0 ? name.get() : typeid(*this).name();
  const auto colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

std::string Error::repr() const {
  std::string out = type_name() + "('" + message_ + "', details={";
  for (size_t i = 0; i < details_.size(); ++i)
    out += (i ? ", '" : "'") + details_[i].first + "': '" + details_[i].second + "'";
  return out + "})";
}

std::string Error::to_json() const {
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
  for (const auto& [k, v] : details_) details[k] = v;
  nlohmann::ordered_json out = {{"error_type", type_name()}, {"message", message_}, {"details", details}};
  if (!hint_.empty()) out["hint"] = hint_;
  if (code_ != Code::ok) out["code"] = to_string(code_);
  // A plugin's message may hold any bytes; JSON may not.
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tpubridge
