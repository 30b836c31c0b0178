#include "tpubridge/cache/entry.h"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "tpubridge/base/private_files.h"
#include "tpubridge/cache/bytes.h"
#include "tpubridge/cache/key.h"

namespace tpubridge::cache {
namespace {

constexpr std::string_view kMagic = "TPBENTRY";
// magic, u32 version, u32 size of the description, u64 payload, u64 raw size, u64 × 2 hash of the payload,
// u64 hash of all before and of the description
constexpr size_t kHead = 56, kHashed = 48;
constexpr size_t kMaxDescription = 1 << 16;
constexpr int kLevel = 3;

// A few bytes can claim to be gigabytes: what is that dense is neither written nor read.
bool is_too_dense(size_t payload, size_t raw) { return raw > (size_t{1} << 20) && raw / 1000 > payload; }

[[noreturn]] void corrupt(const Path& name, const std::string& why) {
  throw FileError(fmt::format("{} is no sound entry: {}", name.string(), why), {{"path", name.string()}}, "",
                  Code::data_loss);
}

struct Head {
  uint32_t version;
  size_t description, payload, raw;
  Hash128 payload_hash;
  uint64_t head_hash;
};

Head parse_head(std::string_view bytes, const Path& name) {
  if (bytes.size() < kHead) corrupt(name, "it is cut off");
  if (!bytes.starts_with(kMagic)) corrupt(name, "it does not begin as one");
  Head head{get32(bytes, 8),
            get32(bytes, 12),
            get64(bytes, 16),
            get64(bytes, 24),
            {get64(bytes, 32), get64(bytes, 40)},
            get64(bytes, 48)};
  if (head.version != kFormatVersion)
    throw FileError(
        fmt::format("{} has format {}, this library writes {}", name.string(), head.version, kFormatVersion),
        {{"path", name.string()}}, "", Code::failed_precondition);
  if (head.description > kMaxDescription) corrupt(name, "its head is damaged");
  return head;
}

// The description, after its checksum held.
EntryInfo parse_description(std::string_view bytes, const Head& head, const Path& name) {
  if (bytes.size() < kHead + head.description) corrupt(name, "it is cut off");
  const std::string_view description = bytes.substr(kHead, head.description);
  if (hash64(std::string(bytes.substr(0, kHashed)).append(description)) != head.head_hash)
    corrupt(name, "its head is damaged");
  try {
    const auto json = nlohmann::json::parse(description);
    EntryInfo info;
    info.key = parse_key(json.at("key").get<std::string>()).value();
    info.check = parse_key(json.at("check").get<std::string>()).value();
    info.key_bytes = json.at("key_bytes");
    info.program = json.at("program");
    info.platform = json.at("platform");
    info.platform_version = json.at("platform_version");
    info.device_kind = json.at("device_kind");
    info.compile_seconds = json.at("compile_seconds");
    info.created = json.at("created");
    info.raw_bytes = static_cast<int64_t>(head.raw);
    return info;
  } catch (const std::bad_alloc&) {
    throw file_error("read", name, ENOMEM);
  } catch (const std::exception& e) {  // JSON's errors and bad_optional_access
    corrupt(name, fmt::format("its description cannot be read ({})", e.what()));
  }
}

// Not at once to what it claims: memory is taken as far as there is something to put there.
void grow(std::string& out, size_t size, size_t payload, const Path& name) {
  try {
    out.resize(std::min(size, std::max({2 * out.size(), 8 * payload, size_t{1} << 16})));
  } catch (const std::exception&) {  // bad_alloc, length_error
    throw file_error("read", name, ENOMEM);
  }
}

std::string decompress(std::string_view payload, size_t size, const Path& name) {
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != size)
    corrupt(name, "its size is not what its head says");
  if (is_too_dense(payload.size(), size)) corrupt(name, "it claims to be a thousand times as large as it is");
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> stream(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!stream) throw file_error("read", name, ENOMEM);
  ZSTD_inBuffer in{payload.data(), payload.size(), 0};
  std::string out;
  size_t done = 0;
  for (size_t left = 1; left != 0;) {
    if (done == out.size()) grow(out, size, payload.size(), name);
    const size_t before = in.pos + done;
    ZSTD_outBuffer to{out.data(), out.size(), done};
    left = ZSTD_decompressStream(stream.get(), &to, &in);
    done = to.pos;
    if (ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw file_error("read", name, ENOMEM);
    if (ZSTD_isError(left)) corrupt(name, ZSTD_getErrorName(left));
    if (left != 0 && in.pos + done == before) corrupt(name, "its size is not what its head says");
  }
  if (done != size || in.pos != in.size) corrupt(name, "its size is not what its head says");
  return out;
}

}  // namespace

std::optional<Hash128> parse_key(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Hash128 key;
  for (size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return std::nullopt;
    uint64_t& half = i < 16 ? key.high : key.low;
    half = half << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return key;
}

Encoded encode(const EntryInfo& info, std::string_view executable) {
  Encoded out;
  out.payload.resize(ZSTD_compressBound(executable.size()));
  const size_t n =
      ZSTD_compress(out.payload.data(), out.payload.size(), executable.data(), executable.size(), kLevel);
  if (ZSTD_isError(n))
    throw FileError(fmt::format("cannot compress a program: {}", ZSTD_getErrorName(n)), {}, "",
                    Code::internal);
  out.payload.resize(n);
  if (is_too_dense(n, executable.size()))
    throw FileError("a program is not cached: it is the same byte almost everywhere", {}, "", Code::internal);

  const nlohmann::ordered_json description = {
      {"key", info.key.hex()},           {"check", info.check.hex()},
      {"key_bytes", info.key_bytes},     {"program", info.program.substr(0, 1024)},
      {"platform", info.platform},       {"platform_version", info.platform_version.substr(0, 4096)},
      {"device_kind", info.device_kind}, {"compile_seconds", info.compile_seconds},
      {"created", info.created}};
  // A plugin's words may hold any bytes; JSON may not.
  const std::string text = description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const Hash128 hash = hash128(out.payload);
  out.head = kMagic;
  put32(out.head, kFormatVersion);
  put32(out.head, static_cast<uint32_t>(text.size()));
  for (const uint64_t v : {uint64_t{n}, uint64_t{executable.size()}, hash.high, hash.low}) put64(out.head, v);
  put64(out.head, hash64(out.head + text));
  out.head += text;
  return out;
}

Entry decode(std::string_view bytes, const Path& name) {
  const Head head = parse_head(bytes, name);
  Entry out{parse_description(bytes, head, name), {}};
  const std::string_view payload = bytes.substr(kHead + head.description);
  if (payload.size() < head.payload) corrupt(name, "it is cut off");
  if (payload.size() > head.payload) corrupt(name, "something stands behind its end");
  if (hash128(payload) != head.payload_hash) corrupt(name, "its content is damaged");
  out.executable = decompress(payload, head.raw, name);
  out.info.file_bytes = static_cast<int64_t>(bytes.size());
  return out;
}

EntryInfo read_info(const Path& path) {
  const OpenFile file = open_private(path);
  std::string bytes(kHead, '\0');
  bytes.resize(read_at(file.fd, path, std::as_writable_bytes(std::span(bytes)), 0));
  const Head head = parse_head(bytes, path);
  bytes.resize(kHead + head.description);
  bytes.resize(read_at(file.fd, path, std::as_writable_bytes(std::span(bytes)), 0));
  EntryInfo info = parse_description(bytes, head, path);
  info.file_bytes = file.info.st_size;
  if (static_cast<size_t>(info.file_bytes) != bytes.size() + head.payload) corrupt(path, "it is cut off");
  return info;
}

}  // namespace tpubridge::cache
