#include "tpubridge/base/torch_file.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_io.h"
#include "tpubridge/base/text.h"
#include "tpubridge/base/unpickle.h"
#include "tpubridge/base/zip.h"

namespace tpubridge {
namespace {

using pickled::Index;
using pickled::Kind;
using pickled::Node;

constexpr int kMostLevels = 32, kMostDims = 64;
constexpr size_t kMostWalked = size_t{1} << 22;
constexpr uint64_t kMostCopied = uint64_t{1} << 26;  // and four times what the file holds

constexpr std::array<std::pair<std::string_view, DType>, 12> kStorages = {{
    {"torch FloatStorage", DType::f32},
    {"torch DoubleStorage", DType::f64},
    {"torch HalfStorage", DType::f16},
    {"torch BFloat16Storage", DType::bf16},
    {"torch LongStorage", DType::s64},
    {"torch IntStorage", DType::s32},
    {"torch ShortStorage", DType::s16},
    {"torch CharStorage", DType::s8},
    {"torch ByteStorage", DType::u8},
    {"torch BoolStorage", DType::pred},
    {"torch ComplexFloatStorage", DType::c64},
    {"torch ComplexDoubleStorage", DType::c128},
}};
constexpr std::string_view kTensor = "torch._utils _rebuild_tensor_v2",
                           kParameter = "torch._utils _rebuild_parameter", kDict = "collections OrderedDict";

std::optional<DType> storage_type(std::string_view global) {
  for (const auto& [name, type] : kStorages)
    if (name == global) return type;
  return std::nullopt;
}

class StateDict {
 public:
  explicit StateDict(const Path& path)
      : path_(path), zip_(std::make_shared<ZipFile>(path)), file_bytes_(std::filesystem::file_size(path)) {
    const ZipEntry* pickle = nullptr;
    for (const ZipEntry& e : zip_->entries())
      if (e.name == "data.pkl" || e.name.ends_with("/data.pkl")) pickle = &e;
    if (pickle == nullptr) fail("the archive holds no data.pkl: torch.save() did not write it");
    folder_ = pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size());
    if (const ZipEntry* order = zip_->find(folder_ + "byteorder"))
      if (std::string_view(reinterpret_cast<const char*>(order->data.data()), order->data.size()) != "little")
        fail("its numbers are big-endian");
    zip_->check(*pickle);
    pickle_ = pickled::unpickle(pickle->data, path.string(), [](std::string_view global) {
      return global == kTensor || global == kParameter || global == kDict || storage_type(global);
    });
  }

  TensorFile read() {
    walk(pickle_.root, "", 0);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& why, const std::string& tensor = {}) const {
    throw FileError(fmt::format("{}: {}{}", path_.string(), tensor.empty() ? "" : quote(tensor) + ": ", why),
                    {{"path", path_.string()}, {"tensor", tensor}},
                    "Save it again with torch.save(model.state_dict(), file).", Code::data_loss);
  }
  [[nodiscard]] const Node& node(Index i) const { return pickle_.at(i); }

  static bool holds_others(Kind kind) {
    return kind == Kind::list || kind == Kind::tuple || kind == Kind::dict || kind == Kind::call;
  }

  void count(int depth) {
    if (depth > kMostLevels || ++walked_ > kMostWalked)
      fail("dicts and lists stand too deep, or in themselves");
  }

  void walk(Index index, const std::string& name, int depth) {
    count(depth);
    const Node& n = node(index);
    const auto below = [&](Index item, const std::string& key) {
      if (!holds_others(node(item).kind)) return count(depth);
      // Items without end can stand below one key that is as long as the file.
      named_ += name.size() + key.size();
      if (named_ > kMostCopied + 4 * file_bytes_) fail("the names in it are too long");
      walk(item, name.empty() ? key : name + "." + key, depth + 1);
    };
    if (n.kind == Kind::call) return tensor(index, name);
    if (n.kind == Kind::list || n.kind == Kind::tuple)
      for (size_t i = 0; i < n.items.size(); ++i) below(n.items[i], std::to_string(i));
    if (n.kind == Kind::dict)
      for (size_t i = 0; i + 1 < n.items.size(); i += 2) {
        const Node& key = node(n.items[i]);
        if (key.kind != Kind::text && key.kind != Kind::integer) fail("a key of a dict is no text");
        below(n.items[i + 1], key.kind == Kind::text ? key.text : std::to_string(key.integer));
      }
  }

  const Node& argument(const Node& call, size_t i, Kind kind, const std::string& name) const {
    const Node& all = node(call.items[1]);
    if (i >= all.items.size() || node(all.items[i]).kind != kind)
      fail("its pickle is not as torch writes it", name);
    return node(all.items[i]);
  }
  std::vector<int64_t> integers(const Node& list, const std::string& name) const {
    std::vector<int64_t> out;
    for (const Index i : list.items) {
      if (node(i).kind != Kind::integer || node(i).integer < 0 || out.size() >= kMostDims)
        fail("its sizes make no sense", name);
      out.push_back(node(i).integer);
    }
    return out;
  }

  void tensor(Index index, const std::string& name) {
    const Node* call = &node(index);
    if (node(call->items[0]).text == kParameter) call = &argument(*call, 0, Kind::call, name);
    if (node(call->items[0]).text != kTensor) fail("its pickle is not as torch writes it", name);
    if (!names_.insert(name).second) fail("two tensors have this name", name);
    const auto [type, bytes] = storage(argument(*call, 0, Kind::persistent, name), name);
    const int64_t offset = argument(*call, 1, Kind::integer, name).integer;
    Shape shape{type, integers(argument(*call, 2, Kind::tuple, name), name)};
    const auto strides = integers(argument(*call, 3, Kind::tuple, name), name);
    if (strides.size() != shape.dims.size()) fail("its sizes make no sense", name);
    (void)checked_bytes(path_, name, 0, shape);
    out_.tensors.push_back({name, shape, elements(shape, strides, offset, bytes, name)});
    check_bools(path_, out_.tensors.back(), 0);
  }

  // ("storage", its type, key, device, how many elements)
  std::pair<DType, std::span<const std::byte>> storage(const Node& persistent, const std::string& name) {
    const Node& id = node(persistent.items[0]);
    const auto part = [&](size_t i, Kind kind) -> const Node& {
      if (id.kind != Kind::tuple || i >= id.items.size() || node(id.items[i]).kind != kind)
        fail("its pickle is not as torch writes it", name);
      return node(id.items[i]);
    };
    const auto type = storage_type(part(1, Kind::global).text);
    const std::string& key = part(2, Kind::text).text;
    const int64_t count = part(4, Kind::integer).integer;
    const ZipEntry* entry = zip_->find(folder_ + "data/" + key);
    if (!type || part(0, Kind::text).text != "storage") fail("its pickle is not as torch writes it", name);
    if (entry == nullptr) fail("its data " + quote(key) + " is not in the archive", name);
    if (checked_.insert(key).second) zip_->check(*entry);
    const auto width = static_cast<uint64_t>(bits(*type) / 8);
    if (count < 0 || static_cast<uint64_t>(count) > entry->data.size() / width)
      fail("its data is shorter than it should be", name);
    return {*type, entry->data.first(static_cast<size_t>(count) * width)};
  }

  std::shared_ptr<const std::byte[]> elements(const Shape& shape, const std::vector<int64_t>& strides,
                                              int64_t offset, std::span<const std::byte> bytes,
                                              const std::string& name) {
    const int64_t all = shape.elements(), width = bits(shape.dtype) / 8,
                  stored = static_cast<int64_t>(bytes.size()) / width;
    if (all == 0) return aligned_bytes(0);
    int64_t last = offset, dense = 1;
    bool in_order = true;
    for (size_t d = shape.dims.size(); d-- > 0;) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(shape.dims[d] - 1, strides[d], &reach) ||
          __builtin_add_overflow(last, reach, &last))
        fail("its sizes make no sense", name);
      in_order = in_order && (shape.dims[d] == 1 || strides[d] == dense);
      dense *= shape.dims[d];
    }
    if (offset < 0 || last >= stored) fail("it reaches beyond its data", name);
    const std::byte* begin = bytes.data() + offset * width;
    if (in_order && reinterpret_cast<uintptr_t>(begin) % kTensorAlignment == 0)
      return {zip_, begin};  // as long as it lives the file is mapped
    // Many small tensors can be views of the same data.
    copied_ += static_cast<uint64_t>(shape.bytes());
    if (copied_ > kMostCopied + 4 * file_bytes_) fail("its tensors repeat their data too often", name);
    return gathered(shape, strides, begin, width);
  }

  static std::shared_ptr<const std::byte[]> gathered(const Shape& shape, const std::vector<int64_t>& strides,
                                                     const std::byte* begin, int64_t width) {
    auto out = aligned_bytes(static_cast<size_t>(shape.bytes()));
    std::vector<int64_t> place(shape.dims.size(), 0);
    int64_t from = 0;
    for (int64_t i = 0, n = shape.elements(); i < n; ++i) {
      std::memcpy(out.get() + i * width, begin + from * width, static_cast<size_t>(width));
      for (size_t d = place.size(); d-- > 0;) {
        from += strides[d];
        if (++place[d] < shape.dims[d]) break;
        from -= strides[d] * shape.dims[d];
        place[d] = 0;
      }
    }
    return out;
  }

  Path path_;
  std::shared_ptr<ZipFile> zip_;
  std::string folder_;  // in the archive
  pickled::Pickle pickle_;
  TensorFile out_;
  std::set<std::string> names_, checked_;
  size_t walked_ = 0;
  uint64_t copied_ = 0, named_ = 0, file_bytes_;
};

}  // namespace

TensorFile read_torch(const Path& path) { return StateDict(path).read(); }

bool is_zip(const Path& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;  // what is read from a pipe is gone
  std::array<char, 4> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), head.size()) == "PK\x03\x04";
}

}  // namespace tpubridge
