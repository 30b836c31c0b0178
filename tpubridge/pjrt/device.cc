#include "tpubridge/pjrt/device.h"

#include "tpubridge/capi/call.h"
#include "tpubridge/capi/convert.h"

namespace tpubridge::pjrt {

std::vector<int64_t> DeviceDescription::coords() const {
  const auto found = attributes.find("coords");
  if (found == attributes.end() || !std::holds_alternative<std::vector<int64_t>>(found->second)) return {};
  return std::get<std::vector<int64_t>>(found->second);
}

DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* raw) {
  const auto kind = ask(api, raw, &PJRT_Api::PJRT_DeviceDescription_Kind);
  const auto text = ask(api, raw, &PJRT_Api::PJRT_DeviceDescription_DebugString);
  const auto attributes = ask(api, raw, &PJRT_Api::PJRT_DeviceDescription_Attributes);
  return {ask(api, raw, &PJRT_Api::PJRT_DeviceDescription_Id).id,
          ask(api, raw, &PJRT_Api::PJRT_DeviceDescription_ProcessIndex).process_index,
          {kind.device_kind, kind.device_kind_size},
          {text.debug_string, text.debug_string_size},
          from_pjrt(attributes.attributes, attributes.num_attributes)};
}

const Memory* Device::memory(const std::string& kind) const {
  for (const auto* m : memories_)
    if (m->kind == kind) return m;
  return nullptr;
}

MemoryStats Device::memory_stats() const {
  const auto args = ask(api_, raw_, &PJRT_Api::PJRT_Device_MemoryStats);
  const auto maybe = [](int64_t v, bool is_set) { return is_set ? std::optional(v) : std::nullopt; };
  return {args.bytes_in_use,
          maybe(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
          maybe(args.bytes_limit, args.bytes_limit_is_set),
          maybe(args.num_allocs, args.num_allocs_is_set),
          maybe(args.largest_alloc_size, args.largest_alloc_size_is_set),
          maybe(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set)};
}

}  // namespace tpubridge::pjrt
