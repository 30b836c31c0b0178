// From a seed to a case.
#include <cstdlib>
#include <random>

#include "tests/step/fuzz.h"

namespace tpubridge::fuzz {
namespace {

// Not std's distributions: a seed means the same case with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15u + 1) {}
  int below(int n) { return static_cast<int>((engine_() >> 11) % static_cast<uint64_t>(n)); }
  bool percent(int p) { return below(100) < p; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int>(list.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

Model model(Dice& d) {
  Model m;
  m.features = 2 + d.below(3);
  const int pieces = d.below(4);
  for (int i = 0; i < pieces; ++i) {
    const Piece p = d.of({Piece::relu, Piece::tanh, Piece::gelu, Piece::linear, Piece::linear, Piece::tied,
                          Piece::batch_norm, Piece::layer_norm});
    // Of two norms one after the other, the first has gradients of nothing but rounding errors.
    const bool again = p == Piece::batch_norm && m.pieces.back() == Piece::batch_norm;
    m.pieces.push_back(again ? Piece::tanh : p);
  }
  if (d.percent(15)) m.pieces.push_back(Piece::dropout);
  if (d.percent(50)) m.pieces.push_back(Piece::linear);
  if (d.percent(15)) m.frozen = d.below(4);
  return m;
}

Optimizer optimizer(Dice& d) {
  Optimizer o;
  o.rule = static_cast<Rule>(d.below(8));
  o.lr = d.of({0.01, 0.05});
  o.momentum = d.of({0.0, 0.5, 0.9});
  o.weight_decay = d.of({0.0, 0.0, 0.1});
  o.flag = d.percent(30);
  return o;
}

Step step(Dice& d) {
  Step s;
  s.goal = d.of({Goal::train, Goal::train, Goal::train, Goal::backward, Goal::inference});
  s.zero = d.of({Zero::begin, Zero::begin, Zero::nowhere, Zero::begin_zeros, Zero::end, Zero::end});
  if (d.percent(40)) s.form = static_cast<Form>(1 + d.below(3));
  if (d.percent(40)) s.extra = static_cast<Extra>(1 + d.below(2));
  if (d.percent(40)) s.write = static_cast<Write>(1 + d.below(3));
  if (d.percent(15)) s.nested = static_cast<Nested>(1 + d.below(2));
  if (d.percent(25)) s.named = static_cast<Named>(1 + d.below(3));
  s.returns = kLoss | (static_cast<unsigned>(d.percent(40) ? d.below(32) : 0));
  for (const auto flag :
       {&Step::halves, &Step::clip, &Step::schedule, &Step::draws, &Step::checkpointed, &Step::default_type,
        &Step::host_number, &Step::captured_number, &Step::table, &Step::twice, &Step::rate, &Step::busy})
    s.*flag = d.percent(12);
  s.noise = d.percent(6);
  if (d.percent(30)) s.place = static_cast<Place>(1 + d.below(9));
  // What the host does with an optimizer shows nowhere where nobody knows it.
  if (s.named == Named::modules || s.named == Named::none) s.schedule = s.rate = false;
  return s;
}

// How often an act is taken; one that the step does not feel is left out.
int weight(Do what, const Case& c) {
  const Step& s = c.step;
  const bool unknown =
      c.optimizer.rule < Rule::fused_sgd && (s.named == Named::modules || s.named == Named::none);
  switch (what) {
    case Do::call:
      return 0;  // they stand between all others anyway
    case Do::call_limited:
    case Do::prepare:
      if (s.schedule) return 0;  // nobody can take back what a scheduler of the host did
      [[fallthrough]];
    case Do::call_throws:  // nor what an optimizer did that nobody knows
      return unknown ? 0 : 2;
    case Do::many:
      return 2;
    case Do::factor:
    case Do::save_load:
    case Do::thread:
      return 1;
    case Do::hold_state:
      return 1;
    case Do::clear_state:  // torch's Adagrad makes its state when it is made
      return unknown || c.optimizer.rule == Rule::adagrad ? 0 : 1;
    case Do::no_grad:  // then nobody looks whether there are gradients
      return unknown ? 0 : 2;
    case Do::write_to:
      return s.write == Write::none ? 0 : 4;
    case Do::argument_grad:
      return s.form == Form::device ? 2 : 0;
    case Do::replace_extra:
    case Do::scale_extra:
      return s.extra == Extra::none && !(s.returns & kView) ? 0 : 2;
    case Do::host_number:
      return s.host_number ? 4 : 0;
    case Do::captured_number:
      return s.captured_number ? 4 : 0;
    case Do::table_start:
    case Do::table_write:
      return s.table ? 3 : 0;
    case Do::default_type:
      return s.default_type ? 4 : 0;
    case Do::plain:
      return s.place != Place::nowhere ? 10 : 0;
    default:
      return 2;
  }
}

Act act(Dice& d, const Case& c) {
  int total = 0;
  for (int i = 0; i < kActs; ++i) total += weight(static_cast<Do>(i), c);
  int left = d.below(total), what = 0;
  while ((left -= weight(static_cast<Do>(what), c)) >= 0) ++what;
  Act a{static_cast<Do>(what), d.below(12), 0.25 * (1 + d.below(6))};
  if (a.what == Do::lr) a.value = d.of({0.0, 0.02, 0.1, 1.0});
  if (a.what == Do::weight_decay) a.value = d.of({0.0, 0.05, 0.3, 1.0});
  if (a.what == Do::momentum)  // a beta of 1 divides by zero
    a.value = d.of(
        {0.0, 0.3, 0.9, c.optimizer.rule == Rule::sgd || c.optimizer.rule == Rule::fused_sgd ? 1.0 : 0.5});
  return a;
}

}  // namespace

bool Case::random() const {
  if (step.noise) return true;
  for (const Piece p : model.pieces)
    if (p == Piece::dropout) return true;
  return false;
}

bool left_out(const std::string& name) {
  static const char* variable = std::getenv("TPUBRIDGE_FUZZ_WITHOUT");
  static const std::string names = "," + std::string(variable ? variable : "") + ",";
  return names.find("," + name + ",") != names.npos;
}

Case generate(uint64_t seed) {
  Dice d(seed);
  Case c;
  c.seed = seed;
  c.model = model(d);
  c.optimizer = optimizer(d);
  c.step = step(d);
  c.looks = d.percent(70);
  const auto calls = [&](int n) { c.acts.resize(c.acts.size() + static_cast<size_t>(n)); };
  calls(1 + d.below(6));
  for (int rounds = 2 + d.below(5); rounds-- > 0;) {
    c.acts.push_back(act(d, c));
    if (d.percent(30)) c.acts.push_back(act(d, c));
    calls(1 + d.below(d.percent(50) ? 3 : 7));
  }
  if (d.percent(35)) {  // calls of many steps, mostly of a step that can be a loop
    if (d.percent(80)) {
      c.step.write = Write::none;
      c.step.schedule = false;
      c.step.returns &= ~static_cast<unsigned>(kArgument);
    }
    for (size_t i = 0; i + 1 < c.acts.size(); ++i)
      if (c.acts[i].what == Do::call && d.percent(40)) c.acts[i] = {Do::many, d.below(4), 0};
  }
  const std::pair<const char*, bool Step::*> flags[] = {{"halves", &Step::halves},
                                                        {"clip", &Step::clip},
                                                        {"schedule", &Step::schedule},
                                                        {"draws", &Step::draws},
                                                        {"noise", &Step::noise},
                                                        {"checkpointed", &Step::checkpointed},
                                                        {"default_type", &Step::default_type},
                                                        {"host_number", &Step::host_number},
                                                        {"captured_number", &Step::captured_number},
                                                        {"twice", &Step::twice},
                                                        {"rate", &Step::rate},
                                                        {"busy", &Step::busy},
                                                        {"table", &Step::table}};
  for (const auto& [name, flag] : flags)
    if (left_out(name)) c.step.*flag = false;
  if (left_out("plain")) c.step.place = Place::nowhere;
  std::erase_if(c.acts, [](const Act& a) { return left_out(name_of(a.what)); });
  return c;
}

}  // namespace tpubridge::fuzz
