#include <iomanip>
#include <sstream>

#include "tpubridge/quant/quantize.h"

namespace tpubridge {
namespace {

std::string with_digits(double v, int digits, const char* unit) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << v << unit;
  return out.str();
}
std::string megabytes(int64_t bytes) {
  return with_digits(static_cast<double>(bytes) / 1048576.0, 2, " MiB");
}
std::string percent(double share) { return with_digits(100 * share, 3, "%"); }

void put_line(std::ostringstream& out, const std::string& name, const std::string& before,
              const std::string& after, const std::string& error) {
  out << std::left << std::setw(48) << name << std::right << std::setw(14) << before << std::setw(14) << after
      << std::setw(10) << error << '\n';
}

}  // namespace

std::string QuantizeReport::str() const {
  std::ostringstream out;
  put_line(out, "weight", "before", "after", "error");
  for (const QuantizedLayer& layer : layers) {
    put_line(out, layer.names[0], megabytes(layer.bytes_before), megabytes(layer.bytes_after),
             percent(layer.error));
    for (size_t i = 1; i < layer.names.size(); ++i) out << "  also " << layer.names[i] << '\n';
  }
  put_line(out, "all", megabytes(bytes_before), megabytes(bytes_after), "");
  if (output_error > 0) out << "results differ by " << percent(output_error) << '\n';
  return out.str();
}

}  // namespace tpubridge
