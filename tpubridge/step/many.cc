// Many steps of one call: in one program where that is so many replays, else one by one.
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/step/engine.h"

namespace tpubridge::step {

struct Engine::Impl::Many {
  const std::vector<at::Tensor>& stacks;
  const std::vector<uint64_t>& others;
  const RunRow& run;
  std::shared_ptr<void>& form;
  const Before& before;
  bool or_nothing = false;  // nobody calls it step by step where it cannot be a loop
};

// What came of trying a loop.
struct Engine::Impl::Tried {
  std::optional<std::vector<at::Tensor>> results;  // empty: its steps are to be done one by one
  int64_t begun = 0;                               // for so many of them before() was called already
  // Whose numbers are known for the first so many of those: by then before() was called for later ones, too.
  Entry* entry = nullptr;
  size_t known = 0;
};

namespace {

using Tensors = std::vector<at::Tensor>;

[[noreturn]] void refuse(const std::string& what, Details details, const std::string& hint) {
  throw ArgumentError("many() " + what, std::move(details), hint);
}

// How many steps the stacks hold.
int64_t steps_of(const Tensors& stacks, int64_t steps_per_call) {
  std::optional<int64_t> steps;
  constexpr const char* kStack = "Stack the batches of the steps: torch::stack({batch0, batch1, …}).";
  for (size_t i = 0; i < stacks.size(); ++i) {
    const auto& t = stacks[i];
    if (!t.defined()) continue;
    const Details which{{"tensor", std::to_string(i)}, {"sizes", c10::str(t.sizes())}};
    if (t.dim() == 0) refuse("was given a tensor without a dimension of steps", which, kStack);
    if (t.requires_grad())
      refuse("was given a tensor that requires gradients, which would be of a row", which,
             "Detach it, or call the step for each row.");
    if (steps && *steps != t.size(0))
      refuse("was given tensors of different numbers of steps: " + std::to_string(*steps) + " and " +
                 std::to_string(t.size(0)),
             which, kStack);
    steps = t.size(0);
  }
  if (!steps && steps_per_call == 0)
    refuse("was given no tensor: how many steps it is to take is not known", {},
           "Set StepOptions::steps_per_call.");
  const int64_t all = steps.value_or(steps_per_call);
  if (all == 0) refuse("was given no step", {{"steps", "0"}}, kStack);
  if (steps_per_call > 0 && all % steps_per_call != 0)
    refuse("was given " + std::to_string(all) + " steps, which are no multiple of steps_per_call",
           {{"steps", std::to_string(all)}, {"steps_per_call", std::to_string(steps_per_call)}},
           "Give it a multiple of " + std::to_string(steps_per_call) +
               ", and the rest to a call of its own "
               "of a step without steps_per_call.");
  return all;
}

// The same elements, alone in their memory and in row-major order: as a program takes them.
at::Tensor alone(const at::Tensor& t) {
  const at::Tensor plain = t.resolve_conj().resolve_neg();
  {
    const exec::Lock lock(exec::mutex());
    const Storage& s = storage_of(plain);
    const auto want = trace::contiguous(plain.sizes().vec());
    if (plain.is_contiguous() && plain.storage_offset() == 0 && s.nbytes() == plain.nbytes() &&
        s.slot.value() && *s.geometry == want)
      return plain;
  }
  return plain.clone(at::MemoryFormat::Contiguous);
}

// The steps [from, from + rounds) of each.
Tensors part_of(const Tensors& stacks, int64_t from, int64_t rounds) {
  const at::NoGradGuard quiet;
  Tensors out;
  for (const auto& t : stacks) {
    if (!t.defined()) {
      out.emplace_back();
      continue;
    }
    const at::Tensor part = t.size(0) == rounds ? t : t.narrow(0, from, rounds);
    out.push_back(is_tpu(part) ? alone(part) : part.resolve_conj().resolve_neg().contiguous());
  }
  return out;
}

// What the arguments of a single call look like; they hold nothing.
Tensors like_rows(const Tensors& stacks) {
  const at::NoGradGuard quiet;
  Tensors out;
  for (const auto& t : stacks)
    out.push_back(t.defined() ? at::empty(t.sizes().slice(1), t.options()) : at::Tensor());
  return out;
}

// The arguments of a single call, in memory of their own, as ordinary calls have them.
Tensors row_of(const Tensors& stacks, int64_t i) {
  const at::NoGradGuard quiet;
  Tensors out;
  for (size_t k = 0; k < stacks.size(); ++k) {
    const auto& t = stacks[k];
    const auto same = std::find_if(stacks.begin(), stacks.begin() + static_cast<int64_t>(k),
                                   [&](const at::Tensor& before) { return before.is_same(t); });
    if (!t.defined())
      out.emplace_back();
    else if (same != stacks.begin() + static_cast<int64_t>(k))
      out.push_back(out[static_cast<size_t>(same - stacks.begin())]);
    else
      out.push_back(t.select(0, i).resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous));
  }
  return out;
}

// A step may write to its arguments: the rows that it was given are ours, the stacks the caller's.
void put_back(const Tensors& stacks, int64_t i, const Tensors& row, const std::vector<uint32_t>& versions) {
  const at::NoGradGuard quiet;
  for (size_t k = 0; k < row.size(); ++k)
    if (row[k].defined() && version_of(*row[k].unsafeGetTensorImpl()) != versions[k])
      stacks[k].select(0, i).copy_(row[k]);
}

std::vector<uint32_t> versions_of(const Tensors& row) {
  std::vector<uint32_t> out;
  for (const auto& t : row) out.push_back(t.defined() ? version_of(*t.unsafeGetTensorImpl()) : 0);
  return out;
}

// What the calls gave, by result.
class Results {
 public:
  void add(const Tensors& given, int64_t step) {
    const at::NoGradGuard quiet;
    if (step == 0) columns_.resize(given.size());
    bool alike = columns_.size() == given.size();
    for (size_t i = 0; alike && i < given.size(); ++i) {
      const auto& first = columns_[i].empty() ? given[i] : columns_[i][0];
      alike =
          first.defined() == given[i].defined() &&
          (!first.defined() || (first.sizes() == given[i].sizes() && first.device() == given[i].device() &&
                                first.scalar_type() == given[i].scalar_type()));
      // The next step may write to it.
      if (alike) columns_[i].push_back(given[i].defined() ? given[i].clone() : given[i]);
    }
    if (!alike)
      refuse("cannot stack the results: those of step " + std::to_string(step) + " differ in shape or type",
             {{"step", std::to_string(step)}}, "The steps up to this one were taken.");
  }
  [[nodiscard]] Tensors stacked() const {
    const at::NoGradGuard quiet;
    Tensors out;
    for (const auto& c : columns_) out.push_back(c[0].defined() ? at::stack(c) : at::Tensor());
    return out;
  }

 private:
  std::vector<Tensors> columns_;
};

// What goes wrong says in which step it did.
template <class F>
void in_step(int64_t step, F f) {
  try {
    f();
  } catch (Error& e) {
    e.add({{"step of many()", std::to_string(step)}});
    throw;
  } catch (c10::Error& e) {
    e.add_context("in step " + std::to_string(step) + " of many()");
    throw;
  }
}

constexpr int kRefusals = 3;  // after so many in a row it is said once

}  // namespace

void Engine::Impl::say_single(std::string_view why, bool settled) {
  {
    const std::lock_guard lock(why_mutex);
    why_single = why;
  }
  refusals_ = settled ? refusals_ + 1 : 0;
  if (refusals_ == kRefusals && !warned_single_) {
    warned_single_ = true;
    TORCH_WARN("tpubridge: many() of the compiled step '", options.name, "' calls it step by step: ", why);
  }
}

void Engine::Impl::refuse_before(const Many& many, int64_t step, std::string_view changed) {
  changing_.insert(many.before.target_type());
  refuse("cannot be one program: what happens before step " + std::to_string(step) +
             " changes what steps take: " + std::string(changed),
         {{"step", std::to_string(step)}},
         "None of the steps of this program was taken, but that function was called for all up to this one. "
         "From now on steps are called one by one with such a function, each after its call; or pass what "
         "changes as an argument, with a row for each step.");
}

// Calls before() for the first step, and notes where that changes what the step takes: then it does so before
// the others, too. Gives the entry of that step where it may be part of a loop.
Engine::Impl::Tried Engine::Impl::loop_begun(const Many& many, int64_t from, const Tensors& stacks) {
  Tried out;
  const Tensors like = like_rows(stacks);
  std::vector<std::pair<const Entry*, Taken>> taken;
  if (many.before) {
    for (const auto& e : entries)
      if (e.replay) taken.emplace_back(&e, e.replay->taken(stacks));
    if (many.or_nothing && taken.empty()) {
      say_single("it was not replayed yet", /*settled=*/false);
      return out;
    }
    in_step(from, [&] { many.before(from); });
    out.begun = 1;
  }
  Entry& e = entry(guard(like, many.others), like, many.others.size());
  if (!e.replay) {
    const std::string why = e.last && !e.last->trouble.empty() ? e.last->trouble : "it was not replayed yet";
    say_single(why, /*settled=*/false);
    return out;
  }
  for (const auto& [which, then] : taken) {
    const std::string_view changed = which == &e ? changes(then, e.replay->taken(stacks)) : "";
    if (changed.empty()) continue;
    if (many.or_nothing) refuse_before(many, from, changed);
    changing_.insert(many.before.target_type());
    say_single("what happens before a step changes what it takes: " + std::string(changed), /*settled=*/true);
    return out;
  }
  out.entry = &e;
  return out;
}

Engine::Impl::Tried Engine::Impl::loop(const Many& many, int64_t from, int64_t rounds) {
  if (many.before && changing_.contains(many.before.target_type())) {
    say_single("what happens before a step changes what it takes", /*settled=*/true);
    return {};
  }
  const Tensors stacks = part_of(many.stacks, from, rounds);
  Tried out = loop_begun(many, from, stacks);
  if (!out.entry) return out;
  Entry& e = *out.entry;
  Replay::Enter enter;
  if (many.before)
    enter = [&, like = like_rows(stacks)](int64_t i) {
      in_step(from + i, [&] { many.before(from + i); });
      ++out.begun;
      return guard(like, many.others) == e.guard;
    };
  out.results = e.replay->run_many(stacks, rounds, enter);
  if (!out.results) {
    if (const auto changed = e.replay->changed(); !changed.empty())
      refuse_before(many, from + out.begun - 1, changed);
    out.known = e.replay->rounds();
    say_single(e.replay->why_not(), /*settled=*/true);
    return out;
  }
  say_single({}, /*settled=*/false);
  calls += rounds, replayed += rounds, looped += rounds;
  many.form = e.form;
  const at::NoGradGuard quiet;
  for (auto& t : *out.results)
    if (t.defined()) t = t.contiguous();
  return out;
}

Tensors Engine::Impl::one_by_one(const Many& many, int64_t from, int64_t rounds, const Tried& tried) {
  std::vector<Tensors> rows;
  for (int64_t i = 0; i < rounds; ++i) rows.push_back(row_of(many.stacks, from + i));
  Results results;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto place = static_cast<size_t>(i);
    const Tensors row = std::move(rows[place]);
    const auto versions = versions_of(row);
    in_step(from + i, [&] {
      if (place < tried.known) {
        const auto given = tried.entry->replay->run_round(row, place);
        if (!given)
          refuse(
              "cannot go on: what happened before later steps, or on another thread, changed what this one "
              "takes",
              {{"changed", std::string(tried.entry->replay->why_not())}},
              "The steps before it were taken. Call steps one by one, or pass what changes as an argument.");
        ++calls, ++replayed;
        many.form = tried.entry->form;
        return results.add(*given, i);
      }
      if (many.before && i >= tried.begun) many.before(from + i);
      const auto given = call(
          row, many.others, [&] { return many.run(row); }, many.form);
      put_back(many.stacks, from + i, row, versions);
      results.add(given, i);
    });
  }
  return results.stacked();
}

std::optional<Tensors> Engine::loop(const Tensors& stacks, const std::vector<uint64_t>& others,
                                    const RunRow& run, std::shared_ptr<void>& form, const Before& before) {
  Impl& m = *impl_;
  const int64_t steps = steps_of(stacks, 0);
  if (recording() || exec::eager()) return std::nullopt;
  const std::lock_guard lock(m.mutex);
  return m.loop({stacks, others, run, form, before, /*or_nothing=*/true}, 0, steps).results;
}

Tensors Engine::many(const Tensors& stacks, const std::vector<uint64_t>& others, const RunRow& run,
                     std::shared_ptr<void>& form, const Before& before) {
  Impl& m = *impl_;
  const int64_t steps = steps_of(stacks, m.options.steps_per_call);
  if (recording() || exec::eager()) {  // part of an outer step, or of a search for a fault
    m.tracer.join_outer();
    Results results;
    for (int64_t i = 0; i < steps; ++i) {
      if (before) before(i);
      Tensors row;
      for (const auto& t : stacks) row.push_back(t.defined() ? t.select(0, i) : t);
      results.add(run(row), i);
    }
    return results.stacked();
  }
  const std::lock_guard lock(m.mutex);
  const Impl::Many all{stacks, others, run, form, before};
  const int64_t rounds = m.options.steps_per_call > 0 ? m.options.steps_per_call : steps;
  std::vector<Tensors> windows;
  for (int64_t from = 0; from < steps; from += rounds) {
    auto tried = rounds > 1 ? m.loop(all, from, rounds) : Impl::Tried();
    windows.push_back(tried.results ? std::move(*tried.results) : m.one_by_one(all, from, rounds, tried));
    if (windows.back().size() != windows.front().size())
      refuse("cannot join the results: their number changed", {{"step", std::to_string(from)}}, "");
  }
  if (windows.size() == 1) return std::move(windows.front());
  const at::NoGradGuard quiet;
  Tensors out;
  for (size_t i = 0; i < windows.front().size(); ++i) {
    Tensors parts;
    for (const auto& w : windows) parts.push_back(w[i]);
    out.push_back(parts.front().defined() ? at::cat(parts) : at::Tensor());
  }
  return out;
}

}  // namespace tpubridge::step
