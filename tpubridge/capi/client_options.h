// Which options a client takes. Internal.
#pragma once

#include "tpubridge/capi/value.h"

namespace tpubridge::pjrt {

// Throws ArgumentError for a known option of the wrong type, since the plugin would abort.
void check_client_options(const Values& options);

}  // namespace tpubridge::pjrt
