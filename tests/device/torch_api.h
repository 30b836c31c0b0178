// The precompiled header of the device tests: the whole C++ API, as a user includes it.
#pragma once

#include <torch/torch.h>
