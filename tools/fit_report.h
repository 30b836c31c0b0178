// How `tpubridge fit` tells what the TPU compiler found.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "tools/program_file.h"
#include "tpubridge/aot/aot.h"

namespace tpubridge::tools {

// A table with a row a TPU, and under it what the compiler said where the program does not fit or compile.
[[nodiscard]] std::string fit_table(std::span<const aot::FitResult> results, const ProgramFile& program);
[[nodiscard]] nlohmann::ordered_json fit_json(std::span<const aot::FitResult> results,
                                              const ProgramFile& program);

[[nodiscard]] nlohmann::ordered_json fit_result_json(const aot::FitResult& result);

// 0: it fits all of them; 2: one of them is too small; 1: one of them gave no answer.
[[nodiscard]] int fit_exit_code(std::span<const aot::FitResult> results);

[[nodiscard]] std::string human_flops(double flops);  // "33.7 M"

}  // namespace tpubridge::tools
