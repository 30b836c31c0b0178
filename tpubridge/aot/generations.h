// The TPU generations that programs can be compiled for, and how a slice of one is named.
//
// The one table of facts per generation. Figures are per device: what PJRT calls a device is a chip, but on
// v7 half a chip (each has two).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::aot {

struct Generation {
  std::string_view name;                      // "v5e"
  std::string_view code_name;                 // "Viperlite"
  std::span<const std::string_view> aliases;  // other names that are understood
  std::string_view libtpu_name;               // in the names of libtpu's topologies
  std::string_view chip_config;               // libtpu's name for how cores make a device; empty: its default
  std::string_view device_kind;               // as PJRT names it
  std::string_view smallest_slice;            // the smallest that can be rented
  int dimensions;                             // of the network between the chips
  int pod_chips;                              // the largest slice
  int devices_per_chip;
  int64_t hbm_bytes;  // what the compiler leaves to programs, on the smallest slice
  double bf16_flops;  // peak, per second (the vendor's figure)
  double bandwidth;   // of the HBM, bytes per second (the vendor's figure)
  int cores_per_chip;
  double chip_hbm_gib;              // the vendor's figure
  std::optional<double> int8_ops;   // peak, per second; nothing where the vendor's page has none
  std::optional<double> fp8_flops;  // the same
  std::string_view source;          // the page of the vendor's figures
};
[[nodiscard]] std::span<const Generation> generations();  // the oldest first
// By its name ("v5e") or by PJRT's name of its devices ("TPU v5 lite"); null where there is none.
[[nodiscard]] const Generation* find_generation(std::string_view name_or_device_kind);

// Some chips of one generation.
struct Slice {
  const Generation* generation = nullptr;
  std::vector<int> dims;

  [[nodiscard]] int chips() const;
  [[nodiscard]] int devices() const { return chips() * generation->devices_per_chip; }
  [[nodiscard]] std::string name() const;      // "v7:2x2x1"
  [[nodiscard]] std::string topology() const;  // "tpu7x:2x2x1": libtpu's name for it
};

// "v5e:2x2", or "v5e" for the smallest slice; aliases and upper case are understood. Throws ArgumentError
// that lists the known names, names the nearest, or says what is wrong with the dimensions.
[[nodiscard]] Slice parse_slice(std::string_view text);

}  // namespace tpubridge::aot
