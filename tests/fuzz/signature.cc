// What a program takes and gives, out of a plugin's HLO protobuf; deserialised programs come from files.
#include "tpubridge/capi/signature.h"

#include "tests/fuzz/target.h"
#include "tpubridge/capi/opcodes.h"

namespace tpubridge::fuzz {
namespace {

void read_signature(std::string_view bytes) {
  for (const char* format : {"hlo", "hlo_with_config", "mlir"}) {
    (void)pjrt::hlo_opcodes(bytes, format);
    if (const auto s = pjrt::hlo_signature(bytes, format))
      require(s->donated.size() == s->parameters.size(), "donations of no parameters");
  }
}
const Adds signature_target{"signature", read_signature};

}  // namespace
}  // namespace tpubridge::fuzz
