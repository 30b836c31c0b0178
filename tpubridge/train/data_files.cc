// Reading CSV and IDX files.
#include <charconv>
#include <cmath>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/shape.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/torch.h"
#include "tpubridge/train/datasets.h"

namespace tpubridge {
namespace {

[[noreturn]] void refuse(const Path& path, const std::string& problem, Details where, std::string hint = {}) {
  where.insert(where.begin(), {"path", path.string()});
  throw FileError(path.string() + ": " + problem, std::move(where), std::move(hint), Code::invalid_argument);
}

// ---- CSV

std::string_view trimmed(std::string_view field) {
  constexpr std::string_view kSpace = " \t\r";
  while (!field.empty() && kSpace.find(field.front()) != kSpace.npos) field.remove_prefix(1);
  while (!field.empty() && kSpace.find(field.back()) != kSpace.npos) field.remove_suffix(1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
    field = field.substr(1, field.size() - 2);
  return field;
}

// A comma inside quotes does not separate.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> out;
  size_t from = 0;
  bool quoted = false;
  for (size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != ',' || quoted)) continue;
    out.push_back(trimmed(line.substr(from, i - from)));
    from = i + 1;
  }
  return out;
}

std::optional<float> number(std::string_view field) {
  if (field.starts_with('+')) field.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || field.empty()) return std::nullopt;
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow)) return std::nullopt;
  return narrow;
}

// ---- IDX: two zeros, a type, the number of dimensions, each size as four bytes, then the data; big-endian.

struct IdxType {
  unsigned char code;
  at::ScalarType type;
  size_t bytes;
};
constexpr IdxType kIdxTypes[] = {{0x08, at::kByte, 1}, {0x09, at::kChar, 1},  {0x0b, at::kShort, 2},
                                 {0x0c, at::kInt, 4},  {0x0d, at::kFloat, 4}, {0x0e, at::kDouble, 8}};

void swap_bytes(char* data, size_t count, size_t width) {
  for (size_t i = 0; i < count; ++i) std::reverse(data + i * width, data + (i + 1) * width);
}

}  // namespace

Csv read_csv(const Path& path) {
  const std::string text = read_file(path);
  Csv out;
  std::vector<float> values;
  size_t columns = 0, rows = 0, line_number = 0;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string_view line = std::string_view(text).substr(from, end - from);
    from = end + 1;
    ++line_number;
    if (trimmed(line).empty()) continue;
    const auto fields = fields_of(line);
    if (columns != 0 && fields.size() != columns)
      refuse(path,
             "line " + std::to_string(line_number) + " has " + std::to_string(fields.size()) +
                 " fields, the first has " + std::to_string(columns),
             {{"line", std::to_string(line_number)}});
    const bool first = columns == 0;
    columns = fields.size();
    std::vector<float> row;
    for (size_t i = 0; i < columns; ++i) {
      const auto value = number(fields[i]);
      if (value) {
        row.push_back(*value);
        continue;
      }
      if (first) break;  // names
      refuse(path,
             "line " + std::to_string(line_number) + ", column " + std::to_string(i + 1) + ": " +
                 quote(fields[i].substr(0, 40)) + " is no number",
             {{"line", std::to_string(line_number)}, {"column", std::to_string(i + 1)}});
    }
    if (row.size() < columns) {
      for (const auto f : fields) out.names.emplace_back(f);
      continue;
    }
    values.insert(values.end(), row.begin(), row.end());
    ++rows;
  }
  if (rows == 0) refuse(path, "it has no row of numbers", {});
  out.values =
      at::tensor(values, at::kFloat).view({static_cast<int64_t>(rows), static_cast<int64_t>(columns)});
  return out;
}

at::Tensor read_idx(const Path& path) {
  const std::string bytes = read_file(path);
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    refuse(
        path, "it does not begin as an IDX file does", {{"offset", "0"}},
        bytes.size() > 1 && byte(0) == 0x1f && byte(1) == 0x8b ? "It is compressed: gunzip it first." : "");
  const auto* type = std::ranges::find(kIdxTypes, byte(2), &IdxType::code);
  if (type == std::end(kIdxTypes))
    refuse(path, "IDX has no element type " + std::to_string(byte(2)), {{"offset", "2"}});
  const size_t dims = byte(3), header = 4 + 4 * dims;
  if (dims == 0 || bytes.size() < header)
    refuse(path, "its header is cut off: " + std::to_string(dims) + " dimensions", {{"offset", "3"}});
  std::vector<int64_t> sizes;
  // The sizes must fit the file before anything is allocated for them.
  const size_t have = (bytes.size() - header) / type->bytes;
  size_t count = 1;
  for (size_t d = 0; d < dims; ++d) {
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | byte(4 + 4 * d + i);
    sizes.push_back(static_cast<int64_t>(size));
    if (size != 0 && count > have / size)
      count = have + 1;  // too many already
    else
      count *= size;
  }
  if (count != have || bytes.size() != header + count * type->bytes)
    refuse(path,
           "its sizes do not fit its length of " + std::to_string(bytes.size()) + " bytes: it says " +
               dims_str(sizes) + " elements of " + std::to_string(type->bytes) + " bytes",
           {{"offset", "4"}, {"sizes", dims_str(sizes)}});
  at::Tensor out = at::empty(sizes, type->type);
  if (count == 0) return out;
  auto* data = static_cast<char*>(out.mutable_data_ptr());
  std::memcpy(data, bytes.data() + header, count * type->bytes);
  swap_bytes(data, count, type->bytes);
  return out;
}

Batch read_examples(const Path& path) {
  if (path.extension() == ".csv") {
    const Csv csv = read_csv(path);
    const int64_t columns = csv.values.size(1);
    if (columns < 2) refuse(path, "a row needs at least one feature and a class", {});
    const at::Tensor last = csv.values.select(1, columns - 1);
    const at::Tensor wrong = at::logical_or(last != last.round(), last < 0).nonzero();
    if (wrong.numel() > 0) {
      const auto row = wrong.flatten()[0].item<int64_t>();
      refuse(path,
             "the class of row " + std::to_string(row + 1) + " is " +
                 std::to_string(last[row].item<float>()) + ", not a whole number from 0 on",
             {{"row", std::to_string(row + 1)}}, "The last column is the class.");
    }
    return {csv.values.narrow(1, 0, columns - 1).contiguous(), last.to(at::kLong)};
  }
  const std::string name = path.filename().string();
  const std::string images = "images-idx3", labels = "labels-idx1";
  const size_t at = name.find(images);
  if (at == name.npos)
    refuse(path, "its kind is not known", {},
           "Name a .csv file, or an IDX file of images (…images-idx3-ubyte) with its labels beside it.");
  const at::Tensor x = read_idx(path);
  const Path beside = path.parent_path() / std::string(name).replace(at, images.size(), labels);
  const at::Tensor y = read_idx(beside);
  if (y.dim() != 1 || y.size(0) != x.size(0) || x.size(0) == 0)
    refuse(beside,
           "it has " + dims_str(y.sizes().vec()) + " labels for images of sizes " + dims_str(x.sizes().vec()),
           {});
  return {x.flatten(1).to(at::kFloat) / 255, y.to(at::kLong)};
}

}  // namespace tpubridge
