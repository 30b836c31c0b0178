#include "tpubridge/base/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_io.h"
#include "tpubridge/base/text.h"
#include "tpubridge/base/torch_file.h"

namespace tpubridge {
namespace {

enum class Format { safetensors, npy };

Format format_of(const Path& path) {
  const Path ending = path.extension();
  if (ending == ".safetensors") return Format::safetensors;
  if (ending == ".npy") return Format::npy;
  throw FileError(fmt::format("{}: the name does not say how tensors are stored", path.string()),
                  {{"path", path.string()}}, "Use a file that ends in .safetensors or .npy.",
                  Code::invalid_argument);
}

}  // namespace

const HostTensor* TensorFile::find(std::string_view name) const {
  const auto it = std::ranges::find(tensors, name, &HostTensor::name);
  return it == tensors.end() ? nullptr : &*it;
}

TensorFile read_tensors(const Path& path, Load load) {
  if (is_zip(path)) return read_torch(path);
  if (format_of(path) == Format::safetensors) return read_safetensors(path, load);
  TensorFile out;
  out.tensors.push_back(read_npy(path));
  return out;
}

void write_tensors(const Path& path, std::span<const HostTensor> tensors) {
  if (format_of(path) == Format::safetensors) return write_safetensors(path, tensors);
  if (tensors.size() != 1)
    throw ArgumentError(
        fmt::format("{}: a .npy file holds one tensor, not {}", path.string(), tensors.size()), {},
        "Name a file that ends in .safetensors.", Code::invalid_argument);
  write_npy(path, tensors[0]);
}

void corrupt(const Path& path, std::string_view tensor, uint64_t offset, const std::string& problem) {
  Details details = {{"path", path.string()}};
  if (!tensor.empty()) details.emplace_back("tensor", tensor);
  details.emplace_back("offset", std::to_string(offset));
  throw FileError(
      fmt::format("{}: {}{}", path.string(), tensor.empty() ? "" : "tensor " + quote(tensor) + ": ", problem),
      std::move(details), "The file is damaged or was cut short: fetch or save it again.", Code::data_loss);
}

uint64_t checked_bytes(const Path& path, std::string_view tensor, uint64_t offset, const Shape& shape) {
  try {
    return static_cast<uint64_t>(shape.bytes());
  } catch (const ArgumentError& e) {
    corrupt(path, tensor, offset, e.message());
  }
}

void read_exactly(const OpenFile& file, const Path& path, std::string_view tensor, std::span<std::byte> into,
                  uint64_t offset) {
  const size_t got = read_at(file.fd, path, into, offset);
  if (got != into.size())
    corrupt(path, tensor, offset + got, fmt::format("the file ends {} bytes too early", into.size() - got));
}

void check_bools(const Path& path, const HostTensor& tensor, uint64_t offset) {
  if (tensor.shape.dtype != DType::pred) return;
  const auto all = tensor.bytes();
  const auto bad = std::ranges::find_if(all, [](std::byte b) { return b > std::byte{1}; });
  if (bad == all.end()) return;
  const auto index = static_cast<uint64_t>(bad - all.begin());
  corrupt(path, tensor.name, offset + index,
          fmt::format("element {} of a bool tensor is {}, neither 0 nor 1", index, static_cast<int>(*bad)));
}

}  // namespace tpubridge
