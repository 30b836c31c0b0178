// What follows from a compile: HBM by part, what binds, how many samples a second, at which price.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/fit/plan.h"
#include "tools/fit/prices.h"

namespace tpubridge::tools {

// Bytes of one device. Their sum is what the program needs, up to what the compiler does not tell.
struct HbmPart {
  const char* key;   // in JSON
  const char* name;  // for people
  int64_t bytes;
};
// weights, optimizer, inputs, constants, layout (what the compiler's layouts add to all arguments), outputs
// (those that take nobody's place), temporaries (activations and gradients among them), code. Empty where it
// did not compile.
[[nodiscard]] std::vector<HbmPart> hbm_parts(const FitPoint& point);

enum class Binds { unknown, compute, hbm, neither };
[[nodiscard]] const char* to_text(Binds binds);

struct Figures {
  std::optional<double> seconds;                // of one run; a lower bound where `partly`
  bool partly = false;                          // the compiler has no estimate for some ops
  double compute_seconds = 0, hbm_seconds = 0;  // at the vendor's peaks
  Binds binds = Binds::unknown;
  std::optional<double> per_second;  // tokens, or samples where there are none
  bool tokens = false;
  double chips = 0;                         // that the program keeps busy
  std::optional<double> price_per_million;  // tokens or samples
};
[[nodiscard]] Figures figures_of(const FitPoint& point, const std::string& tpu, const Prices& prices);

// Slices of a generation, the smallest first, as they can be rented.
[[nodiscard]] std::vector<std::string> slices_of(std::string_view generation);

// Sentences: sizes that the matrix units do not like, what to do where nothing fits.
[[nodiscard]] std::vector<std::string> advice(const FitPlan& plan);

}  // namespace tpubridge::tools
