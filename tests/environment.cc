// Linked into every test program: tests neither use nor fill the cache and the error log of whoever runs
// them. A test of either names its own folder. The commands that tests start inherit it.
#include <cstdlib>

namespace {

[[maybe_unused]] const int no_cache = setenv("TPUBRIDGE_CACHE", "0", 0);
[[maybe_unused]] const int no_errors = setenv("TPUBRIDGE_ERROR_LOG", "0", 0);

}  // namespace
