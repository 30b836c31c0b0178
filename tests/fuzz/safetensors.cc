// Tensors in .safetensors files.
#include <algorithm>

#include "tests/fuzz/target.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::fuzz {
namespace {

bool same(const HostTensor& a, const HostTensor& b) {
  return a.name == b.name && a.shape == b.shape && std::ranges::equal(a.bytes(), b.bytes());
}

void read_safetensors_file(std::string_view bytes) {
  const AsFile file(bytes);
  const TensorFile copied = read_safetensors(file.path()), mapped = read_safetensors(file.path(), Load::map);
  require(std::ranges::equal(copied.tensors, mapped.tensors, same), "a mapped file holds other tensors");
  const SafetensorsReader one_by_one(file.path());
  require(one_by_one.names().size() == copied.tensors.size(), "another number of tensors one by one");
  for (const auto& t : copied.tensors) {
    require(same(one_by_one.read(t.name), t), "a tensor that is another one by itself");
    require(static_cast<int64_t>(t.bytes().size()) == t.shape.bytes(), "a tensor of another size");
    require(copied.find(t.name) != nullptr, "a tensor that cannot be found");
  }
}
const Adds safetensors_target{"safetensors", read_safetensors_file};

}  // namespace
}  // namespace tpubridge::fuzz
