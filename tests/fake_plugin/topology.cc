// Topologies: of a client, or by name for an offline compile.
#include "entry.h"
#include "objects.h"

namespace fake {

Topology::Topology(std::string text, Machine parts) : name(std::move(text)), machine(std::move(parts)) {
  version = std::string("TFRT ") + machine.generation->kind + "\nfake plugin over XLA CPU";
  attributes.add("device_memory_bytes_limit", machine.hbm_bytes);
  attributes.add("wrap", std::vector<int64_t>{0, 0, 0});
  attributes.add("twist", int64_t{0});
  for (const Place& place : machine.places)
    descriptions.push_back(add(std::make_shared<Description>(machine, place)));
}

Topology::~Topology() {
  for (PJRT_DeviceDescription* d : descriptions) take<Description>(d);
}

namespace {

struct SerializedTopology : Object {
  using Handle = PJRT_SerializedTopology;
  static constexpr Kind kKind = Kind::serialized;
  std::string bytes;
};

void create(PJRT_TopologyDescription_Create_Args& a) {
  const std::string name(a.topology_name ? a.topology_name : "", a.topology_name ? a.topology_name_size : 0);
  a.topology = add(std::make_shared<Topology>(name, machine_from_topology(name)));
}

void destroy(PJRT_TopologyDescription_Destroy_Args& a) {
  if (!a.topology) return;
  if (get<Topology>(a.topology)->owned_by_client) registry::misuse("this topology belongs to its client");
  take<Topology>(a.topology);
}

void platform_name(PJRT_TopologyDescription_PlatformName_Args& a) {
  (void)get<Topology>(a.topology);
  a.platform_name = "tpu";
  a.platform_name_size = 3;
}

void platform_version(PJRT_TopologyDescription_PlatformVersion_Args& a) {
  const auto topology = get<Topology>(a.topology);
  a.platform_version = topology->version.c_str();
  a.platform_version_size = topology->version.size();
}

void descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args& a) {
  const auto topology = get<Topology>(a.topology);
  a.descriptions = topology->descriptions.data();
  a.num_descriptions = topology->descriptions.size();
}

void attributes(PJRT_TopologyDescription_Attributes_Args& a) {
  const auto topology = get<Topology>(a.topology);
  a.attributes = topology->attributes.data();
  a.num_attributes = topology->attributes.size();
}

void serialize(PJRT_TopologyDescription_Serialize_Args& a) {
  const auto topology = get<Topology>(a.topology);
  auto serialized = std::make_shared<SerializedTopology>();
  serialized->bytes = "fake-topology " + topology->name + "\n";
  for (const Place& place : topology->machine.places) serialized->bytes += place.debug() + "\n";
  a.serialized_bytes = serialized->bytes.data();
  a.serialized_bytes_size = serialized->bytes.size();
  a.serialized_topology = add(std::move(serialized));
  a.serialized_topology_deleter = [](PJRT_SerializedTopology* s) { take_quietly<SerializedTopology>(s); };
}

}  // namespace

void install_topologies(PJRT_Api& api) {
  FAKE_SET(PJRT_TopologyDescription_Create, create);
  FAKE_SET(PJRT_TopologyDescription_Destroy, destroy);
  FAKE_SET(PJRT_TopologyDescription_PlatformName, platform_name);
  FAKE_SET(PJRT_TopologyDescription_PlatformVersion, platform_version);
  FAKE_SET(PJRT_TopologyDescription_GetDeviceDescriptions, descriptions);
  FAKE_SET(PJRT_TopologyDescription_Attributes, attributes);
  FAKE_SET(PJRT_TopologyDescription_Serialize, serialize);
}

}  // namespace fake
