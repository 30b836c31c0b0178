// How `tpubridge fit MODEL` tells what it found: a table, one JSON document, a page of HTML.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/fit/figures.h"

namespace tpubridge::tools {

[[nodiscard]] std::string plan_table(const FitPlan& plan, const Prices& prices);
[[nodiscard]] nlohmann::ordered_json plan_json(const FitPlan& plan, const Prices& prices);
// One file with everything in it: no script, nothing from the network.
[[nodiscard]] std::string plan_html(const FitPlan& plan, const Prices& prices);
// 0: it fits all of them; 2: one of them is too small for the smallest batch; 1: one gave no answer.
[[nodiscard]] int plan_exit_code(const FitPlan& plan);

// "a training step with adamw, bf16, batch 8, 1024 tokens": what was planned.
[[nodiscard]] std::string plan_title(const FitPlan& plan);
[[nodiscard]] std::string human_rate(double per_second);  // "12.3 K"
[[nodiscard]] std::string human_price(double price);      // "0.123"

}  // namespace tpubridge::tools
