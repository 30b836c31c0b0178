// A plugin's file, before the dynamic loader is given it.
#include "tests/fuzz/target.h"
#include "tpubridge/plugin/load_check.h"

namespace tpubridge::fuzz {
namespace {

void look_at_library(std::string_view bytes) {
  const AsFile file(bytes);
  pjrt::check_library_file(file.path().string());
}
const Adds library_target{"library", look_at_library};

}  // namespace
}  // namespace tpubridge::fuzz
