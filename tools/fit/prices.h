// What a chip costs: a file that the user edits. What is not in it is unknown, and stays so.
//
//   {"date": "2026-11-18", "currency": "USD", "source": "the page or the contract these are from",
//    "chip_hour": {"v5e": 1.25, "v6e": {"price": 2.5, "source": "our contract", "date": "2026-10-01"}}}
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tpubridge/base/files.h"

namespace tpubridge::tools {

struct Price {
  double chip_hour = 0;
  std::string source, date;
};

struct Prices {
  std::string currency = "USD";
  std::map<std::string, Price, std::less<>> chips;  // by the name of the generation: "v5e"

  [[nodiscard]] const Price* of(std::string_view generation) const;
};

// Throws FileError or ConfigurationError that names file, key and what is wrong: an unknown generation, no
// source or date, a price that is none.
[[nodiscard]] Prices read_prices(const Path& file);

}  // namespace tpubridge::tools
