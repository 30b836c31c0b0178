#include "tpubridge/pjrt/device.h"

#include "tpubridge/pjrt/api.h"

namespace tpubridge::pjrt {

std::vector<int64_t> DeviceDescription::coords() const {
  const auto found = attributes.find("coords");
  if (found == attributes.end() || !std::holds_alternative<std::vector<int64_t>>(found->second)) return {};
  return std::get<std::vector<int64_t>>(found->second);
}

DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* raw) {
  DeviceDescription out;
  PJRT_DeviceDescription_Id_Args id{};
  id.device_description = raw;
  call(api, &PJRT_Api::PJRT_DeviceDescription_Id, id);
  out.id = id.id;
  PJRT_DeviceDescription_ProcessIndex_Args process{};
  process.device_description = raw;
  call(api, &PJRT_Api::PJRT_DeviceDescription_ProcessIndex, process);
  out.process_index = process.process_index;
  PJRT_DeviceDescription_Kind_Args kind{};
  kind.device_description = raw;
  call(api, &PJRT_Api::PJRT_DeviceDescription_Kind, kind);
  out.kind.assign(kind.device_kind, kind.device_kind_size);
  PJRT_DeviceDescription_DebugString_Args text{};
  text.device_description = raw;
  call(api, &PJRT_Api::PJRT_DeviceDescription_DebugString, text);
  out.debug_string.assign(text.debug_string, text.debug_string_size);
  PJRT_DeviceDescription_Attributes_Args attributes{};
  attributes.device_description = raw;
  call(api, &PJRT_Api::PJRT_DeviceDescription_Attributes, attributes);
  out.attributes = from_named(attributes.attributes, attributes.num_attributes);
  return out;
}

const Memory* Device::memory(const std::string& kind) const {
  for (const auto* m : memories_)
    if (m->kind == kind) return m;
  return nullptr;
}

MemoryStats Device::memory_stats() const {
  PJRT_Device_MemoryStats_Args args{};
  args.device = raw_;
  call(api_, &PJRT_Api::PJRT_Device_MemoryStats, args);
  const auto maybe = [](int64_t v, bool is_set) { return is_set ? std::optional(v) : std::nullopt; };
  return {args.bytes_in_use,
          maybe(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
          maybe(args.bytes_limit, args.bytes_limit_is_set),
          maybe(args.num_allocs, args.num_allocs_is_set),
          maybe(args.largest_alloc_size, args.largest_alloc_size_is_set),
          maybe(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set)};
}

}  // namespace tpubridge::pjrt
