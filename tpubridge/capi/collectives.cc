#include "tpubridge/capi/collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <protozero/pbf_reader.hpp>

#include "tpubridge/base/log.h"
#include "tpubridge/capi/signature.h"

namespace tpubridge::pjrt {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr std::array<std::string_view, 7> kKinds = {
    "all-reduce",         "all-gather",           "reduce-scatter",   "all-to-all",
    "collective-permute", "collective-broadcast", "ragged-all-to-all"};
constexpr int kMostDepth = 20;
constexpr int64_t kMostElements = int64_t{1} << 50;

// protozero only asserts that a field is of the kind that is asked for, which ends the process.
pbf_reader part_of(pbf_reader& field) {
  if (field.wire_type() != pbf_wire_type::length_delimited)
    throw protozero::unknown_pbf_wire_type_exception();
  return field.get_message();
}

struct Sized {
  int64_t bytes = 0;
  std::vector<int64_t> parts;  // of a tuple
};

// xla.ShapeProto: 2 element type, 3 dimensions, 4 shapes of a tuple.
Sized size_of_shape(pbf_reader shape, int depth = kMostDepth) {
  Sized out;
  std::optional<DType> type;
  int64_t elements = 1;
  while (shape.next()) {
    if (shape.tag() == 2 && shape.wire_type() == pbf_wire_type::varint) {
      type = element_type(shape.get_int64());
    } else if (shape.tag() == 3 && shape.wire_type() == pbf_wire_type::length_delimited) {
      for (const int64_t d : shape.get_packed_int64())
        if (d < 0 || __builtin_mul_overflow(elements, d, &elements) || elements > kMostElements)
          elements = kMostElements;
    } else if (shape.tag() == 4 && depth > 0) {
      out.parts.push_back(size_of_shape(part_of(shape), depth - 1).bytes);
    } else {
      shape.skip();
    }
  }
  if (!out.parts.empty()) {
    for (const int64_t p : out.parts) out.bytes = std::min(out.bytes + p, int64_t{1} << 58);
  } else if (type && *type != DType::token) {
    out.bytes = elements * bits(*type) / 8;
  }
  return out;
}

// "all-gather-start" gives (what it was given, its result, …).
int64_t result_bytes(std::string_view opcode, const Sized& size) {
  const bool pair = opcode == "all-gather-start" || opcode == "collective-permute-start";
  return pair && size.parts.size() >= 2 ? size.parts[1] : size.bytes;
}

using Found = std::map<std::string, HloCollective, std::less<>>;

// xla.HloInstructionProto: 2 opcode, 3 shape.
void read_instruction(pbf_reader instruction, Found& found) {
  std::string opcode;
  Sized size;
  while (instruction.next()) {
    if (instruction.tag() == 2 && instruction.wire_type() == pbf_wire_type::length_delimited)
      opcode = instruction.get_string();
    else if (instruction.tag() == 3)
      size = size_of_shape(part_of(instruction));
    else
      instruction.skip();
  }
  std::string_view kind = opcode;
  if (kind.ends_with("-start")) kind.remove_suffix(6);
  if (std::ranges::find(kKinds, kind) == kKinds.end()) return;
  HloCollective& c = found.try_emplace(std::string(kind), HloCollective{std::string(kind)}).first->second;
  ++c.count;
  c.bytes = std::min(c.bytes + result_bytes(opcode, size), int64_t{1} << 58);
}

// xla.HloModuleProto: 3 computations; xla.HloComputationProto: 2 instructions.
void read_computations(pbf_reader module, Found& found) {
  while (module.next(3)) {
    pbf_reader computation = part_of(module);
    while (computation.next(2)) read_instruction(part_of(computation), found);
  }
}

}  // namespace

std::vector<HloCollective> hlo_collectives(std::string_view code, std::string_view format) {
  Found found;
  try {
    pbf_reader reader(code.data(), code.size());
    if (format == "hlo")
      read_computations(reader, found);
    else if (format == "hlo_with_config" && reader.next(1))
      read_computations(part_of(reader), found);
  } catch (const protozero::exception& e) {
    log::debug("pjrt.collectives_unreadable", {{"error", e.what()}});
    return {};
  }
  std::vector<HloCollective> out;
  for (auto& [kind, c] : found) out.push_back(std::move(c));
  return out;
}

}  // namespace tpubridge::pjrt
