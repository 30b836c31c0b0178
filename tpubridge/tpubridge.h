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
#include "tpubridge/optim/optim.h"
#include "tpubridge/step/checkpoint.h"
#include "tpubridge/step/compile.h"
