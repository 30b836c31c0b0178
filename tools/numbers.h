// Elements of every type as numbers: what `run` prints of a tensor, and the random ones it makes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "tpubridge/base/host_tensor.h"
#include "tpubridge/base/shape.h"

namespace tpubridge::tools {

using Element = std::variant<bool, int64_t, uint64_t, double, std::complex<double>>;

[[nodiscard]] Element read_element(DType type, const std::byte* at);
// The nearest value that the type has (the largest one where it is too large), for every real type.
void write_element(DType type, double value, std::byte* at);

[[nodiscard]] std::string to_text(const Element& element);  // 6 digits; 1.5-2i
// A number, a boolean or, for a complex one, [re, im]; NaN and infinity are null.
[[nodiscard]] nlohmann::ordered_json to_json(const Element& element);

// What a tensor holds. NaNs are counted and left out of the rest; of complex numbers the magnitude counts.
struct Summary {
  std::vector<Element> first;
  Element min = 0.0, max = 0.0;  // these and mean: only where a number is there (count > nan)
  double mean = 0;
  int64_t count = 0, nan = 0, inf = 0;
};
[[nodiscard]] Summary summarise(const HostTensor& tensor, size_t first = 6);

// The same numbers for the same seed, index and shape, on every machine: normals for floats and complex
// numbers, 0 to 9 (or less, where the type is small) for integers, coins for booleans.
[[nodiscard]] HostTensor random_tensor(std::string name, const Shape& shape, uint64_t seed, uint64_t index);

}  // namespace tpubridge::tools
