// Outlines of the programs compiled so far, and their comparison.
#include "tpubridge/exec/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <span>

#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

constexpr size_t kOutlines = 64, kNotes = 256, kDifferences = 4;

using trace::Outline;
using OutlinePtr = std::shared_ptr<const Outline>;

struct History {
  std::deque<OutlinePtr> outlines;
  std::deque<Recompile> notes;
  int64_t compiles = 0;
};
History& history() {
  static auto* h = new History;
  return *h;
}

std::span<const uint32_t> operands_of(const Outline& o, size_t op) {
  const size_t begin = op == 0 ? 0 : o.places.ends[op - 1];
  return std::span(o.places.operands).subspan(begin, o.places.ends[op] - begin);
}

// For each input the op that reads it first.
std::vector<size_t> input_users(const Outline& o) {
  std::vector<size_t> out;
  for (size_t i = 0; i < o.ops.size(); ++i)
    for (const uint32_t word : operands_of(o, i))
      if (word == trace::Places::kLeaf) out.push_back(i);
  return out;
}

bool same_op(const trace::SpecPtr& a, const trace::SpecPtr& b) { return a->op == b->op; }

size_t common_start(const Outline& a, const Outline& b) {
  const auto [end, other] = std::mismatch(a.ops.begin(), a.ops.end(), b.ops.begin(), b.ops.end(), same_op);
  return static_cast<size_t>(end - a.ops.begin());
}

size_t common_end(const Outline& a, const Outline& b, size_t start) {
  const size_t most = std::min(a.ops.size(), b.ops.size()) - start;
  size_t n = 0;
  while (n < most && same_op(a.ops[a.ops.size() - 1 - n], b.ops[b.ops.size() - 1 - n])) ++n;
  return n;
}

std::string changed(const Shape& from, const Shape& to) {
  std::string text = fmt::format("{} instead of {}", to.str(), from.str());
  if (from.dtype != to.dtype) return text + " (element type)";
  if (from.rank() != to.rank()) return text + " (number of dimensions)";
  std::vector<std::string> dims;
  for (size_t i = 0; i < from.dims.size(); ++i)
    if (from.dims[i] != to.dims[i])
      dims.push_back(fmt::format("dimension {}: {} → {}", i, from.dims[i], to.dims[i]));
  return fmt::format("{} ({})", text, fmt::join(dims, ", "));
}

std::string text_of(const trace::Arg& arg) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "none";
        else if constexpr (std::is_same_v<T, trace::Ref>)
          return v.operand < 0 ? "no tensor" : "a tensor or number";
        else if constexpr (std::is_same_v<T, std::vector<trace::Ref>>)
          return fmt::format("{} tensors", v.size());
        else if constexpr (std::is_same_v<T, DType>)
          return std::string(name(v));
        else
          return fmt::format("{}", v);
      },
      arg);
}

std::string place(size_t i, const Outline& o) {
  return fmt::format("op {} of {}, {}", i + 1, o.ops.size(), o.ops[i]->op->name);
}

// Differences between two outlines with the same ops in the same order.
std::vector<std::string> compare_details(const Outline& a, const Outline& b) {
  std::vector<std::string> found;
  if (a.leaves.size() == b.leaves.size()) {
    const auto users = input_users(b);
    for (size_t i = 0; i < a.leaves.size(); ++i)
      if (a.leaves[i] != b.leaves[i])
        found.push_back(fmt::format("input {}, first read by {}: {}", i, place(users[i], b),
                                    changed(a.leaves[i], b.leaves[i])));
  } else {
    found.push_back(fmt::format(
        "{} inputs instead of {}: values that were computed inside are ready outside, or the other way round",
        b.leaves.size(), a.leaves.size()));
  }
  if (!found.empty()) return found;  // what follows from other inputs need not be told
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const auto &x = *a.ops[i], &y = *b.ops[i];
    for (size_t k = 0; k < std::min(x.args.size(), y.args.size()); ++k)
      if (!trace::same_arg(x.args[k], y.args[k]))
        found.push_back(fmt::format("{}: constant argument {} is {} instead of {}", place(i, b), k,
                                    text_of(y.args[k]), text_of(x.args[k])));
    if (!found.empty()) return found;
    for (size_t k = 0; k < std::min(x.shapes.size(), y.shapes.size()); ++k)
      if (x.shapes[k] != y.shapes[k])
        found.push_back(
            fmt::format("{}: result {} is {}", place(i, b), k, changed(x.shapes[k], y.shapes[k])));
    if (x.common != y.common)
      found.push_back(
          fmt::format("{}: operands meet in {} instead of {}", place(i, b), name(y.common), name(x.common)));
    if (!std::ranges::equal(operands_of(a, i), operands_of(b, i)))
      found.push_back(fmt::format("{}: reads another value", place(i, b)));
    if (!found.empty()) return found;
  }
  if (a.places.roots.size() != b.places.roots.size())
    found.push_back(
        fmt::format("{} results instead of {}: more or fewer of its values are still held by tensors",
                    b.places.roots.size() / 2, a.places.roots.size() / 2));
  if (found.empty())
    found.push_back("the same ops and shapes: other values are held by tensors, or another device");
  return found;
}

std::vector<std::string> compare(const Outline& a, const Outline& b) {
  const size_t start = common_start(a, b);
  if (start == a.ops.size() && start == b.ops.size()) return compare_details(a, b);
  const size_t end = common_end(a, b, start);
  auto list = [&](const Outline& o) {
    std::vector<std::string_view> names;
    for (size_t i = start; i < o.ops.size() - end && names.size() < 6; ++i)
      names.push_back(o.ops[i]->op->name);
    const size_t n = o.ops.size() - end - start;
    return n == 0 ? std::string("nothing")
                  : fmt::format("{}{}", fmt::join(names, ", "),
                                n > names.size() ? fmt::format(" and {} more", n - names.size()) : "");
  };
  return {
      fmt::format("after {} equal ops: {} instead of {}; then {} equal ops", start, list(b), list(a), end)};
}

// What to write instead, where the same ops came with a third size: the program of each is its own.
std::string advice(const Outline& o) {
  const Outline* last = nullptr;
  size_t sizes = 0;
  for (const auto& other : history().outlines) {
    if (other->leaves.size() != o.leaves.size() || common_start(*other, o) != o.ops.size() ||
        other->ops.size() != o.ops.size() || other->leaves == o.leaves)
      continue;
    last = other.get();
    ++sizes;
  }
  if (sizes < 2) return {};
  const auto users = input_users(o);
  for (size_t i = 0; i < o.leaves.size(); ++i) {
    const auto &before = last->leaves[i].dims, &now = o.leaves[i].dims;
    const auto [was, is] = std::ranges::mismatch(before, now);
    if (before.size() != now.size() || is == now.end()) continue;
    if (*is > *was && o.ops[users[i]]->op->name == "cat")
      return "it grows by cat, and each length is a program of its own: keep a tensor of the final length, "
             "write into it (index_copy_, or copy_ to a slice), and mask what is not there yet";
    if (*is > 0 && *is < (int64_t{1} << 40))
      return fmt::format(
          "each size is a program of its own: pad to a few fixed sizes ({} here) and mask what was added",
          std::bit_ceil(static_cast<uint64_t>(*is)));
  }
  return {};
}

// The earlier outline that shares most ops at its two ends; none where less than half is shared.
const Outline* nearest(const Outline& o) {
  const Outline* best = nullptr;
  size_t most = o.ops.size() / 2;
  for (const auto& other : history().outlines) {
    const size_t start = common_start(*other, o);
    const size_t shared = start + common_end(*other, o, start);
    if (shared >= std::max<size_t>(most, 1)) {
      most = shared;
      best = other.get();
    }
  }
  return best;
}

}  // namespace

void exec::note_compile(OutlinePtr o, std::string_view reason, double seconds, std::string_view difference) {
  auto& h = history();
  Recompile note{++h.compiles, std::string(reason), o->ops.size(), seconds, {}, {}};
  if (!difference.empty())
    note.differences.emplace_back(difference);
  else if (const Outline* before = nearest(*o))
    note.differences = compare(*before, *o), note.advice = advice(*o);
  if (note.differences.size() > kDifferences) {
    const size_t more = note.differences.size() - kDifferences;
    note.differences.resize(kDifferences);
    note.differences.push_back(fmt::format("and {} more of that kind", more));
  }
  h.notes.push_back(std::move(note));
  h.outlines.push_back(std::move(o));
  if (h.notes.size() > kNotes) h.notes.pop_front();
  if (h.outlines.size() > kOutlines) h.outlines.pop_front();
}

std::vector<Recompile> recompiles() {
  exec::Lock lock(exec::mutex());
  return {history().notes.begin(), history().notes.end()};
}

std::string explain() {
  std::string text;
  for (const auto& r : recompiles()) {
    text += fmt::format("compile {} ({} ops, {:.2f} s, for {}): ", r.number, r.ops, r.seconds, r.reason);
    if (r.differences.empty()) text += "no earlier program is like it\n";
    if (r.differences.size() == 1) text += r.differences[0] + "\n";
    if (r.differences.size() > 1) text += fmt::format("\n  {}\n", fmt::join(r.differences, "\n  "));
    if (!r.advice.empty()) text += "  " + r.advice + "\n";
  }
  return text.empty() ? "nothing was compiled\n" : text;
}

}  // namespace tpubridge
