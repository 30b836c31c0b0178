// Counting findings, and telling them as JSON.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "tpubridge/config/validation.h"

namespace tpubridge {

std::string_view to_string(ValidationStatus status) {
  static constexpr std::array<std::string_view, 4> names = {"passed", "warning", "failed", "skipped"};
  return names[static_cast<size_t>(status)];
}

std::string ValidationReport::detail(std::string_view key) const {
  for (const auto& [k, v] : metadata)
    if (k == key) return v;
  return {};
}

double ValidationSummary::success_rate() const {
  return total_tests == 0 ? 1.0 : static_cast<double>(passed + warnings) / total_tests;
}

std::vector<std::string> ValidationSummary::recommendations() const {
  std::vector<std::string> out;
  for (const auto& r : reports)
    if (std::string text = r.detail("recommendation"); !text.empty()) out.push_back(std::move(text));
  return out;
}

void ValidationSummary::add(ValidationStatus status, std::string message,
                            std::vector<std::pair<std::string, std::string>> metadata) {
  int* const counts[] = {&passed, &warnings, &failed, &skipped};
  ++*counts[static_cast<size_t>(status)];
  reports.push_back(
      {fmt::format("test_{}", total_tests++), status, std::move(message), 0, std::move(metadata)});
}

std::string ValidationSummary::to_json() const {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const auto& r : reports) {
    Json metadata = Json::object();
    for (const auto& [k, v] : r.metadata) metadata[k] = v;
    list.push_back({{"name", r.name},
                    {"status", to_string(r.status)},
                    {"message", r.message},
                    {"execution_time", r.execution_time},
                    {"metadata", metadata}});
  }
  const Json out = {{"is_valid", is_valid()},
                    {"total_tests", total_tests},
                    {"passed", passed},
                    {"warnings", warnings},
                    {"failed", failed},
                    {"skipped", skipped},
                    {"success_rate", success_rate()},
                    {"execution_time", execution_time},
                    {"reports", list}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tpubridge
