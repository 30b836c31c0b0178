// One target under libFuzzer: `make fuzz`.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tpubridge::fuzz::run(tpubridge::fuzz::targets().front(), {reinterpret_cast<const char*>(data), size});
  return 0;
}
