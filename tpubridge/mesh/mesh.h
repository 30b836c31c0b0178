// Tensors over the devices of a mesh. A sharded tensor is an ordinary at::Tensor on the first device of its
// mesh whose elements lie on all of them, in parts; what is computed from it is one program over all these
// devices, which XLA's partitioner (Shardy) splits. Autograd, optimizers, compile() and checkpoints take it
// as any other.
//
//   tpubridge::Mesh mesh({{"data", 4}, {"model", 2}});
//   auto w = tpubridge::shard(weight, mesh, {tpubridge::none, "model"});
//   auto x = tpubridge::shard(batch, mesh, {"data"});
//   auto y = x.mm(w);                        // eight devices
//
// What is split how changes no value, up to the order of sums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/exec/grid.h"

namespace tpubridge {

// Devices of this process in a grid with named axes, the first axis outermost.
class Mesh {
 public:
  using Axis = std::pair<std::string, int64_t>;
  // `devices`: their indices, in the order of the grid; empty: the first ones. Throws TPUDistributedError
  // where there are not so many, or an axis is named twice.
  explicit Mesh(std::vector<Axis> axes, std::vector<int> devices = {});
  explicit Mesh(exec::GridPtr grid) : grid_(std::move(grid)) {}

  [[nodiscard]] const std::vector<Axis>& axes() const { return grid_->axes; }
  [[nodiscard]] int64_t size(std::string_view axis) const;  // throws where there is none
  [[nodiscard]] const std::vector<int>& devices() const { return grid_->devices; }
  [[nodiscard]] c10::Device device() const;  // where its tensors are, to torch: the first
  [[nodiscard]] std::string str() const;     // "data=4, model=2"
  [[nodiscard]] const exec::GridPtr& grid() const { return grid_; }
  bool operator==(const Mesh&) const = default;

 private:
  exec::GridPtr grid_;
};

// How one dimension is split: by an axis, by several (major first), or not at all.
struct None {};
inline constexpr None none{};
struct SplitBy {
  SplitBy(None) {}                                      // NOLINT: as it is written in a list
  SplitBy(const char* axis) : axes{axis} {}             // NOLINT
  SplitBy(std::string axis) : axes{std::move(axis)} {}  // NOLINT
  SplitBy(std::initializer_list<const char*> a) : axes(a.begin(), a.end()) {}  // NOLINT
  std::vector<std::string> axes;
  bool operator==(const SplitBy&) const = default;
};
// One for each dimension; those that are not named are not split.
using Split = std::vector<SplitBy>;

// The tensor in parts on the devices of the mesh. From the host each part goes straight to its device. A
// dimension whose size the axes do not divide throws TPUDistributedError.
[[nodiscard]] at::Tensor shard(const at::Tensor& tensor, const Mesh& mesh, const Split& split);
[[nodiscard]] at::Tensor replicate(const at::Tensor& tensor, const Mesh& mesh);  // all of it on each
// The same for a parameter that others hold: it stays the same tensor.
void shard_(at::Tensor& tensor, const Mesh& mesh, const Split& split);
// In the middle of what is computed: this value, laid out so. Its gradient, too.
[[nodiscard]] at::Tensor constrain(const at::Tensor& tensor, const Mesh& mesh, const Split& split);
// All of it on the first device of its mesh, and on no other.
[[nodiscard]] at::Tensor unshard(const at::Tensor& tensor);

struct Sharding {
  Mesh mesh;
  Split split;
  [[nodiscard]] std::string str() const;  // "data=4, model=2: [-, model]"
};
// How it lies; empty for a tensor of one device. Computes it where that is still to be done.
[[nodiscard]] std::optional<Sharding> sharding_of(const at::Tensor& tensor);

// What one device has of a sharded tensor.
struct Part {
  int device = 0;
  std::vector<int64_t> begin;  // where in the whole
  at::Tensor tensor;           // on the CPU
};
[[nodiscard]] std::vector<Part> parts_of(const at::Tensor& tensor);
// From what each device shall have, in the order of the mesh: no device and no host holds the whole.
[[nodiscard]] at::Tensor from_parts(const std::vector<at::Tensor>& parts, const Mesh& mesh,
                                    const Split& split);

}  // namespace tpubridge
