// A tensor in a .npy file.
#include "tests/fuzz/target.h"
#include "tpubridge/base/npy_header.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::fuzz {
namespace {

void read_npy_file(std::string_view bytes) {
  std::string problem;
  if (!parse_npy_header(bytes, problem)) require(!problem.empty(), "refused without a reason");
  const AsFile file(bytes);
  const HostTensor t = read_npy(file.path());
  require(static_cast<int64_t>(t.bytes().size()) == t.shape.bytes(), "a tensor of another size");
}
const Adds npy_target{"npy", read_npy_file};

}  // namespace
}  // namespace tpubridge::fuzz
