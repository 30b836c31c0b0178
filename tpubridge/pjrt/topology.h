// A slice of devices that need not be here, to compile for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/pjrt/device.h"
#include "tpubridge/pjrt/executable.h"

namespace tpubridge::pjrt {

class Topology {
 public:
  // `name` is the plugin's own: "v5e:2x2" for libtpu. Throws UnsupportedError where the plugin has none.
  Topology(std::shared_ptr<Plugin> plugin, const std::string& name, const Values& options = {});

  [[nodiscard]] std::string platform_name() const;
  [[nodiscard]] std::vector<DeviceDescription> devices() const;
  [[nodiscard]] Executable compile(const Program& program, const CompileOptions& options) const;

 private:
  std::shared_ptr<Plugin> plugin_;
  Handle<PJRT_TopologyDescription> raw_;
};

}  // namespace tpubridge::pjrt
