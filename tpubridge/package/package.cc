#include "tpubridge/package/package.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/base/text.h"

namespace tpubridge::package {
namespace {

std::string_view view_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void refuse_package(const Path& path, const std::string& what) {
  throw FileError(fmt::format("{}: not a sound package: {}", path.string(), what), {{"path", path.string()}},
                  "Was it copied completely? Make it again.", Code::data_loss);
}

Manifest manifest_of(const ZipFile& zip) {
  const ZipEntry* entry = zip.find(kManifestEntry);
  if (!entry) refuse_package(zip.path(), "it has no manifest");
  zip.check(*entry);
  return read_manifest(view_of(entry->data), zip.path().string());
}

// Entries of the same bytes are one.
class EntryWriter {
 public:
  Entry add(const std::string& name, std::string_view data) {
    const std::string hash = hash128(data).hex();
    const auto [known, fresh] = known_.try_emplace(hash, contents_.size());
    if (!fresh && contents_[known->second].data == data) return {contents_[known->second].name, hash};
    contents_.push_back({name, data});
    return {name, hash};
  }
  [[nodiscard]] std::vector<ZipContent> with(std::string_view manifest) const {
    std::vector<ZipContent> out{{std::string(kManifestEntry), manifest}};
    out.insert(out.end(), contents_.begin(), contents_.end());
    return out;
  }

 private:
  std::map<std::string, size_t> known_;
  std::vector<ZipContent> contents_;
};

}  // namespace

Package::Package(const Path& path) : zip_(path), manifest_(manifest_of(zip_)) {
  zip_.check_frame();
  std::map<std::string, std::string> named{{std::string(kManifestEntry), ""}};  // with the hash
  const auto look = [&](const Entry& entry) {
    const auto [known, fresh] = named.try_emplace(entry.name, entry.hash);
    if (fresh || known->second != entry.hash) check_entry(entry);
  };
  for (const Program& p : manifest_.programs) {
    for (const ProgramCode& c : p.codes) look(c.entry);
    for (const Executable& e : p.executables) look(e.entry);
  }
  for (const Weight& w : manifest_.weights) {
    look(w.entry);
    if (bytes(w.entry).size() != static_cast<size_t>(w.tensor.shape.bytes()))
      refuse_package(path, fmt::format("the weight {} has {} bytes, {} needs {}", quote(w.tensor.name),
                                       bytes(w.entry).size(), w.tensor.shape.str(), w.tensor.shape.bytes()));
  }
  for (const ZipEntry& e : zip_.entries())
    if (!named.contains(e.name))
      refuse_package(path, fmt::format("nothing names its entry {}", quote(e.name)));
}

void Package::check_entry(const Entry& entry) const {
  if (hash128(bytes(entry)).hex() != entry.hash)
    refuse_package(path(), fmt::format("the bytes of {} are not those that were written", quote(entry.name)));
}

std::string_view Package::bytes(const Entry& entry) const {
  const ZipEntry* found = zip_.find(entry.name);
  if (!found) refuse_package(path(), fmt::format("its entry {} is missing", quote(entry.name)));
  return view_of(found->data);
}

std::string Package::digest() const { return hash128(bytes({std::string(kManifestEntry), {}})).hex(); }

std::string Package::signature() const {
  constexpr size_t kMost = 20;
  const auto& programs = manifest_.programs;
  std::string out;
  for (const Program& p : std::span(programs).first(std::min(programs.size(), kMost))) {
    out += out.empty() ? "" : "; or ";
    for (size_t i = 0; i < p.inputs.size(); ++i)
      out += fmt::format("{}{} {}", i ? ", " : "", p.inputs[i].name, p.inputs[i].shape.str());
    if (p.inputs.empty()) out += "no inputs";
  }
  if (programs.size() > kMost) out += fmt::format("; and {} more", programs.size() - kMost);
  return out;
}

bool is_package(const Path& path) {
  constexpr size_t kName = 30;  // where the name stands in the header of the first entry
  std::array<std::byte, kName + kManifestEntry.size()> head{};
  const OpenFile file = open_to_read(path);
  const std::string_view text = view_of(std::span(head).first(read_at(file.fd, path, head, 0)));
  return text.starts_with("PK\3\4") && text.size() == head.size() && text.substr(kName) == kManifestEntry;
}

void write_package(const Path& path, const Contents& c) {
  EntryWriter writer;
  Manifest m{c.model, c.made_with, {}, {}};
  for (size_t i = 0; i < c.programs.size(); ++i) {
    const auto& from = c.programs[i];
    Program p{from.inputs, from.outputs, from.parameters, {}, {}};
    for (const auto& code : from.codes)
      p.codes.push_back({code.platform,
                         writer.add(fmt::format("programs/{}.{}.mlir", i, code.platform), code.text),
                         code.options});
    for (size_t k = 0; k < from.executables.size(); ++k)
      p.executables.push_back({from.executables[k].machine, writer.add(fmt::format("executables/{}.{}", i, k),
                                                                       from.executables[k].bytes)});
    m.programs.push_back(std::move(p));
  }
  for (size_t i = 0; i < c.weights.size(); ++i)
    m.weights.push_back({{c.weights[i].name, c.weights[i].shape},
                         writer.add(fmt::format("weights/{}", i), view_of(c.weights[i].bytes()))});
  const std::string manifest = to_json(m);
  (void)read_manifest(manifest, path.string());  // what could not be read is not written
  write_zip(path, writer.with(manifest));
}

}  // namespace tpubridge::package
