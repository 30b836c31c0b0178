// The part of `doctor` about compiling for a TPU that is not here.
#include <fmt/format.h>

#include <functional>
#include <initializer_list>

#include "tools/doctor.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;

// Adds what `find` finds to the part. A file that the user named and that is not there is a problem; one that
// was never set up is not.
void look_for(Part& part, const char* what, std::initializer_list<const char*> variables,
              const std::function<Path()>& find) {
  ordered_json& entry = part.data[what];
  try {
    const Path path = find();
    entry = path.string();
    part.findings.push_back({Level::ok, fmt::format("{}: {}", what, path.string())});
  } catch (const Error& e) {
    bool named = false;
    for (const char* variable : variables) named |= env::raw(variable).has_value();
    Finding finding{named ? Level::problem : Level::note, e.message(), {}, e.hint()};
    for (const auto& [key, value] : e.details()) finding.facts.push_back(fmt::format("{}: {}", key, value));
    part.findings.push_back(std::move(finding));
  }
}

}  // namespace

Part look_at_fit() {
  Part part{"fit", {}, ordered_json::object()};
  look_for(part, "tpubridge-aot", {"TPUBRIDGE_AOT_CHILD"}, [] {
    const Path child = aot::child_program();
    (void)aot::child_command(child);  // throws where it cannot run here
    return child;
  });
  look_for(part, "libtpu", {"TPUBRIDGE_LIBTPU", "TPU_LIBRARY_PATH"}, aot::libtpu_library);
  part.data["ready"] = !part.data["tpubridge-aot"].is_null() && !part.data["libtpu"].is_null();
  return part;
}

}  // namespace tpubridge::tools
