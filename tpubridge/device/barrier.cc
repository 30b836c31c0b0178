// One node over all tensors of a device.
#include "tpubridge/device/barrier.h"

#include <map>

#include "tpubridge/device/arguments.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {

std::vector<at::Tensor> barrier(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out = tensors;
  std::map<c10::DeviceIndex, std::vector<size_t>> places;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (is_tpu(tensors[i]) && tensors[i].numel() > 0) places[tensors[i].device().index()].push_back(i);
  exec::Lock lock(exec::mutex());
  for (const auto& [index, list] : places) {
    std::vector<at::Tensor> here;
    std::vector<Shape> shapes;
    for (size_t i : list) {
      here.push_back(tensors[i]);
      shapes.push_back(shape_of(tensors[i]));
    }
    Arguments a(here[0].device());
    a.tensors(here);
    if (exec::client().platform_name() == "cpu")
      a.number({1.0}, /*wide=*/false);
    else
      a.absent();
    static const lower::Row* row = lower::find("tpubridge::barrier");
    const auto values = std::move(a).record(row, std::move(shapes));
    for (size_t i = 0; i < list.size(); ++i)
      out[list[i]] = dense_tensor(values[i], here[i].scalar_type(), here[i].device());
    after_op(index);
  }
  return out;
}

}  // namespace tpubridge::device
