// tpubridge-plan REQUEST.json ANSWER.json: a model's programs for `tpubridge fit`, which starts it. What goes
// wrong is in the answer. Programs are written beside it.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/plan/plan.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/limits.h"

namespace {

using namespace tpubridge;

nlohmann::ordered_json answer(const Path& request, const Path& folder) {
  try {
    return to_json(tools::plan_programs(tools::read_plan_options(JsonReader::of_file(request)), folder));
  } catch (const Error& e) {
    nlohmann::ordered_json details = nlohmann::ordered_json::array();
    for (const auto& [key, value] : e.details()) details.push_back({{"key", key}, {"value", value}});
    return {{"error",
             {{"type", e.type_name()},
              {"message", e.message()},
              {"hint", e.hint()},
              {"code", static_cast<int>(e.code())},
              {"details", details}}}};
  } catch (const std::exception& e) {  // libtorch's
    return {{"error", {{"type", "Error"}, {"message", e.what()}, {"hint", ""}, {"code", 0}}}};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: tpubridge-plan REQUEST.json ANSWER.json\n(started by `tpubridge fit`)\n", stderr);
    return 64;
  }
  limit_this_process();
  try {
    const Path to = argv[2];
    const auto said = answer(argv[1], to.parent_path());
    write_file(to, said.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tpubridge-plan: %s\n", e.what());
    return 74;
  }
  return 0;
}
