// Whether two recorded calls are alike.
#include <bit>
#include <cstring>

#include "tpubridge/step/binder.h"

namespace tpubridge::step {
namespace {

bool same_geometry(const std::shared_ptr<const trace::Geometry>& a,
                   const std::shared_ptr<const trace::Geometry>& b) {
  return a == b || (a && b && *a == *b);
}

std::string shown(const trace::Number& n) {
  return std::to_string(n.dtype == DType::s64 ? static_cast<double>(n.integer) : n.real);
}

// NaN is what it was, and -0 is another number than 0.
bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// Of the modules that both calls knew; those that were found since are compared from now on.
bool changed(const std::vector<ModuleImage>& before, const std::vector<ModuleImage>& now) {
  std::unordered_map<const std::byte*, const ModuleImage*> known;
  for (const auto& m : before) known.emplace(m.at, &m);
  return std::any_of(now.begin(), now.end(), [&](const ModuleImage& m) {
    const auto it = known.find(m.at);
    return it != known.end() && *it->second != m;
  });
}

}  // namespace

bool HostSource::same(const HostSource& o) const {
  return argument == o.argument && identity == o.identity && sizes == o.sizes && strides == o.strides &&
         offset == o.offset && dtype == o.dtype;
}

bool Source::same(const Source& o) const {
  if (kind != o.kind || shape != o.shape || !same_geometry(geometry, o.geometry)) return false;
  if (kind == Kind::captured) return identity == o.identity;
  if (kind == Kind::argument || kind == Kind::gradient) return argument == o.argument;
  if (sizes != o.sizes || dtype != o.dtype) return false;
  if (kind == Kind::host) return host.same(o.host);
  return std::memcmp(content.const_data_ptr(), o.content.const_data_ptr(), content.nbytes()) == 0;
}

bool Target::same(const Target& o) const {
  return kind == o.kind && argument == o.argument && is_root == o.is_root && from == o.from &&
         bytes == o.bytes && same_geometry(geometry, o.geometry) &&
         (kind != Kind::captured || identity == o.identity);
}

bool GradientSlot::same(const GradientSlot& o) const {
  if (late || o.late) return variable == o.variable;
  // Thrown away unseen, and not there: the same, but for what shows.
  const bool starts = start == o.start || start == Start::any || o.start == Start::any;
  const auto shows = [](const GradientSlot& s) {
    return s.end == End::same && s.start == Start::undefined ? End::cleared : s.end;
  };
  return variable == o.variable && starts &&
         (end == o.end || (start != o.start && shows(*this) == shows(o))) && given == o.given &&
         requires_grad == o.requires_grad;
}

std::string difference(const Recorded& before, Recorded& now) {
  if (!now.trouble.empty()) return now.trouble;
  auto lists_differ = [](const auto& a, const auto& b) {
    return !std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.same(y); });
  };
  if (!(before.outline == now.outline)) return "its ops or shapes differed from one call to the next";
  if (lists_differ(before.sources, now.sources)) return "it read other tensors than in the call before";
  if (lists_differ(before.targets, now.targets) || before.returned != now.returned)
    return "it wrote or returned other tensors than in the call before";
  // Variables that were met later stand at the end.
  for (size_t i = 0; i < now.slots.size(); ++i) {
    if (now.slots[i].late) return "it met a parameter for the first time";
    if (i < before.slots.size() && !now.slots[i].same(before.slots[i]))
      return "it did something else to a gradient than in the call before";
  }
  for (size_t i = 0; i < now.numbers.size(); ++i) {
    const auto &a = before.numbers[i], &b = now.numbers[i];
    if (a.kind != b.kind || a.index != b.index) return "a number of " + b.user + " came from somewhere else";
    if (a.kind != NumberSource::Kind::constant) continue;
    if (!same_bits(a.value.real, b.value.real) || a.value.integer != b.value.integer)
      return "a number of " + b.user + " changed on the host from " + shown(a.value) + " to " +
             shown(b.value) +
             " (pass it as an argument or as a tensor; name the optimizer in StepOptions if it is one of "
             "its)";
  }
  if (changed(before.modules, now.modules))
    return "a member of a module changes from call to call (pass it as an argument, or make it a buffer)";
  if (std::string why = merge_looks(before.looks, now.looks); !why.empty()) return why;
  for (size_t i = 0; i < now.options.size() && i < before.options.size(); ++i)
    now.options[i].learn(before.options[i]);
  for (size_t i = 0; i < now.argument_varies.size() && i < before.argument_varies.size(); ++i)
    now.argument_varies[i] =
        before.argument_varies[i] || before.argument_identities[i] != now.argument_identities[i];
  for (size_t i = 0; i < now.slots.size() && i < before.slots.size(); ++i) {
    now.slot_varies[i] = before.slot_varies[i] || before.slots[i].found != now.slots[i].found;
    if (before.slots[i].start == GradientSlot::Start::any && !before.slots[i].late)
      now.slots[i].start = GradientSlot::Start::any, now.slots[i].end = before.slots[i].end;
  }
  return {};
}

}  // namespace tpubridge::step
