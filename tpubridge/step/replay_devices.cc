// Replays of programs over several devices.
#include "tpubridge/exec/spread.h"
#include "tpubridge/step/replay.h"

namespace tpubridge::step {

using trace::Value;

std::vector<pjrt::Buffer> Replay::execute_everywhere(const exec::Compiled& compiled) {
  std::vector<Runner::Input> leaves;
  for (size_t i = 0; i < r_.leaves; ++i) {
    if (r_.split[i])
      leaves.push_back({nullptr, r_.sources[i].argument});
    else if (known_[i].node)
      leaves.push_back({known_[i].owner.lock()});
    else
      leaves.push_back({value_of(i)->data(value_of(i).index())});
  }
  std::vector<std::vector<const pjrt::Buffer*>> packs;
  for (const auto& pack : packs_) {
    auto& of_one = packs.emplace_back();
    for (const auto& b : pack.buffers) of_one.push_back(&b);
  }
  return runner_->run(compiled, leaves, packs, keep_);
}

// Whether what it takes lies on the devices as it did when the program was compiled.
bool Replay::lies_as_compiled() const {
  if (!exec::any_grid() || runner_) return true;
  const auto* plan = r_.compiled->spreading.get();
  for (size_t i = 0; i < r_.leaves; ++i) {
    const Value& v = value_of(i);
    if (!exec::lies_so(exec::data_of(*v.node(), v.index()), plan, i)) return false;
  }
  return true;
}

std::vector<pjrt::Buffer> Replay::execute_over(const exec::Compiled& compiled) {
  std::vector<exec::GivenLeaf> leaves;
  for (size_t i = 0; i < r_.leaves; ++i)
    leaves.push_back({value_of(i)->data(value_of(i).index()), value_of(i).shape()});
  std::vector<const std::vector<pjrt::Buffer>*> numbers;
  for (const auto& pack : packs_) numbers.push_back(&pack.buffers);
  std::vector<const Shape*> shapes;
  for (const auto& result : r_.results) shapes.push_back(&result->shapes[0]);
  auto results = exec::run_over(compiled, leaves, numbers, shapes, keep_);
  rest_ = std::move(results.rest);
  return std::move(results.first);
}

void Replay::keep_everywhere() {
  std::vector<Runner::Kept> kept;
  for (const auto& t : r_.targets)
    if (t.kind == Target::Kind::captured && t.is_root && !t.storage.expired())
      kept.push_back({t.from, t.identity->slot.value()});
  runner_->keep(kept);
}

}  // namespace tpubridge::step
