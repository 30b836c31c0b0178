// Runs a module on the XLA CPU plugin, numbers in and numbers out.
#pragma once

#include <string>
#include <vector>

#include "tests/hlo/all_ops.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::hlo {

[[nodiscard]] std::shared_ptr<pjrt::Client> cpu();  // four virtual devices, shared

[[nodiscard]] std::vector<std::byte> encode(const Reference& r);
[[nodiscard]] Reference decode(const Shape& shape, const std::vector<std::byte>& bytes);

[[nodiscard]] std::vector<Reference> run_on_cpu(const std::string& text,
                                                const std::vector<Reference>& inputs);
// One list of inputs, and of outputs, per device.
[[nodiscard]] std::vector<std::vector<Reference>> run_on_cpus(
    const Sample& sample, const std::vector<std::vector<Reference>>& inputs);

// Shapes alike, numbers within `tolerance` (relative to the wanted number, absolute below 1); NaN equals NaN.
void expect_equal(const Reference& got, const Reference& want, double tolerance, const std::string& what);

}  // namespace tpubridge::hlo
