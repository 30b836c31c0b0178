# Writes version.cc with the commit of the sources; runs at every build and touches the file only if it differs.
execute_process(COMMAND git -C ${SOURCES} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[#include "tools/version.h"

namespace tpubridge::tools {

const std::string_view kVersion = "@VERSION@";
const std::string_view kCommit = "@commit@";

}  // namespace tpubridge::tools
]] @ONLY)
