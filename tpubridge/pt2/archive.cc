#include "tpubridge/pt2/archive.h"

#include <bit>
#include <set>

#include "tpubridge/base/json.h"
#include "tpubridge/pt2/read_program.h"

namespace tpubridge::exported {
namespace {

static_assert(std::endian::native == std::endian::little, "weights are used as they are in the file");

std::string_view text_of(const ZipEntry& entry) {
  return {reinterpret_cast<const char*>(entry.data.data()), entry.data.size()};
}

[[noreturn]] void refuse_archive(const Path& path, const std::string& what, const std::string& hint = "") {
  throw FileError(fmt::format("{}: {}", path.string(), what), {{"path", path.string()}}, hint,
                  Code::invalid_argument);
}

json json_of(const Archive& archive, const std::string& name) {
  const ZipEntry* const entry = archive.zip->find(archive.folder + name);
  if (entry == nullptr)
    refuse_archive(archive.zip->path(), fmt::format("the entry {} is missing", quote(name)));
  archive.zip->check(*entry);
  try {
    return parse_json(text_of(*entry), archive.zip->path().string() + ": " + name);
  } catch (const ConfigurationError& e) {
    refuse_archive(archive.zip->path(), e.message());
  }
}

// Everything stands in one folder, named as the file was when it was saved.
void find_model(Archive& archive) {
  constexpr std::string_view kModels = "models/", kJson = ".json";
  std::vector<std::string> found;
  for (const auto& entry : archive.zip->entries()) {
    const auto at = entry.name.find(kModels);
    if (at == std::string::npos || (at != 0 && entry.name[at - 1] != '/') || !entry.name.ends_with(kJson))
      continue;
    const std::string model =
        entry.name.substr(at + kModels.size(), entry.name.size() - at - kModels.size() - kJson.size());
    if (model.find('/') != std::string::npos || model.empty()) continue;
    archive.folder = entry.name.substr(0, at);
    found.push_back(model);
  }
  const Path& path = archive.zip->path();
  if (found.empty())
    refuse_archive(path, "no exported model is in it (models/NAME.json)",
                   "Make one with torch.export.save(torch.export.export(model, inputs), \"model.pt2\").");
  if (found.size() > 1)
    refuse_archive(path, fmt::format("{} models are in it; files with one are read", found.size()));
  archive.model = found.front();
  if (const auto* order = archive.zip->find(archive.folder + "byteorder");
      order != nullptr && text_of(*order) != "little")
    refuse_archive(path, "its weights are big-endian");
}

// What the graph asks for is there, and of the type and sizes that it says.
void check_payloads(const Archive& archive) {
  const Program& p = archive.program;
  const std::string& file = archive.zip->path().string();
  std::set<std::string> used;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const InputSpec& spec = p.inputs[i];
    if (spec.kind == InputKind::user || spec.kind == InputKind::fixed) continue;
    const Place place{&file, fmt::format("the {} {}",
                                         spec.kind == InputKind::parameter ? "parameter"
                                         : spec.kind == InputKind::buffer  ? "buffer"
                                                                           : "constant",
                                         spec.target)};
    const bool in_weights =
        spec.kind == InputKind::parameter || (spec.kind == InputKind::buffer && spec.persistent);
    const auto& from = in_weights ? p.weights : p.constants;
    const auto at = from.find(spec.target);
    if (at == from.end())
      place.refuse(fmt::format("it is missing among the {}", in_weights ? "weights" : "constants"));
    const auto meta = p.metas.find(p.graph.names[static_cast<size_t>(p.graph.inputs[i].slot)]);
    if (meta == p.metas.end()) place.refuse("the graph does not say what it is");
    const TensorMeta &want = meta->second, &have = at->second.meta;
    if (want.dtype != have.dtype)
      place.refuse(fmt::format("it is stored as {}, the graph wants {}", dtype_name(have.dtype),
                               dtype_name(want.dtype)));
    const auto sizes = [](const TensorMeta& m) {
      std::string out;
      for (const auto& size : m.sizes) out += (out.empty() ? "" : ", ") + size.text();
      return "[" + out + "]";
    };
    if (sizes(want) != sizes(have))
      place.refuse(
          fmt::format("it is stored with the sizes {}, the graph wants {}", sizes(have), sizes(want)));
    (void)archive.bytes(at->second);
    used.insert(spec.target);
  }
  for (const auto* list : {&p.weights, &p.constants})
    for (const auto& [name, payload] : *list)
      if (!used.contains(name))
        Place{&file, payload.entry}.refuse(
            fmt::format("the tensor {} belongs to nothing in the graph", quote(name)));
}

}  // namespace

int64_t element_bytes(int64_t dtype) {
  static const std::map<int64_t, int64_t> sizes = {
      {1, 1},  {2, 1},  {3, 2},  {4, 4},  {5, 8},  {6, 2},  {7, 4},  {8, 8},  {9, 4},  {10, 8}, {11, 16},
      {12, 1}, {13, 2}, {28, 2}, {29, 1}, {30, 1}, {31, 1}, {32, 1}, {33, 1}, {34, 4}, {35, 8}};
  const auto at = sizes.find(dtype);
  return at == sizes.end() ? 0 : at->second;
}

std::string dtype_name(int64_t dtype) {
  static const std::map<int64_t, const char*> names = {{1, "uint8"},
                                                       {2, "int8"},
                                                       {3, "int16"},
                                                       {4, "int32"},
                                                       {5, "int64"},
                                                       {6, "float16"},
                                                       {7, "float32"},
                                                       {8, "float64"},
                                                       {9, "complex32"},
                                                       {10, "complex64"},
                                                       {11, "complex128"},
                                                       {12, "bool"},
                                                       {13, "bfloat16"},
                                                       {28, "uint16"},
                                                       {29, "float8_e4m3fn"},
                                                       {30, "float8_e5m2"},
                                                       {31, "float8_e4m3fnuz"},
                                                       {32, "float8_e5m2fnuz"},
                                                       {33, "float8_e8m0fnu"},
                                                       {34, "uint32"},
                                                       {35, "uint64"}};
  const auto at = names.find(dtype);
  return at == names.end() ? fmt::format("type {}", dtype) : at->second;
}

std::span<const std::byte> Archive::bytes(const Payload& payload) const {
  const std::string file = zip->path().string();
  const Place place{&file, payload.entry};
  const ZipEntry* const entry = zip->find(payload.entry);
  if (entry == nullptr) place.refuse("this entry of the archive is missing");
  const TensorMeta& m = payload.meta;
  const int64_t item = element_bytes(m.dtype);
  if (item == 0) place.refuse(fmt::format("{} is not known", dtype_name(m.dtype)));
  if (m.sizes.size() != m.strides.size() || m.sizes.size() > 64)
    place.refuse("sizes and strides do not fit each other");
  bool empty = false, sound = m.offset.op == SizeExpr::Op::number && m.offset.number >= 0;
  int64_t last = m.offset.number, step = 0, elements = 1, all_bytes = 0;
  for (size_t i = 0; sound && i < m.sizes.size(); ++i) {
    const SizeExpr &size = m.sizes[i], &stride = m.strides[i];
    sound = size.op == SizeExpr::Op::number && stride.op == SizeExpr::Op::number && size.number >= 0 &&
            stride.number >= 0;
    if (sound && size.number == 0)
      empty = true;
    else if (sound)
      sound = !__builtin_mul_overflow(size.number - 1, stride.number, &step) &&
              !__builtin_add_overflow(last, step, &last) &&
              !__builtin_mul_overflow(elements, size.number, &elements);
  }
  sound = sound && !__builtin_mul_overflow(elements, item, &all_bytes);
  if (!sound) place.refuse("its sizes, strides or offset are no numbers that a tensor can have");
  if (empty) return entry->data;
  if (last >= static_cast<int64_t>(entry->data.size()) / item)
    place.refuse(fmt::format("the tensor ends at element {} of {} bytes each, the entry has {} bytes",
                             last + 1, item, entry->data.size()));
  return entry->data;
}

Archive open_archive(const Path& path) {
  Archive out;
  out.zip = std::make_unique<ZipFile>(path);
  find_model(out);
  const std::string file = path.string(), model = "models/" + out.model + ".json";
  out.program = read_program(json_of(out, model), {&file, model});
  const std::string weights = "data/weights/", constants = "data/constants/";
  const std::string weights_list = weights + out.model + "_weights_config.json",
                    constants_list = constants + out.model + "_constants_config.json";
  out.program.weights =
      read_payloads(json_of(out, weights_list), out.folder + weights, {&file, weights_list});
  out.program.constants =
      read_payloads(json_of(out, constants_list), out.folder + constants, {&file, constants_list});
  check_payloads(out);
  return out;
}

}  // namespace tpubridge::exported
