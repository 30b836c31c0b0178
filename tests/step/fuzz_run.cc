// Runs a case in its worlds and looks for the first difference.
#include <iomanip>
#include <sstream>

#include "tests/step/fuzz_world.h"

namespace tpubridge::fuzz {
namespace {

using Kind = World::Kind;

const char* world_name(Kind kind) {
  return kind == Kind::cpu ? "cpu" : kind == Kind::traced ? "traced" : "compiled";
}

// Past this a model has run away, and rounding errors with it.
constexpr double kLarge = 1e4;
constexpr double kRelative = 1e-8, kAbsolute = 1e-9;
// A gradient that is zero but for rounding (of a bias before a batch norm) moves a parameter: Adagrad divides
// it by itself and 1e-10.
constexpr double kAbsoluteOfCpu = 1e-7;
// A learning rate of 1 in twenty steps multiplies rounding errors by a thousand; where the device's own
// worlds agree, a wrong value is larger than that.
constexpr double kRelativeOfCpu = 1e-6;

// The case says nothing.
struct Meaningless {
  std::string why;
};

struct Globals {
  ~Globals() {
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
    set_memory_limit(0);
  }
};

std::string values_of(const Tensor& t) {
  std::ostringstream out;
  out << std::setprecision(12);
  const auto flat = t.contiguous().view({-1});
  out << "{";
  for (int64_t i = 0; i < std::min<int64_t>(flat.numel(), 8); ++i)
    out << (i ? ", " : "") << flat[i].item<double>();
  out << (flat.numel() > 8 ? ", …}" : "}");
  return out.str();
}

std::optional<Difference> compare(const World& want, const World& got) {
  const auto a = want.look(), b = got.look();
  const std::string worlds = std::string(world_name(got.kind)) + ", " + world_name(want.kind);
  const bool with_cpu = want.kind == Kind::cpu;
  const auto skip = [&](const std::vector<Seen>& all, size_t i) {
    while (i < all.size() && with_cpu && all[i].of_device) ++i;
    return i;
  };
  for (size_t i = 0, j = 0;; ++i, ++j) {
    i = skip(a, i), j = skip(b, j);
    if (i == a.size() && j == b.size()) return std::nullopt;
    if (i == a.size() || j == b.size() || a[i].what != b[j].what) {
      const auto& s = j < b.size() ? b[j] : a[i];
      return Difference{0, s.what, s.kind, worlds, "there is one in one world only"};
    }
    if (left_out(a[i].kind)) continue;
    if (a[i].facts != b[j].facts)
      return Difference{0, a[i].what, a[i].kind, worlds, b[j].facts + " | " + a[i].facts};
    if (!a[i].value.defined()) continue;  // or neither can be read
    const bool bytes = a[i].kind == "generator";
    if (!bytes && !(a[i].value.abs() < kLarge).all().item<bool>()) throw Meaningless{"large numbers"};
    if (bytes ? a[i].value.equal(b[j].value)
              : torch::allclose(b[j].value, a[i].value, with_cpu ? kRelativeOfCpu : kRelative,
                                with_cpu ? kAbsoluteOfCpu : kAbsolute))
      continue;
    return Difference{0, a[i].what, a[i].kind, worlds, values_of(b[j].value) + " | " + values_of(a[i].value)};
  }
}

// What the function throws, as text; empty where it throws nothing.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const c10::Error& e) {
    return std::string("c10::Error: ") + e.what_without_backtrace();
  } catch (const std::exception& e) {
    return std::string(typeid(e).name()) + ": " + e.what();
  }
  return "";
}

struct Run {
  explicit Run(const Case& c) {
    for (const Kind kind : {Kind::traced, Kind::compiled, Kind::cpu})
      if (kind != Kind::cpu || !c.random()) worlds.push_back(std::make_unique<World>(c, kind));
  }
  World& traced() { return *worlds[0]; }
  World& compiled() { return *worlds[1]; }

  // The same in every world: where one throws, all do.
  template <class F>
  std::optional<Difference> everywhere(F f) {
    const std::string want = error_of([&] { f(traced()); });
    for (size_t i = 1; i < worlds.size(); ++i) {
      const std::string got = error_of([&] { f(*worlds[i]); });
      if (got.empty() != want.empty() && !left_out("exception"))
        return Difference{0, "exception", "exception", std::string(world_name(worlds[i]->kind)) + ", traced",
                          (got.empty() ? "nothing" : got) + " | " + (want.empty() ? "nothing" : want)};
    }
    if (!want.empty()) throw Meaningless{want};
    return std::nullopt;
  }

  std::optional<Difference> act(const Act& a) {
    const bool is_call = a.what <= Do::many;
    if (!is_call) return everywhere([&](World& w) { w.apply(a); });
    ++calls;
    if (auto d = everywhere([&](World& w) { w.make_arguments(calls); })) return d;
    switch (a.what) {
      case Do::second:
        return everywhere([](World& w) { w.call_second(); });
      case Do::many: {
        const int64_t steps = steps_of_many(a);
        calls += static_cast<uint64_t>(steps);
        return everywhere([&](World& w) { w.call_many(calls, steps); });
      }
      case Do::prepare: {
        const std::string error = error_of([&] { compiled().prepare(); });
        if (error.empty()) return std::nullopt;
        return Difference{0, "exception", "exception", "compiled, traced", error + " | nothing"};
      }
      case Do::call_throws: {
        const int64_t place = 1 + a.which % 3;
        const auto old = compiled().returned;
        bool stopped = false;
        const std::string error = error_of([&] {
          try {
            compiled().call(place);
          } catch (const Stop&) {
            stopped = true;
          }
        });
        compiled().returned = old;
        // An error of torch's own may come first (RMSprop that gets a momentum after its first step has no
        // buffer for it); whether it comes in every world the next call shows.
        if (stopped || error.starts_with("c10::Error: Expected a proper Tensor")) return std::nullopt;
        return Difference{0, "exception", "exception", "compiled, traced",
                          (error.empty() ? "nothing" : error) + " | stop"};
      }
      case Do::call_limited: {
        sync();
        bool refused = false;
        set_memory_limit(device_memory().live + 1 + a.which);
        const std::string error = error_of([&] {
          try {
            compiled().call();
          } catch (const TPUMemoryLimitError&) {
            refused = true;
          }
        });
        set_memory_limit(0);
        if (refused) return std::nullopt;
        bool first = true;
        return everywhere([&](World& w) {
          if (w.kind != Kind::compiled) return w.call();
          if (std::exchange(first, false) && !error.empty()) throw std::runtime_error(error);
        });
      }
      default:
        return everywhere([](World& w) { w.call(); });
    }
  }

  std::vector<std::unique_ptr<World>> worlds;
  uint64_t calls = 0;
};

}  // namespace

std::optional<Difference> run(const Case& c, std::string* why_not) {
  const Globals put_back;
  try {
    Run r(c);
    for (size_t i = 0; i < c.acts.size(); ++i) {
      auto difference = r.act(c.acts[i]);
      if (!difference && (c.looks || i + 1 == c.acts.size()))
        for (size_t k = 1; k < r.worlds.size() && !difference; ++k)
          difference = k == 1 ? compare(r.traced(), r.compiled()) : compare(*r.worlds[k], r.compiled());
      if (!difference) continue;
      difference->act = i;
      return difference;
    }
  } catch (const Meaningless& m) {
    if (why_not) *why_not = m.why;
  }
  return std::nullopt;
}

}  // namespace tpubridge::fuzz
