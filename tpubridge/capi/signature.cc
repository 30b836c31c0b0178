#include "tpubridge/capi/signature.h"

#include <array>
#include <protozero/pbf_reader.hpp>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"

namespace tpubridge::pjrt {

std::optional<DType> element_type(int64_t number) {
  using enum DType;
  static constexpr std::array<std::optional<DType>, 34> table = {
      std::nullopt, pred,       s8,   s16,    s32,      s64,          u8,           u16,
      u32,          u64,        f16,  f32,    f64,      std::nullopt, std::nullopt, c64,
      bf16,         token,      c128, f8e5m2, f8e4m3fn, s4,           u4,           f8e4m3b11fnuz,
      f8e5m2fnuz,   f8e4m3fnuz, s2,   u2,     f8e4m3,   f8e3m4,       std::nullopt, std::nullopt,
      f4e2m1fn,     f8e8m0fnu};
  return number >= 0 && number < static_cast<int64_t>(table.size()) ? table[static_cast<size_t>(number)]
                                                                    : std::nullopt;
}

namespace {

constexpr int kTuple = 13;

// protozero only asserts that a field is of the kind that is asked for, which ends the process.
protozero::pbf_reader& of_kind(protozero::pbf_reader& field, protozero::pbf_wire_type kind) {
  if (field.wire_type() != kind) throw protozero::unknown_pbf_wire_type_exception();
  return field;
}
protozero::pbf_reader message_of(protozero::pbf_reader& field) {
  return of_kind(field, protozero::pbf_wire_type::length_delimited).get_message();
}
int64_t number_of(protozero::pbf_reader& field) {
  return of_kind(field, protozero::pbf_wire_type::varint).get_int64();
}

// A dimension whose size is known when the program has run: the plugin keeps it behind the data, where
// buffers of ours have no room.
void any_dynamic(protozero::pbf_reader& field) {
  bool any = false;
  if (field.wire_type() == protozero::pbf_wire_type::length_delimited)
    for (const bool d : field.get_packed_bool()) any = any || d;
  else
    any = number_of(field) != 0;
  if (any)
    throw ProgramError("a program takes or gives a dimension whose size is not known before it runs", {},
                       "Give its arguments and results sizes: pad them to their bounds.");
}

// Tuples in tuples: what a compiler gives has one level. A file could have as many as fit into it.
constexpr int kMostLevels = 100;

// Appends an array, or the arrays of a tuple. False where it is something else.
bool read_shape(protozero::pbf_reader shape, std::vector<Shape>& out, int levels = kMostLevels) {
  Shape array;
  std::optional<DType> type;
  bool tuple = false;
  while (shape.next()) {
    if (shape.tag() == 2) {
      const int64_t number = number_of(shape);
      tuple = number == kTuple;
      type = element_type(number);
    } else if (shape.tag() == 3 && shape.wire_type() == protozero::pbf_wire_type::length_delimited) {
      for (const int64_t d : shape.get_packed_int64()) array.dims.push_back(d);
    } else if (shape.tag() == 3) {
      array.dims.push_back(number_of(shape));
    } else if (shape.tag() == 6) {
      any_dynamic(shape);
    } else if (shape.tag() == 4) {
      if (levels == 0 || !read_shape(message_of(shape), out, levels - 1)) return false;
    } else {
      shape.skip();
    }
  }
  if (tuple) return true;
  if (!type) return false;
  array.dtype = *type;
  out.push_back(std::move(array));
  return true;
}

bool read_program_shape(protozero::pbf_reader program, Signature& out) {
  while (program.next()) {
    if (program.tag() == 1) {
      const size_t before = out.parameters.size();
      if (!read_shape(message_of(program), out.parameters) || out.parameters.size() != before + 1)
        return false;
    } else if (program.tag() == 2) {
      if (!read_shape(message_of(program), out.results)) return false;
    } else {
      program.skip();
    }
  }
  return true;
}

// Both the alias table (parameter number in field 2) and the donor table (field 1) are lists of entries.
void read_donations(protozero::pbf_reader table, protozero::pbf_tag_type number_field,
                    std::vector<int64_t>& out) {
  while (table.next(1)) {
    protozero::pbf_reader entry = message_of(table);
    int64_t parameter = 0;  // proto3 leaves a zero out
    while (entry.next())
      if (entry.tag() == number_field && entry.wire_type() == protozero::pbf_wire_type::varint)
        parameter = entry.get_int64();
      else
        entry.skip();
    out.push_back(parameter);
  }
}

std::optional<Signature> read_module(protozero::pbf_reader module) {
  Signature out;
  std::vector<int64_t> donated;
  bool found = false;
  while (module.next()) {
    switch (module.tag()) {
      case 4:
        if (!read_program_shape(message_of(module), out)) return std::nullopt;
        found = true;
        break;
      case 8:
        read_donations(message_of(module), 2, donated);
        break;
      case 18:
        read_donations(message_of(module), 1, donated);
        break;
      default:
        module.skip();
    }
  }
  if (!found) return std::nullopt;
  out.donated.assign(out.parameters.size(), false);
  for (const int64_t p : donated)
    if (p >= 0 && p < static_cast<int64_t>(out.donated.size())) out.donated[static_cast<size_t>(p)] = true;
  return out;
}

}  // namespace

std::optional<Signature> hlo_signature(std::string_view code, std::string_view format) {
  try {
    protozero::pbf_reader reader(code.data(), code.size());
    if (format == "hlo") return read_module(reader);
    if (format == "hlo_with_config" && reader.next(1)) return read_module(message_of(reader));
  } catch (const protozero::exception& e) {
    log::debug("pjrt.signature_unreadable", {{"error", e.what()}});
  }
  return std::nullopt;
}

}  // namespace tpubridge::pjrt
