#include "tpubridge/trace/rebuilt.h"

#include "tpubridge/base/errors.h"

namespace tpubridge::trace {

Rebuilt rebuilt(const Outline& outline, std::span<const Number> numbers) {
  Rebuilt out;
  std::vector<Value> places;  // by place: a node's first value
  size_t next_leaf = 0, next_number = 0, at = 0;
  const auto& words = outline.places.operands;
  const auto add = [&](Value v) { places.push_back(out.held.emplace_back(std::move(v))); };
  for (size_t op = 0; op < outline.ops.size(); ++op) {
    std::vector<Value> operands;
    while (at < outline.places.ends[op]) {
      if (words[at] == Places::kLeaf) {
        add(Node::leaf(nullptr, outline.leaves.at(next_leaf++), outline.device));
        ++at;
      } else if (words[at] == Places::kNumber) {
        if (next_number == numbers.size()) throw ProgramError("a graph with more numbers than were given");
        add(Node::number(numbers[next_number++], outline.device));
        at += 2;
      }
      operands.emplace_back(places.at(words[at]).node(), words[at + 1]);
      at += 2;
    }
    add(Node::make(outline.ops[op], operands, outline.device));
  }
  std::vector<Value> roots;
  for (size_t i = 0; i < outline.places.roots.size(); i += 2)
    roots.emplace_back(places.at(outline.places.roots[i]).node(), outline.places.roots[i + 1]);
  out.graph = collect(std::move(roots), /*held_too=*/false);
  if (!matches(out.graph, outline)) throw ProgramError("a graph that was made again is another one");
  return out;
}

}  // namespace tpubridge::trace
