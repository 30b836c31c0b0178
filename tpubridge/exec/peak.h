// The peak of device_memory() (ledger.h), begun anew at what is live now. The peak of all devices together,
// which metrics() tells, is left alone.
#pragma once

namespace tpubridge {

void reset_peak_memory(int device = 0);

}  // namespace tpubridge
