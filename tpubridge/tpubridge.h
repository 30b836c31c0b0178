// tpubridge: libtorch on TPUs (and on anything else that has a PJRT plugin).
//
//   torch::Device tpu("tpu");        // registered by linking the library
//   model->to(tpu);
//
// Ops are traced, not run; where a value is needed (item, cpu, print, sync) everything live becomes one
// program.
#pragma once

#include <torch/torch.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/kernels/kernels.h"
#include "tpubridge/load/load.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/quant/quantize.h"
#include "tpubridge/step/checkpoint.h"
#include "tpubridge/step/compile.h"

namespace tpubridge::detail {
// A linker that is told to leave out libraries of which nothing is called (--as-needed; some distributions'
// compilers always tell it so) would leave this one out, and the device with it.
[[gnu::used]] inline int64_t (*const keeps_the_library)() = &tpubridge_compile_count;
}  // namespace tpubridge::detail
