#include "tpubridge/exec/families.h"

#include <algorithm>
#include <list>

#include "tpubridge/lower/program.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Loose;

struct Family {
  Key hash;
  std::shared_ptr<const trace::Outline> first;  // the numbers that are constants in all its programs
  Mode mode;
  std::shared_ptr<const Compiled> program = nullptr;  // with inputs; null while there was one graph alone
  int widened = 0;
};

constexpr size_t kFamilies = 128;
constexpr int kWidenings = 3;  // after that every loose number becomes an input

size_t capacity = kFamilies;

std::list<Family>& families() {
  static auto* all = new std::list<Family>;  // most recent first; executables must not die with statics
  return *all;
}

Family* family_of(const Graph& graph, const Mode& mode) {
  const Key hash = trace::family_hash(graph);
  auto& all = families();
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it->hash != hash || it->mode != mode || !trace::same_family(graph, *it->first)) continue;
    all.splice(all.begin(), all, it);
    return &all.front();
  }
  return nullptr;
}

std::vector<Loose> differing(const Graph& graph, const trace::Outline& first) {
  std::vector<Loose> out;
  for (const Loose& l : trace::loose_of(graph))
    if (!trace::same_arg(arg_of(graph, l), arg_of(first, l))) out.push_back(l);
  return out;
}

bool all_can(const Graph& graph, const std::vector<Loose>& inputs) {
  return std::ranges::all_of(inputs, [&](const Loose& l) { return lower::can_be_input(graph, l); });
}

void trim() {
  while (families().size() > capacity) families().pop_back();
}

}  // namespace

void set_family_capacity(size_t programs) {
  capacity = std::min(programs, kFamilies);
  trim();
}

FamilyAnswer find_family(const Graph& graph, const Mode& mode) {
  Family* f = family_of(graph, mode);
  if (!f) return {};
  std::vector<Loose> inputs = differing(graph, *f->first);
  if (f->program) {
    const auto& known = f->program->inputs;
    if (std::ranges::includes(known, inputs) && all_can(graph, known)) return {f->program};
    std::vector<Loose> both;
    std::ranges::set_union(known, inputs, std::back_inserter(both));
    inputs = std::move(both);
  }
  // What cannot be an input is a constant of a program of this graph alone.
  if (!all_can(graph, inputs)) return {};
  if (f->widened >= kWidenings) {
    inputs = trace::loose_of(graph);
    std::erase_if(inputs, [&](const Loose& l) { return !lower::can_be_input(graph, l); });
  }
  return {nullptr, std::move(inputs)};
}

void join_family(const Graph& graph, std::shared_ptr<const trace::Outline> outline, const Mode& mode,
                 std::shared_ptr<const Compiled> compiled) {
  auto& all = families();
  if (Family* f = family_of(graph, mode)) {
    // Every other number is the first one's: also where another thread came first.
    if (compiled->inputs.empty() || !std::ranges::includes(compiled->inputs, differing(graph, *f->first)))
      return;
    f->program = std::move(compiled);
    ++f->widened;
    return;
  }
  if (trace::loose_of(graph).empty()) return;
  all.push_front({trace::family_hash(graph), std::move(outline), mode});
  trim();
}

}  // namespace tpubridge::exec
