#include "tpubridge/capi/opcodes.h"

#include <protozero/pbf_reader.hpp>

#include "tpubridge/base/log.h"

namespace tpubridge::pjrt {
namespace {

// protozero only asserts that a field is of the kind that is asked for, which ends the process.
bool next_text(protozero::pbf_reader& message, protozero::pbf_tag_type tag) {
  while (message.next(tag)) {
    if (message.wire_type() == protozero::pbf_wire_type::length_delimited) return true;
    message.skip();
  }
  return false;
}

// A module has computations, they have instructions, each has a name of its op.
void read_opcodes(protozero::pbf_reader module, std::set<std::string>& out) {
  while (next_text(module, 3))
    for (protozero::pbf_reader computation = module.get_message(); next_text(computation, 2);)
      for (protozero::pbf_reader instruction = computation.get_message(); next_text(instruction, 2);)
        out.insert(instruction.get_string());
}

}  // namespace

std::set<std::string> hlo_opcodes(std::string_view code, std::string_view format) {
  std::set<std::string> out;
  try {
    protozero::pbf_reader reader(code.data(), code.size());
    if (format == "hlo") read_opcodes(reader, out);
    if (format == "hlo_with_config" && next_text(reader, 1)) read_opcodes(reader.get_message(), out);
  } catch (const protozero::exception& e) {
    log::debug("pjrt.opcodes_unreadable", {{"error", e.what()}});
    out.clear();
  }
  return out;
}

}  // namespace tpubridge::pjrt
