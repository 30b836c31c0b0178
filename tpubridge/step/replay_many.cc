// Many replays as one program: a loop whose body is the program of one, over state that goes from round to
// round. What a replay works out on the host (counts and rates of optimizers, places of generators) is worked
// out for each round in turn, and travels as rows of numbers.
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/host_kernels.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/lower/runs_here.h"
#include "tpubridge/step/replay.h"
#include "tpubridge/trace/rebuilt.h"

namespace tpubridge::step {
namespace {

using trace::Value;

Shape with_rows(const Shape& shape, int64_t rounds) {
  Shape out = shape;
  out.dims.insert(out.dims.begin(), rounds);
  return out;
}

// The next call finds the gradient as this one must have found it.
bool comes_round(const GradientSlot& s) {
  using Start = GradientSlot::Start;
  using End = GradientSlot::End;
  if (s.start == Start::any) return true;
  if (s.start == Start::undefined) return s.end != End::assigned;
  return s.end == End::same;
}

// Every parameter with a count counts the same in each call, so that equal counts stay equal.
bool counts_alike(const std::vector<FollowedStep>& steps) {
  for (const auto& o : steps) {
    if (o.ahead != 0 || !class_of(*o.optimizer)->step) continue;
    if (o.counted.empty() || o.counted.size() != o.optimizer->state().size()) return false;
    for (const auto& c : o.counted)
      if (c.steps != o.counted[0].steps) return false;
  }
  return true;
}

}  // namespace

// Why its calls cannot be a loop, whatever they are given; empty where they can.
std::string_view Replay::cannot_loop() const {
  if (runner_ || r_.compiled->spreading) return "it runs over several devices";
  if (r_.compiled->may_fail) return "an op of the user's own in it may fail";
  if (r_.sources.size() != r_.leaves) return "it passes a tensor on that it did not compute";
  for (const auto& t : r_.targets) {
    if (t.kind == Target::Kind::argument) return "it writes to one of its arguments";
    if (!t.is_root) return "it passes a tensor on that it did not compute";
  }
  for (uint32_t writes : r_.argument_writes)
    if (writes != 0) return "it writes to one of its arguments";
  for (const auto& s : r_.sources) {
    const bool argument = s.kind == Source::Kind::argument;
    if (argument && *s.geometry != trace::contiguous(s.shape->dims))
      return "an argument lies in memory in another order";
    if (s.kind == Source::Kind::gradient && r_.slots[s.argument].variable.argument)
      return "it reads the gradient of an argument";
  }
  for (const auto& s : r_.slots)
    if (!comes_round(s))
      return "a gradient is there after the first call that was not there before it, or is another";
  for (const auto& g : r_.returned) {
    if (g.kind == Given::Kind::undefined) continue;
    if (g.kind == Given::Kind::source) return "it returns a tensor that it did not compute";
    const Target& t = r_.targets[g.from];
    const Shape& shape = r_.results[t.from]->shapes[0];
    if (*t.geometry != trace::contiguous(shape.dims) || t.bytes != static_cast<size_t>(shape.bytes()) ||
        t.bytes % c10::elementSize(g.dtype) != 0)
      return "a result lies in memory in another order";
  }
  if (!counts_alike(r_.optimizers)) return "not all parameters of an optimizer count their steps alike";
  return {};
}

// What goes from round to round.
std::string_view Replay::plan(lower::Loop& loop) const {
  loop.stacked.assign(r_.leaves, false);
  loop.carried.assign(r_.leaves, std::nullopt);
  for (size_t i = 0; i < r_.leaves; ++i) {
    const auto& s = r_.sources[i];
    loop.stacked[i] = s.kind == Source::Kind::argument || (s.kind == Source::Kind::host && s.host.argument);
  }
  std::vector<bool> wanted(r_.results.size()), given(r_.targets.size());
  for (const auto& s : r_.slots)
    if (s.given.kind == Given::Kind::target) given[s.given.from] = true;
  for (size_t k = 0; k < r_.targets.size(); ++k) {
    const Target& t = r_.targets[k];
    if (t.kind != Target::Kind::fresh || given[k]) wanted[t.from] = true;
    for (size_t i = 0; i < r_.leaves; ++i) {
      const auto& s = r_.sources[i];
      const bool same = s.kind == Source::Kind::captured
                            ? s.identity == t.identity
                            : s.kind == Source::Kind::gradient && t.kind == Target::Kind::gradient &&
                                  s.argument == t.argument;
      if (!same) continue;
      if (*s.geometry != *t.geometry || s.shape != intern(r_.results[t.from]->shapes[0]))
        return "a tensor that it overwrites changes its shape or its order in memory";
      loop.carried[i] = t.from;
    }
  }
  for (size_t root = 0; root < wanted.size(); ++root)
    if (wanted[root]) loop.last.push_back(root);
  std::vector<bool> each(r_.results.size());
  for (const auto& g : r_.returned)
    if (g.kind == Given::Kind::target) each[r_.targets[g.from].from] = true;
  for (size_t root = 0; root < each.size(); ++root)
    if (each[root]) loop.each.push_back(root);
  return {};
}

void Replay::compile_window(Window& w) const {
  std::vector<trace::Number> numbers;
  for (const auto& n : r_.numbers) numbers.push_back(n.value);
  std::vector<lower::Donation> donations;
  std::vector<bool> taken(w.loop.last.size());
  std::vector<int64_t> donated;
  for (size_t i = 0; i < r_.leaves; ++i) {
    if (!w.loop.carried[i]) continue;
    const size_t place = w.place_of[*w.loop.carried[i]];
    if (taken[place]) continue;
    taken[place] = true;
    donations.push_back({static_cast<int64_t>(i), static_cast<int64_t>(place)});
    donated.push_back(static_cast<int64_t>(i));
  }
  pjrt::CompileOptions options;
  options.devices = {exec::device(r_.device).id()};
  const auto platform = lower::platform_named(exec::client().platform_name());
  const lower::RunsHere here(exec::may_call_kernels());
  const trace::Rebuilt step = trace::rebuilt(r_.outline, numbers);
  const std::string text =
      lower::loop_program(step.graph, w.loop, donations, platform, r_.compiled->inputs, r_.compiled->shared);
  w.compiled = exec::program_over(text, options, exec::this_mode(r_.device), {}, std::move(donated)).program;
}

// Compiles it where it is new: the mutex is let go meanwhile.
Replay::Window& Replay::window(int64_t rounds) {
  const auto known = std::ranges::find(windows_, rounds, &Window::rounds);
  if (known != windows_.end()) {
    windows_.splice(windows_.begin(), windows_, known);
    return *known;
  }
  if (windows_.size() == kWindows) windows_.pop_back();
  Window& w = windows_.emplace_front();
  w.rounds = w.loop.rounds = rounds;
  w.failed = plan(w.loop);
  if (!w.failed.empty()) return w;
  w.place_of.resize(r_.results.size());
  for (size_t i = 0; i < w.loop.last.size(); ++i) w.place_of[w.loop.last[i]] = i;
  std::vector<bool> given(r_.targets.size());
  for (const auto& s : r_.slots)
    if (s.given.kind == Given::Kind::target) given[s.given.from] = true;
  for (size_t i : other_targets_)
    if (r_.targets[i].kind != Target::Kind::fresh || given[i]) w.other_targets.push_back(i);
  try {
    compile_window(w);
  } catch (const exec::CompileForbidden&) {
    windows_.pop_front();
    throw;
  } catch (const XLACompilationTimeoutError&) {
    windows_.pop_front();
    throw;
  } catch (const CompilationError& e) {
    w.failed = std::string("the loop could not be compiled: ") + e.what();
    return w;
  } catch (const ProgramError& e) {
    w.failed = std::string("the loop could not be compiled: ") + e.what();
    return w;
  } catch (...) {
    windows_.pop_front();
    throw;
  }
  w.donated.assign(r_.leaves, false);
  for (int64_t i : w.compiled->donated) w.donated[static_cast<size_t>(i)] = true;
  return w;
}

// An argument with a row for each round.
bool Replay::bind_stack(size_t i, const std::vector<at::Tensor>& stacks) {
  const auto& s = r_.sources[i];
  const int64_t rounds = window_->loop.rounds;
  const Shape shape = with_rows(*s.shape, rounds);
  if (s.kind == Source::Kind::argument) {
    storages_[i] = &storage_of(stacks[s.argument]);
    const Value& v = storages_[i]->slot.value();
    if (!v || *storages_[i]->geometry != trace::contiguous(shape.dims) || v->device() != r_.device ||
        v.shape() != shape)
      return false;
    if (v->is_pending()) pending_.push_back(v);
    return true;
  }
  if (values_[i]) return true;  // it is bound a second time
  const at::Tensor& stack = stacks[*s.host.argument];
  std::vector<at::Tensor> row(stacks.size()), rows;
  for (int64_t r = 0; r < rounds; ++r) {
    row[*s.host.argument] = stack.select(0, r);
    rows.push_back(host_elements(s.host.get(row), s.sizes, s.dtype));
  }
  values_[i] = exec::to_device(at::stack(rows).const_data_ptr(), shape, {}, r_.device);
  return true;
}

// Looks at nothing that may be gone: not every replay that is asked could be done at the moment.
Taken Replay::taken(const std::vector<at::Tensor>& stacks) const {
  const exec::Lock lock(exec::mutex());
  Taken out;
  const auto add = [&](const Storage* s) {
    auto& d = out.data.emplace_back();
    const Value& v = s ? s->slot.value() : Value();
    if (!v) return;
    d = {v->id(), v.index(), 0};
    if (v->is_leaf() && !v->error())
      if (const auto& data = v->data(v.index()))
        d.version = static_cast<const exec::BufferData&>(*data).version;
  };
  for (const auto& s : r_.sources)
    if (s.kind == Source::Kind::captured) add(s.storage.expired() ? nullptr : s.identity);
  for (size_t i : slots_) {
    const auto& s = r_.slots[i];
    if (s.variable.argument || s.start == GradientSlot::Start::any) continue;
    const at::Tensor* g = alive(s.variable.identity) ? &s.variable.identity->grad() : nullptr;
    add(g && is_tpu(*g) ? &storage_of(*g) : nullptr);
  }
  for (const auto& t : stacks) {
    if (is_tpu(t))
      add(&storage_of(t));
    else if (t.defined())
      out.data.push_back({0, 0, version_of(*t.unsafeGetTensorImpl())});
  }
  for (const auto& d : r_.draws) out.generators.push_back({next_draw(d.generator), settings_of(d.generator)});
  for (const auto& s : r_.sources) {
    if (s.kind != Source::Kind::host || s.host.argument) continue;
    const at::Tensor from = s.host.get({});
    out.host.push_back(from.defined() ? host_elements(from, s.sizes, s.dtype).clone() : from);
  }
  out.holds = holds_captured();
  return out;
}

std::string_view changes(const Taken& before, const Taken& now) {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    return a.defined() == b.defined() &&
           (!a.defined() || a.nbytes() == 0 ||
            std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
  };
  if (before.data != now.data) return "a tensor or a gradient that it takes holds something else";
  if (before.holds != now.holds) return "a tensor that it captures is gone, or is another";
  if (before.generators != now.generators) return "a random number generator was set or drawn from";
  if (!std::ranges::equal(before.host, now.host, same)) return "a tensor of the host holds something else";
  return {};
}

bool Replay::enter_round(const std::vector<at::Tensor>& stacks, int64_t round, const Enter& enter,
                         const Taken& began) {
  const bool same = [&] {
    const exec::Unlocked others_may;  // it runs the user's code, which may wait for threads
    return enter(round);
  }();
  changed_ = changes(began, taken(stacks));
  why_not_ = !changed_.empty() ? changed_
             : same            ? surroundings()
                               : "what happens before a step changed how it is called";
  return why_not_.empty();
}

bool Replay::bind_rounds(const std::vector<at::Tensor>& stacks, const Enter& enter) {
  Window& w = *window_;
  bool rows = false;
  for (const auto& f : r_.fed) rows |= !f.ask && f.host.argument.has_value();
  std::vector<lower::NumberPack> all;
  std::vector<at::Tensor> row(stacks.size());
  const Taken began = enter ? taken(stacks) : Taken();
  for (int64_t r = 0; r < w.loop.rounds; ++r) {
    if (enter && r != 0 && !enter_round(stacks, r, enter, began)) return false;
    for (size_t i = 0; rows && i < stacks.size(); ++i)
      if (stacks[i].defined() && stacks[i].device().is_cpu()) row[i] = stacks[i].select(0, r);
    if (!bind_numbers(row, r)) {
      why_not_ = "a number of an optimizer or of the host is another";
      return false;
    }
    if (enter) rounds_.push_back({numbers_, drawn_});
    auto packs = lower::number_packs(numbers_, r_.compiled->shared);
    if (r == 0) {
      all = std::move(packs);
      continue;
    }
    for (size_t i = 0; i < all.size(); ++i)
      all[i].bytes.insert(all[i].bytes.end(), packs[i].bytes.begin(), packs[i].bytes.end());
  }
  w.packs.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    Pack& pack = w.packs[i];
    if (!pack.buffers.empty() && pack.bytes == all[i].bytes) continue;
    pack.bytes = std::move(all[i].bytes);
    pack.buffers.clear();
    pack.buffers.push_back(exec::client().to_device(
        pjrt::HostArray{pack.bytes.data(), with_rows(all[i].shape, w.loop.rounds), {}},
        exec::device(r_.device)));
  }
  return true;
}

// False where memory is too short for it: single calls may do.
bool Replay::execute_window() {
  const exec::Compiled& compiled = *window_->compiled;
  take_inputs(window_->donated, false);
  for (const auto& pack : window_->packs) inputs_.push_back(&pack.buffers[0]);
  try {
    exec::check_memory(r_.device, compiled.needs, "many calls of a compiled step");
    outputs_ = exec::execute(*compiled.program, inputs_, keep_);
  } catch (const Error& e) {
    if (e.code() != Code::resource_exhausted) throw;
    return false;
  }
  exec::count_execution(false);
  return true;
}

std::vector<at::Tensor> Replay::rows_of_results() {
  const lower::Loop& loop = window_->loop;
  std::map<size_t, c10::intrusive_ptr<c10::StorageImpl>> storages;
  for (size_t i = 0; i < loop.each.size(); ++i) {
    const Shape shape = with_rows(r_.results[loop.each[i]]->shapes[0], loop.rounds);
    auto storage = new_storage(static_cast<size_t>(shape.bytes()), r_.device);
    auto& made = static_cast<Storage&>(*storage);
    made.slot.set(exec::leaf_of(std::move(outputs_[loop.last.size() + i]), shape, r_.device));
    made.geometry = std::make_shared<const trace::Geometry>(trace::contiguous(shape.dims));
    storages.emplace(loop.each[i], std::move(storage));
  }
  std::vector<at::Tensor> out;
  for (const auto& g : r_.returned) {
    if (g.kind == Given::Kind::undefined) {
      out.emplace_back();
      continue;
    }
    const Target& t = r_.targets[g.from];
    std::vector<int64_t> sizes = g.sizes, strides = g.strides;
    sizes.insert(sizes.begin(), loop.rounds);
    strides.insert(strides.begin(), static_cast<int64_t>(t.bytes / c10::elementSize(g.dtype)));
    out.push_back(view_of(storages.at(t.from), sizes, strides, g.offset, g.dtype));
  }
  return out;
}

std::optional<std::vector<at::Tensor>> Replay::run_many(const std::vector<at::Tensor>& stacks, int64_t rounds,
                                                        const Enter& enter) {
  exec::Lock lock(exec::mutex());
  (void)exec::client();  // throws in a forked process
  rounds_.clear();
  changed_ = {};
  forget_call();
  why_not_ = cannot_loop();
  for (size_t i = 0; why_not_.empty() && i < stacks.size(); ++i)
    if (stacks[i].defined() && !r_.argument_varies[i])
      why_not_ = "an argument was the same tensor in every call so far";
  if (!why_not_.empty()) return std::nullopt;
  Window& w = window(rounds);
  why_not_ = w.failed;
  if (!why_not_.empty()) return std::nullopt;
  struct Now {
    Replay& r;
    ~Now() {
      std::swap(r.other_targets_, r.window_->other_targets);
      r.window_ = nullptr;
      r.forget_call();
    }
  } now{*this};
  window_ = &w;
  std::swap(other_targets_, w.other_targets);
  if (!bind_computed(stacks) || !bind_rounds(stacks, enter)) return std::nullopt;
  // The mutex was let go meanwhile: nothing that was bound before may be used.
  if (enter && !bind_computed(stacks)) {
    changed_ = why_not_;
    return std::nullopt;
  }
  if (!execute_window()) {
    why_not_ = "there is too little memory for so many steps at once";
    return std::nullopt;
  }
  commit(stacks, rounds);
  rounds_.clear();
  return rows_of_results();
}

std::optional<std::vector<at::Tensor>> Replay::run_round(const std::vector<at::Tensor>& arguments,
                                                         size_t round) {
  const exec::Lock lock(exec::mutex());
  struct Once {
    Replay& r;
    ~Once() { r.round_ = nullptr; }
  } once{*this};
  for (const auto& o : r_.options)
    if (o.gone()) return std::nullopt;
  round_ = &rounds_.at(round);
  return run(arguments);
}

}  // namespace tpubridge::step
