// What the child tpubridge-aot answers, and the compiler's words for too little memory.
#include "tests/fuzz/target.h"
#include "tpubridge/aot/overflow.h"
#include "tpubridge/aot/protocol.h"

namespace tpubridge::fuzz {
namespace {

void read_answer(std::string_view bytes) {
  if (const auto o = aot::parse_overflow(bytes))
    require(o->needed >= 0 && o->available >= 0, "less than none");
  if (const auto n = aot::parse_bytes(bytes)) require(*n >= 0, "less than none");
  (void)aot::read_response(bytes, {});
}
const Adds answer_target{"aot_response", read_answer};

}  // namespace
}  // namespace tpubridge::fuzz
