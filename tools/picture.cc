#include "tools/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/numbers.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

// Values from 0 to 1, row by row; NaN is 0.
struct Grey {
  int64_t rows, columns;
  std::vector<double> values;
};

Grey grey(const HostTensor& tensor) {
  Grey out{tensor.shape.dims[0], tensor.shape.dims[1], {}};
  const std::byte* at = tensor.bytes().data();
  const int width = bits(tensor.shape.dtype) / 8;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (int64_t i = 0; i < out.rows * out.columns; ++i, at += width) {
    const double v = std::visit(
        [](auto x) -> double {
          if constexpr (std::is_same_v<decltype(x), std::complex<double>>)
            return std::abs(x);
          else
            return static_cast<double>(x);
        },
        read_element(tensor.shape.dtype, at));
    out.values.push_back(v);
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  const double range = high > low ? high - low : 1;
  for (double& v : out.values) v = std::isnan(v) ? 0 : std::clamp((v - low) / range, 0.0, 1.0);
  return out;
}

// The mean of a rectangle.
double mean(const Grey& g, int64_t top, int64_t bottom, int64_t left, int64_t right) {
  double sum = 0;
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x) sum += g.values[static_cast<size_t>(y * g.columns + x)];
  return sum / static_cast<double>((bottom - top) * (right - left));
}

}  // namespace

const HostTensor& picture_of(const std::vector<HostTensor>& tensors) {
  std::string shapes;
  for (const HostTensor& t : tensors) {
    if (t.shape.rank() == 2 && !is_complex(t.shape.dtype) && t.shape.elements() > 0) return t;
    shapes += (shapes.empty() ? "" : ", ") + t.shape.str();
  }
  throw ArgumentError("no output can be shown as a picture", {{"outputs", shapes}},
                      "--show needs an output with two dimensions and real numbers.");
}

std::vector<std::string> ascii_picture(const HostTensor& tensor, int columns) {
  static constexpr std::string_view ramp = " .:-=+*#%@";
  const Grey g = grey(tensor);
  const int64_t width = std::clamp<int64_t>(columns, 1, g.columns);
  const int64_t height = std::clamp<int64_t>((g.rows * width + g.columns) / (2 * g.columns), 1, g.rows);
  std::vector<std::string> out;
  for (int64_t y = 0; y < height; ++y) {
    std::string& line = out.emplace_back();
    for (int64_t x = 0; x < width; ++x) {
      const double v = mean(g, y * g.rows / height, (y + 1) * g.rows / height, x * g.columns / width,
                            (x + 1) * g.columns / width);
      line += ramp[static_cast<size_t>(std::lround(v * static_cast<double>(ramp.size() - 1)))];
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return out;
}

std::string pgm_picture(const HostTensor& tensor) {
  const Grey g = grey(tensor);
  std::string out = fmt::format("P5\n{} {}\n255\n", g.columns, g.rows);
  for (const double v : g.values) out += static_cast<char>(std::lround(v * 255));
  return out;
}

}  // namespace tpubridge::tools
