// The two JSON documents between the library and its child tpubridge-aot. Internal to the folder.
//
// Request: program (a file), libtpu, topology, chip_config (or ""), slices, replicas, partitions, shardy,
// xla_options (an object), executable (a file to write, or ""). Response: stage (request, load, topology,
// compile, report, done), and as far as it came: topology {device_kind, devices, chips, hosts, hbm_bytes},
// compile_seconds, memory {arguments, outputs, temporaries, aliased, code, peak}, cost {flops, bytes
// accessed, optimal_seconds, …}, collectives [{kind, count, bytes}]; error {type, message, hint, code,
// xla_code} where it did not come to its end.
#pragma once

#include <string>
#include <string_view>

#include "tpubridge/aot/aot.h"
#include "tpubridge/aot/generations.h"

namespace tpubridge::aot {

struct ChildFiles {
  Path program, libtpu, executable;  // all absolute; no executable is written where it is empty
};
[[nodiscard]] std::string write_request(const FitRequest& request, const Slice& slice,
                                        const ChildFiles& files);

// `known` with what the child tells. Throws PluginError where libtpu could not be loaded, ConfigurationError
// where the text is no response (the child was stopped while it wrote, or is of another version).
[[nodiscard]] FitResult read_response(std::string_view text, FitResult known);

}  // namespace tpubridge::aot
