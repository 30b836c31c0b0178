// What `tpubridge fit` found out, on disk: one small file each, written whole, shared by any number of
// processes. What is damaged or of another version is as if it were not there; what cannot be written is
// told once in the log.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tools/plan_options.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/base/hash.h"

namespace tpubridge::tools {

class FitStore {
 public:
  // The folder "fit" of the cache; keeps nothing where TPUBRIDGE_CACHE is 0 or `off`.
  explicit FitStore(bool off = false);

  [[nodiscard]] std::optional<PlannedModel> trace(const Hash128& key) const;
  void keep(const Hash128& key, const PlannedModel& model);
  [[nodiscard]] std::optional<aot::FitResult> result(const Hash128& key) const;
  // Those alone that the compiler gave: it fits, or does not.
  void keep(const Hash128& key, const aot::FitResult& result);

 private:
  [[nodiscard]] std::optional<nlohmann::json> load(const Hash128& key, std::string_view kind) const;
  void store(const Hash128& key, std::string_view kind, const nlohmann::ordered_json& value);
  Path folder_;  // empty: nothing is kept
  bool warned_ = false;
};

}  // namespace tpubridge::tools
