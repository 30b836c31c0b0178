// From JSON to a program. Not for users.
#pragma once

#include "tpubridge/pt2/fields.h"
#include "tpubridge/pt2/program.h"

namespace tpubridge::exported {

[[nodiscard]] Program read_program(const json& value, const Place& place);
// The list of weights or constants; entries stand in `folder` of the archive.
[[nodiscard]] std::map<std::string, Payload> read_payloads(const json& value, const std::string& folder,
                                                           const Place& place);

}  // namespace tpubridge::exported
