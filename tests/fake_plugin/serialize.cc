// Serialised executables: the bytes of the plugin below, after a head that tells the generation and their
// checksum.
#include <cstring>

#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {
namespace {

struct Head {
  char magic[8];
  char generation[8];
  uint64_t size, checksum;
};
constexpr char kMagic[8] = {'F', 'A', 'K', 'E', 'T', 'P', 'U', '1'};

struct Serialized : Object {
  using Handle = PJRT_SerializedExecutable;
  static constexpr Kind kKind = Kind::serialized;
  std::string bytes;
};

uint64_t checksum(std::string_view bytes) {  // FNV-1a
  uint64_t hash = 14695981039346656037U;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211U;
  return hash;
}

std::string bytes_below(PJRT_Executable* executable) {
  auto a = args<PJRT_Executable_Serialize_Args>();
  a.executable = executable;
  call(&PJRT_Api::PJRT_Executable_Serialize, a);
  std::string bytes(a.serialized_bytes, a.serialized_bytes_size);
  a.serialized_executable_deleter(a.serialized_executable);
  return bytes;
}

void serialize(PJRT_Executable_Serialize_Args& a) {
  const auto program = get<Executable>(a.executable)->program;
  const std::string payload = bytes_below(program->below);
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  std::strncpy(head.generation, program->generation->name, sizeof head.generation - 1);
  head.size = payload.size();
  head.checksum = checksum(payload);
  auto serialized = std::make_shared<Serialized>();
  serialized->bytes.assign(reinterpret_cast<const char*>(&head), sizeof head);
  serialized->bytes += payload;
  if (due("serialize_flip")) serialized->bytes[sizeof head + payload.size() / 2] ^= 1;
  if (due("serialize_truncate")) serialized->bytes.resize(serialized->bytes.size() / 2);
  a.serialized_bytes = serialized->bytes.data();
  a.serialized_bytes_size = serialized->bytes.size();
  a.serialized_executable = add(std::move(serialized));
  a.serialized_executable_deleter = [](PJRT_SerializedExecutable* s) { take_quietly<Serialized>(s); };
}

// The bytes for the plugin below; refuses what was cut, changed, or made for another generation.
std::string_view payload_of(std::string_view bytes, const Generation& wanted) {
  Head head;
  if (bytes.size() < sizeof head || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    throw Failure{PJRT_Error_Code_INTERNAL,
                  "Deserialization failed: this is no executable of the fake plugin"};
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string_view payload = bytes.substr(sizeof head);
  if (payload.size() != head.size || checksum(payload) != head.checksum)
    throw Failure{PJRT_Error_Code_INTERNAL, "Deserialization failed: the executable is corrupt"};
  head.generation[sizeof head.generation - 1] = '\0';
  if (std::string_view(head.generation) != wanted.name)
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, std::string("The executable was compiled for ") +
                                                        head.generation + ", but this is a " + wanted.kind};
  return payload;
}

void load(PJRT_Executable_DeserializeAndLoad_Args& a) {
  const auto client = get<Client>(a.client);
  if (!a.serialized_executable) registry::misuse("the bytes are null");
  const auto payload =
      payload_of({a.serialized_executable, a.serialized_executable_size}, *client->machine.generation);
  auto below = a;
  below.struct_size = sizeof below;
  below.client = client->below;
  below.serialized_executable = payload.data();
  below.serialized_executable_size = payload.size();
  call(&PJRT_Api::PJRT_Executable_DeserializeAndLoad, below);
  a.loaded_executable = wrap(below.loaded_executable, client);
}

}  // namespace

void install_serializers(PJRT_Api& api) {
  FAKE_SET(PJRT_Executable_Serialize, serialize);
  FAKE_SET(PJRT_Executable_DeserializeAndLoad, load);
}

}  // namespace fake
