// Makes a case that fails smaller.
#include <chrono>

#include "tests/step/fuzz.h"

namespace tpubridge::fuzz {
namespace {

// Every case that is one thing simpler.
std::vector<Case> simpler(const Case& c) {
  std::vector<Case> out;
  if (!c.looks) {  // finds the act that did it, instead of the last one
    out.push_back(c);
    out.back().looks = true;
  }
  for (size_t i = c.acts.size(); i-- > 0;) {
    out.push_back(c);
    out.back().acts.erase(out.back().acts.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 1; i < c.model.pieces.size(); ++i) {
    out.push_back(c);
    out.back().model.pieces.erase(out.back().model.pieces.begin() + static_cast<std::ptrdiff_t>(i));
  }
  const auto set = [&](auto part, auto member, auto simple) {
    if (c.*part.*member == simple) return;
    out.push_back(c);
    out.back().*part.*member = simple;
  };
  const Case plain;
  const auto default_of = [&](auto part, auto member) { set(part, member, plain.*part.*member); };
  default_of(&Case::step, &Step::nested);
  default_of(&Case::step, &Step::named);
  default_of(&Case::step, &Step::form);
  default_of(&Case::step, &Step::extra);
  default_of(&Case::step, &Step::write);
  default_of(&Case::step, &Step::place);
  for (const auto flag : {&Step::halves, &Step::clip, &Step::schedule, &Step::draws, &Step::noise,
                          &Step::checkpointed, &Step::default_type, &Step::host_number,
                          &Step::captured_number, &Step::table, &Step::twice, &Step::rate, &Step::busy})
    default_of(&Case::step, flag);
  set(&Case::step, &Step::goal, Goal::inference);
  if (c.step.goal == Goal::train) set(&Case::step, &Step::goal, Goal::backward);
  set(&Case::step, &Step::zero, Zero::nowhere);
  for (unsigned bit = 1; bit <= kArgument; bit <<= 1) set(&Case::step, &Step::returns, c.step.returns & ~bit);
  default_of(&Case::model, &Model::frozen);
  default_of(&Case::optimizer, &Optimizer::rule);
  default_of(&Case::optimizer, &Optimizer::momentum);
  default_of(&Case::optimizer, &Optimizer::weight_decay);
  default_of(&Case::optimizer, &Optimizer::flag);
  return out;
}

}  // namespace

Case shrink(Case c, Difference& difference, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  c.acts.resize(difference.act + 1);
  const auto fails = [&](const Case& s) {
    auto d = run(s);
    if (!d || d->kind != difference.kind) return false;
    c = s;
    c.acts.resize(d->act + 1);
    difference = *d;
    return true;
  };
  for (bool again = true; again;) {
    again = false;
    auto list = simpler(c);
    for (size_t i = 0; i < list.size();) {
      if (std::chrono::steady_clock::now() > end) return c;
      if (!fails(list[i])) {
        ++i;
        continue;
      }
      again = true;
      list = simpler(c);  // what stood at i is gone: the next one is there
    }
  }
  return c;
}

}  // namespace tpubridge::fuzz
