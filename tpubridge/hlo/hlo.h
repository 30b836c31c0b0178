// The whole builder: include this to build a program.
#pragma once

#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/constant.h"
#include "tpubridge/hlo/convolution.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/linalg.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/shape_ops.h"
#include "tpubridge/hlo/sharding.h"
#include "tpubridge/hlo/value.h"
