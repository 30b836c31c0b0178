#include "tpubridge/pjrt/topology.h"

#include "tpubridge/capi/call.h"
#include "tpubridge/capi/convert.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

Topology::Topology(std::shared_ptr<Plugin> plugin, const std::string& name, const Values& options)
    : plugin_(std::move(plugin)) {
  const auto named = to_pjrt(options);
  PJRT_TopologyDescription_Create_Args args{};
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = named.data();
  args.num_options = named.size();
  call(plugin_->api(), &PJRT_Api::PJRT_TopologyDescription_Create, args);
  raw_ = {plugin_->api(), args.topology};
}

std::string Topology::platform_name() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_TopologyDescription_PlatformName);
  return {args.platform_name, args.platform_name_size};
}

std::vector<DeviceDescription> Topology::devices() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_TopologyDescription_GetDeviceDescriptions);
  std::vector<DeviceDescription> out;
  for (size_t i = 0; i < args.num_descriptions; ++i)
    out.push_back(describe(plugin_->api(), args.descriptions[i]));
  return out;
}

Executable Topology::compile(const Program& program, const CompileOptions& options) const {
  const std::string serialized = options.serialize();
  const PJRT_Program source = to_pjrt(program);
  PJRT_Compile_Args args{};
  args.topology = raw_.get();
  args.program = &source;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  call(plugin_->api(), &PJRT_Api::PJRT_Compile, args);
  return {plugin_, args.executable};
}

}  // namespace tpubridge::pjrt
