// Where the numbers of a trace come from.
#include <cmath>
#include <set>

#include "tpubridge/step/binder.h"

namespace tpubridge::step {
namespace {

std::string_view user_of(const trace::Graph& graph, const trace::Node* number) {
  for (const auto* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o.node() == number) return n->op()->name;
  return "?";
}

// Numbers of the optimizers are told by the perturbed options: see OptimizerWatch.
class NumberBinder {
 public:
  NumberBinder(const Recording& r, const Recorded& out, const Recorded* before) {
    for (size_t i = 0; i < r.drawn.size(); ++i)
      for (const auto& [seed, offset] : r.drawn[i].numbers) {
        known_[seed.node()] = {NumberSource::Kind::seed, i, {}, {}};
        known_[offset.node()] = {NumberSource::Kind::offset, i, {}, {}};
      }
    for (size_t i = 0; i < r.fed.size(); ++i)
      known_[r.fed[i].number.node()] = {NumberSource::Kind::fed, i, {}, {}};
    for (const auto& o : out.optimizers) {
      plain_.insert(plain_.end(), o.plain.begin(), o.plain.end());
      perturbed_.insert(perturbed_.end(), o.perturbed.begin(), o.perturbed.end());
    }
    perturbs_ = plain_ != perturbed_;
    if (before)
      for (const auto& n : before->numbers) before_.insert(n.value.real);
  }

  // True where it can only be the step's own arithmetic over perturbed options.
  bool bind(const trace::Graph& graph, Recorded& out) {
    bool polluted = false;
    out.plain = plain_;
    for (const auto* n : graph.numbers) {
      NumberSource s;
      if (const auto it = known_.find(n); it != known_.end()) s = it->second;
      if (s.kind == NumberSource::Kind::constant && n->number().dtype != DType::s64 && perturbs_)
        polluted |= follow(s, *const_cast<trace::Node*>(n));
      s.value = n->number();
      s.user = user_of(graph, n);
      out.numbers.push_back(std::move(s));
    }
    return polluted;
  }

 private:
  bool follow(NumberSource& s, trace::Node& n) const {
    const double v = n.number().real;
    for (size_t j = 0; j < perturbed_.size(); ++j) {
      if (perturbed_[j] == plain_[j] || !std::isfinite(v) || !same_number(v, perturbed_[j])) continue;
      s.kind = NumberSource::Kind::optimizer;
      s.index = j;
      n.set_number(plain_[j]);  // it must run with the true options
      return false;
    }
    return !before_.count(v) && !std::isnan(v);
  }

  std::unordered_map<const trace::Node*, NumberSource> known_;
  std::vector<double> plain_, perturbed_;
  std::set<double> before_;
  bool perturbs_ = false;
};

}  // namespace

bool same_number(double a, double b) { return a == b || std::abs(a - b) <= 4e-15 * std::abs(a); }

bool bind_numbers(const Recording& r, const trace::Graph& graph, const Recorded* before, Recorded& out) {
  return NumberBinder(r, out, before).bind(graph, out);
}

}  // namespace tpubridge::step
