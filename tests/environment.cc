// Linked into every test program: tests neither use nor fill the cache of whoever runs them. A test of the
// cache names its own folder. The commands that tests start inherit it.
#include <cstdlib>

namespace {

[[maybe_unused]] const int no_cache = setenv("TPUBRIDGE_CACHE", "0", 0);

}  // namespace
