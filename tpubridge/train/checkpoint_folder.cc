#include "tpubridge/train/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <random>
#include <system_error>
#include <vector>

#include "tpubridge/base/absolute.h"
#include "tpubridge/base/fd.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

using nlohmann::json;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kFormat = "tpubridge checkpoint";

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of the type, the shape and the bytes: a header that was changed is noticed as well.
std::string tensor_sum(const HostTensor& t) {
  return Hasher().add_field(t.shape.str()).add_field(as_text(t.bytes())).digest().hex();
}

struct FileSum {
  size_t size = 0;
  std::string sum;
};

// By reads: what the disk cannot give is an error then, and of a mapped file it would be SIGBUS.
FileSum sum_file(const Path& path) {
  constexpr size_t kChunk = size_t{4} << 20;
  const OpenFile file = open_to_read(path);
  std::vector<std::byte> chunk(std::min(kChunk, static_cast<size_t>(file.info.st_size) + 1));
  Hasher hasher;
  FileSum out;
  for (size_t n = chunk.size(); n == chunk.size(); out.size += n) {
    n = read_at(file.fd, path, chunk, out.size);
    hasher.add(as_text(std::span(chunk).first(n)));
  }
  out.sum = hasher.digest().hex();
  return out;
}

json describe_file(const Path& path, const std::vector<HostTensor>& tensors) {
  json sums = json::object();
  for (const HostTensor& t : tensors) sums[t.name] = tensor_sum(t);
  const FileSum file = sum_file(path);
  return {{"size", file.size}, {"xxh128", file.sum}, {"tensors", sums}};
}

// The manifest vouches for itself too.
std::string manifest_sum(json manifest) {
  manifest.erase("checksum");
  return hash128(manifest.dump()).hex();
}

// Removed with all that is in it, unless it became something else.
struct Draft {
  explicit Draft(const Path& target) {
    std::random_device random;
    path = target.parent_path() / (".tmp-" + target.filename().string() + "-" + std::to_string(random()));
    std::error_code error;
    if (!std::filesystem::create_directory(path, error))
      throw file_error("create the folder", path, error ? error.value() : EEXIST);
  }
  ~Draft() {
    try {
      std::error_code error;
      std::filesystem::remove_all(path, error);
      if (error) log::warn("checkpoint.left_behind", {{"path", path.string()}, {"cause", error.message()}});
    } catch (const std::bad_alloc&) {  // whoever saves into this folder next removes it
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  Path path;
};

// Puts the draft in the target's place; what stood there stands in the draft's place then, and goes with it.
void swap_in(const Path& draft, const Path& target) {
  if (::rename(draft.c_str(), target.c_str()) != 0) {
    if (errno != EEXIST && errno != ENOTEMPTY) throw file_error("rename", target, errno);
    if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0)
      throw file_error("replace", target, errno);
  }
  sync_folder(target.parent_path());
}

// The system's word, which says nothing about what is in the file.
bool cannot_be_read(const Error& e) {
  return !e.detail("cause").empty() && e.code() != Code::invalid_argument;
}

json read_manifest(const Path& folder) {
  const Path path = folder / kManifest;
  const json manifest = parse_json_file(path);
  const JsonReader reader(manifest, path.string());
  if (reader.text("format") != kFormat)
    throw checkpoint_error("load", path, "it is no manifest of a checkpoint",
                           {{"format", reader.text("format")}});
  const int64_t version = reader.integer("version");
  if (version < 1 || version > kCheckpointVersion)
    throw checkpoint_error("load", path,
                           "its format is version " + std::to_string(version) + ", known are 1 to " +
                               std::to_string(kCheckpointVersion),
                           {{"version", std::to_string(version)}},
                           "Read it with the version of tpubridge that wrote it, or a newer one.",
                           version < 1 ? Code::data_loss : Code::unsupported);
  if (reader.text("checksum") != manifest_sum(manifest))
    throw checkpoint_error("load", path, "its content does not fit its checksum");
  return manifest;
}

std::vector<HostTensor> read_verified(const Path& path, const JsonReader& facts) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (error) throw file_error("read", path, error.value());
    throw checkpoint_error("load", path, "the file is missing", {{"file", path.filename().string()}});
  }
  const auto [size, sum] = sum_file(path);
  if (const auto want = static_cast<size_t>(facts.integer("size")); size != want)
    throw checkpoint_error(
        "load", path, "it has " + std::to_string(size) + " bytes, the manifest says " + std::to_string(want),
        {{"file", path.filename().string()}});
  std::vector<HostTensor> tensors = read_safetensors(path).tensors;
  const JsonReader sums = facts.object("tensors");
  for (const HostTensor& t : tensors)
    if (!sums.has(t.name) || sums.text(t.name) != tensor_sum(t))
      throw checkpoint_error("load", path, "the tensor " + quote(t.name) + " does not fit its checksum",
                             {{"file", path.filename().string()}, {"tensor", t.name}});
  if (sum != facts.text("xxh128"))
    throw checkpoint_error("load", path, "the file does not fit its checksum",
                           {{"file", path.filename().string()}});
  return tensors;
}

}  // namespace

const std::vector<HostTensor>& CheckpointData::file(const std::string& name, const Path& folder) const {
  const auto it = files.find(name);
  if (it == files.end())
    throw checkpoint_error("load", folder, "it holds no " + name + ".safetensors",
                           {{"file", name + ".safetensors"}}, "", Code::not_found);
  return it->second;
}

void write_checkpoint(const Path& folder, const CheckpointData& data) try {
  const Path target = absolute_path(folder);
  make_folder(target.parent_path());
  const Draft draft(target);
  json manifest{{"format", kFormat},
                {"version", kCheckpointVersion},
                {"files", json::object()},
                {"numbers", data.numbers}};
  for (const auto& [name, tensors] : data.files) {
    const Path path = draft.path / (name + ".safetensors");
    write_safetensors(path, tensors);
    manifest["files"][path.filename().string()] = describe_file(path, tensors);
  }
  manifest["checksum"] = manifest_sum(manifest);
  write_file(draft.path / kManifest, manifest.dump(1) + "\n");  // the last: it says that the rest is there
  swap_in(draft.path, target);
} catch (const TPUCheckpointError&) {
  throw;
} catch (const Error& e) {
  throw checkpoint_error("save", folder, e.message(), e.details(), e.hint(), e.code());
} catch (const json::exception& e) {
  throw checkpoint_error("save", folder, std::string("the numbers are no JSON: ") + e.what(), {}, "",
                         Code::invalid_argument);
}

CheckpointData read_checkpoint(const Path& folder) try {
  const json manifest = read_manifest(folder);
  const JsonReader reader(manifest, (folder / kManifest).string());
  CheckpointData out;
  out.numbers = reader.object("numbers").json();
  const JsonReader files = reader.object("files");
  for (const std::string& name : files.keys()) {
    const Path path = folder / name;
    if (path.filename() != name || path.extension() != ".safetensors")
      throw checkpoint_error("load", folder / kManifest, "it names the file " + quote(name));
    out.files[path.stem().string()] = read_verified(path, files.object(name));
  }
  return out;
} catch (const TPUCheckpointError&) {
  throw;
} catch (const Error& e) {
  if (e.code() == Code::not_found || cannot_be_read(e))
    throw checkpoint_error("load", folder, e.message(), e.details(), e.hint(),
                           e.code() == Code::unknown ? Code::unavailable : e.code());
  throw checkpoint_error("load", folder, e.message(), e.details());
}

bool is_damage(const TPUCheckpointError& e) {
  return e.code() == Code::data_loss || e.code() == Code::not_found;
}

}  // namespace tpubridge
