// .safetensors: 8 bytes of header length, a JSON header, then the data of all tensors without a gap.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/tensor_io.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

constexpr uint64_t kPrefix = 8;
constexpr uint64_t kMaxJsonHeader = 100'000'000;  // the limit of the format's own library
constexpr std::string_view kMetadata = "__metadata__";

struct Type {
  std::string_view name;
  DType dtype;
};
constexpr std::array kTypes = {
    Type{"BOOL", DType::pred},
    Type{"F4", DType::f4e2m1fn},
    Type{"U8", DType::u8},
    Type{"I8", DType::s8},
    Type{"F8_E5M2", DType::f8e5m2},
    Type{"F8_E4M3", DType::f8e4m3fn},
    Type{"F8_E8M0", DType::f8e8m0fnu},
    Type{"F8_E4M3FNUZ", DType::f8e4m3fnuz},
    Type{"F8_E5M2FNUZ", DType::f8e5m2fnuz},
    Type{"I16", DType::s16},
    Type{"U16", DType::u16},
    Type{"F16", DType::f16},
    Type{"BF16", DType::bf16},
    Type{"I32", DType::s32},
    Type{"U32", DType::u32},
    Type{"F32", DType::f32},
    Type{"C64", DType::c64},
    Type{"F64", DType::f64},
    Type{"I64", DType::s64},
    Type{"U64", DType::u64},
};

struct Entry {
  std::string name;
  Shape shape;
  uint64_t begin, end;  // in the data, which starts after the header
};

bool packed(DType t) { return t == DType::f4e2m1fn; }  // two to a byte in the file

[[noreturn]] void refuse_type(const Path& path, const std::string& tensor, const std::string& type) {
  std::vector<std::string_view> names;
  names.reserve(kTypes.size());
  for (const Type& t : kTypes) names.push_back(t.name);
  throw FileError(
      fmt::format("{}: tensor {}: its type {} cannot be used", path.string(), quote(tensor), quote(type)),
      {{"path", path.string()}, {"tensor", tensor}, {"offset", std::to_string(kPrefix)}},
      fmt::format("Save it as one of {}.", join(names)), Code::invalid_argument);
}

Entry parse_entry(const Path& path, const std::string& name, const JsonReader& fields) {
  Entry out{name, {}, 0, 0};
  const std::string type = fields.text("dtype");
  const auto* known = std::ranges::find(kTypes, type, &Type::name);
  if (known == kTypes.end()) refuse_type(path, name, type);
  out.shape = {known->dtype, fields.integers("shape")};
  const auto offsets = fields.integers("data_offsets");
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0])
    corrupt(path, name, kPrefix, fmt::format("its data_offsets are {}", dims_str(offsets)));
  out.begin = static_cast<uint64_t>(offsets[0]);
  out.end = static_cast<uint64_t>(offsets[1]);
  const uint64_t in_memory = checked_bytes(path, name, kPrefix, out.shape);
  if (packed(known->dtype) && in_memory % 2 != 0)
    corrupt(path, name, kPrefix, fmt::format("{} does not fill whole bytes", out.shape.str()));
  const uint64_t needed = packed(known->dtype) ? in_memory / 2 : in_memory;
  if (needed != out.end - out.begin)
    corrupt(path, name, kPrefix,
            fmt::format("{} needs {} bytes, but its data_offsets {} span {}", out.shape.str(), needed,
                        dims_str(offsets), out.end - out.begin));
  return out;
}

// The data of all tensors must fill the rest of the file, one after the other.
void check_layout(const Path& path, std::vector<Entry>& entries, uint64_t data_start, uint64_t data_size) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.end > data_size)
      corrupt(path, e.name, data_start + e.begin,
              fmt::format("its data ends at byte {}, past the end of the file at {}", data_start + e.end,
                          data_start + data_size));
    if (e.begin != at)
      corrupt(path, e.name, data_start + e.begin,
              fmt::format("its data {} before it",
                          e.begin < at ? "overlaps that of the tensor" : "leaves a gap"));
    at = e.end;
  }
  if (at != data_size)
    corrupt(path, "", data_start + at,
            fmt::format("{} bytes at the end belong to no tensor", data_size - at));
}

struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};

Header parse_header(const Path& path, std::string_view text) {
  Header out;
  try {
    const JsonReader all = JsonReader::of_text(text, path.string());
    for (const std::string& name : all.keys()) {
      const JsonReader fields = all.object(name);
      if (name != kMetadata) {
        out.entries.push_back(parse_entry(path, name, fields));
        continue;
      }
      for (const std::string& key : fields.keys()) out.metadata[key] = fields.text(key);
    }
  } catch (const ConfigurationError& e) {
    corrupt(path, "", kPrefix, fmt::format("the header is wrong: {}", e.message()));
  }
  return out;
}

Header read_header(const OpenFile& file, const Path& path, uint64_t& data_start) {
  const auto size = static_cast<uint64_t>(file.info.st_size);
  if (size < kPrefix) corrupt(path, "", size, "it is too short for a .safetensors file");
  uint64_t length = 0;
  read_exactly(file, path, "", std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length > kMaxJsonHeader || length > size - kPrefix)
    corrupt(path, "", 0, fmt::format("the header should have {} bytes, the file has {}", length, size));
  std::string text(length, '\0');
  read_exactly(file, path, "", std::as_writable_bytes(std::span(text)), kPrefix);
  data_start = kPrefix + length;
  Header out = parse_header(path, text);
  check_layout(path, out.entries, data_start, size - data_start);
  return out;
}

std::shared_ptr<const std::byte[]> load_data(const OpenFile& file, const Path& path, const Entry& e,
                                             uint64_t at) {
  const size_t count = e.end - e.begin;
  if (!packed(e.shape.dtype)) {
    auto data = aligned_bytes(count);
    read_exactly(file, path, e.name, {data.get(), count}, at);
    return data;
  }
  auto data = aligned_bytes(count * 2);
  // Into the upper half of the memory, from where the bytes are spread over the whole.
  read_exactly(file, path, e.name, {data.get() + count, count}, at);
  const std::span all(data.get(), count * 2);
  for (size_t i = 0; i < count; ++i) {
    const std::byte both = all[count + i];
    all[2 * i] = both & std::byte{15};
    all[2 * i + 1] = both >> 4;
  }
  return data;
}

std::string_view type_name(const HostTensor& t) {
  const auto* known = std::ranges::find(kTypes, t.shape.dtype, &Type::dtype);
  if (known == kTypes.end())
    throw ArgumentError(fmt::format("a .safetensors file cannot hold the tensor {} of type {}", quote(t.name),
                                    name(t.shape.dtype)),
                        {{"tensor", t.name}}, "Convert it to a type that the format has.",
                        Code::invalid_argument);
  return known->name;
}

std::string pack(const HostTensor& t) {
  const auto bytes = t.bytes();
  if (bytes.size() % 2 != 0)
    throw ArgumentError(
        fmt::format("a .safetensors file cannot hold an odd number of 4-bit elements: tensor {}, {}",
                    quote(t.name), t.shape.str()));
  std::string out(bytes.size() / 2, '\0');
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>((bytes[2 * i] & std::byte{15}) | (bytes[2 * i + 1] << 4));
  return out;
}

// "name":value, for the header. A library's object with its members in order looks through all of them for
// each new one.
std::string member(const Path& path, std::string_view name, const nlohmann::ordered_json& value) {
  try {
    return nlohmann::json(name).dump() + ":" + value.dump();
  } catch (const nlohmann::json::exception&) {
    throw ArgumentError(fmt::format("{}: a tensor's name or the metadata is not valid UTF-8", path.string()));
  }
}

// The length and the header, filled up with spaces so that the data starts aligned.
std::string header_bytes(const Path& path, std::string text) {
  const size_t over = (kPrefix + text.size()) % kTensorAlignment;
  if (over != 0) text.append(kTensorAlignment - over, ' ');
  const uint64_t length = text.size();
  if (length > kMaxJsonHeader)
    throw ArgumentError(fmt::format("{}: the names and shapes take {} bytes, the format allows {}",
                                    path.string(), length, kMaxJsonHeader));
  std::string out(kPrefix, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + text;
}

}  // namespace

TensorFile read_safetensors(const Path& path, Load load) try {
  const OpenFile file = open_to_read(path);
  uint64_t data_start = 0;
  Header header = read_header(file, path, data_start);
  std::shared_ptr<MappedFile> mapped;
  if (load == Load::map) mapped = std::make_shared<MappedFile>(path);
  if (mapped && mapped->bytes().size() != static_cast<size_t>(file.info.st_size))
    corrupt(path, "", 0, "the file changed while it was opened");

  TensorFile out;
  out.metadata = std::move(header.metadata);
  for (Entry& e : header.entries) {
    const uint64_t at = data_start + e.begin;
    HostTensor t{e.name, e.shape, nullptr};
    if (mapped && !packed(e.shape.dtype) && at % kTensorAlignment == 0)
      t.data = std::shared_ptr<const std::byte[]>(mapped, mapped->bytes().data() + at);
    else
      t.data = load_data(file, path, e, at);
    check_bools(path, t, at);
    out.tensors.push_back(std::move(t));
  }
  return out;
} catch (const std::bad_alloc&) {
  throw file_error("read", path, ENOMEM);
}

struct SafetensorsReader::Impl {
  Path path;
  OpenFile file;
  uint64_t data_start = 0;
  std::map<std::string, Entry, std::less<>> entries;
  std::vector<std::string> names;

  explicit Impl(const Path& from) : path(from), file(open_to_read(from)) {
    for (Entry& e : read_header(file, path, data_start).entries) {
      names.push_back(e.name);
      entries.emplace(e.name, std::move(e));
    }
  }
};

SafetensorsReader::SafetensorsReader(const Path& path) : impl_(std::make_shared<const Impl>(path)) {}

const std::vector<std::string>& SafetensorsReader::names() const { return impl_->names; }

const Shape* SafetensorsReader::shape(std::string_view name) const {
  const auto it = impl_->entries.find(name);
  return it == impl_->entries.end() ? nullptr : &it->second.shape;
}

HostTensor SafetensorsReader::read(std::string_view name) const try {
  const auto it = impl_->entries.find(name);
  if (it == impl_->entries.end())
    throw FileError(fmt::format("{}: there is no tensor {}", impl_->path.string(), quote(name)),
                    {{"path", impl_->path.string()}, {"tensor", std::string(name)}});
  const Entry& e = it->second;
  const uint64_t at = impl_->data_start + e.begin;
  HostTensor t{e.name, e.shape, load_data(impl_->file, impl_->path, e, at)};
  check_bools(impl_->path, t, at);
  return t;
} catch (const std::bad_alloc&) {
  throw file_error("read", impl_->path, ENOMEM);
}

void write_safetensors(const Path& path, std::span<const HostTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  // The widest elements first, so that all of them are aligned to their size.
  std::vector<const HostTensor*> order;
  for (const HostTensor& t : tensors) order.push_back(&t);
  std::ranges::stable_sort(order, std::ranges::greater(), [](const HostTensor* t) {
    return packed(t->shape.dtype) ? 4 : bits(t->shape.dtype);
  });

  std::unordered_set<std::string_view> names = {kMetadata};
  std::string header = metadata.empty() ? "" : member(path, kMetadata, metadata);
  std::vector<std::string> halves;  // what is packed for the file; reserved, for `parts` looks into it
  halves.reserve(order.size());
  std::vector<std::string_view> parts(1);
  uint64_t at = 0;
  for (const HostTensor* t : order) {
    if (!names.insert(t->name).second)
      throw ArgumentError(fmt::format("{}: two tensors are named {}, or the name is reserved", path.string(),
                                      quote(t->name)));
    const auto bytes = t->bytes();
    std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (packed(t->shape.dtype)) data = halves.emplace_back(pack(*t));
    if (!header.empty()) header += ',';
    header += member(
        path, t->name,
        {{"dtype", type_name(*t)}, {"shape", t->shape.dims}, {"data_offsets", {at, at + data.size()}}});
    at += data.size();
    parts.push_back(data);
  }
  const std::string head = header_bytes(path, "{" + header + "}");
  parts[0] = head;
  write_file(path, parts);
}

}  // namespace tpubridge
