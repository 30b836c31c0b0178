// Turns what a recording noted into the ways by which the next call reaches the same things. For the sources
// of step/.
#pragma once

#include <map>
#include <unordered_set>

#include "tpubridge/step/record.h"

namespace tpubridge::step {

class Binder {
 public:
  Binder(Recording& r, const std::vector<at::Tensor>& arguments, const GradientsBefore& gradients,
         Recorded& out)
      : r_(r), arguments_(arguments), out_(out) {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (is_tpu(arguments[i])) argument_of_.try_emplace(&storage_of(arguments[i]), i);
    for (size_t i = 0; i < gradients.all().size(); ++i)
      if (const auto& b = gradients.all()[i]; is_tpu(b.gradient)) {
        const Storage* s = &storage_of(b.gradient);
        const auto* f = r.found_of(s);
        // What a variable that was met late has now may have been made by the call.
        if (!b.late || !f || f->value) slot_of_.try_emplace(s, i);
      }
    for (size_t i = 0; i < r.found.size(); ++i)
      if (const auto& v = r.found[i].value; v && v->is_leaf())
        found_of_.try_emplace({v.node(), v.index()}, i);
    for (size_t i = 0; i < r.uploads.size(); ++i) upload_of_.try_emplace(r.uploads[i].leaf.node(), i);
  }

  // The source that gives this computed value at the next call.
  size_t source(const trace::Node* node, uint32_t index) {
    const auto [it, fresh] = sources_.try_emplace({node, index}, out_.sources.size());
    if (fresh) out_.sources.push_back(make(node, index));
    return it->second;
  }

  std::optional<size_t> argument(const Storage* s) const { return place(argument_of_, s); }
  std::optional<size_t> slot(const Storage* s) const { return place(slot_of_, s); }

  // The tensor as a view of a target or of a source.
  Given given(const at::Tensor& t) {
    Given g;
    if (!t.defined()) return g;
    if (!is_tpu(t)) {
      trouble("it gives a tensor of the host");
      return g;
    }
    if (t.is_conj() || t.is_neg()) trouble("it gives a tensor with a conjugate or negative bit");
    g.sizes = t.sizes().vec();
    g.strides = t.strides().vec();
    g.offset = t.storage_offset();
    g.dtype = t.scalar_type();
    const Storage* s = &storage_of(t);
    const auto it =
        std::find_if(out_.targets.begin(), out_.targets.end(), [&](auto& x) { return x.identity == s; });
    if (it != out_.targets.end()) {
      g.kind = Given::Kind::target;
      g.from = static_cast<size_t>(it - out_.targets.begin());
      given_.insert(s);
    } else if (const trace::Value& v = s->slot.value(); v && v->is_leaf()) {
      g.kind = Given::Kind::source;
      g.from = source(v.node(), v.index());
    } else {
      trouble("it gives a tensor that was never written");
    }
    return g;
  }
  [[nodiscard]] bool is_given(const Storage* s) const { return given_.count(s) != 0; }

  // A part of an argument, or of a tensor from outside.
  HostSource host(const at::Tensor& t) {
    HostSource h;
    h.sizes = t.sizes().vec();
    h.strides = t.strides().vec();
    h.dtype = t.scalar_type();
    h.offset = t.storage_offset();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto& a = arguments_[i];
      if (!a.defined() || !a.device().is_cpu() || !a.is_alias_of(t)) continue;
      if (a.scalar_type() != t.scalar_type()) trouble("it sees an argument of the host as another type");
      h.argument = i;
      h.offset -= a.storage_offset();
      return h;
    }
    h.identity = t.storage().unsafeGetStorageImpl();
    h.storage = weak(*h.identity);
    if (t.is_conj() || t.is_neg()) trouble("it copies a tensor of the host with a conjugate or negative bit");
    return h;
  }

  void trouble(std::string_view what) {
    if (out_.trouble.empty()) out_.trouble = what;
  }

 private:
  static std::optional<size_t> place(const std::unordered_map<const Storage*, size_t>& map,
                                     const Storage* s) {
    const auto it = map.find(s);
    return it == map.end() ? std::nullopt : std::optional(it->second);
  }

  Source make(const trace::Node* node, uint32_t index) {
    Source s;
    s.shape = intern(node->shapes()[index]);
    if (const auto it = found_of_.find({node, index}); it != found_of_.end()) {
      const auto& f = r_.found[it->second];
      s.geometry = f.geometry;
      const auto alive = f.storage.lock();
      s.identity = alive ? static_cast<Storage*>(alive.get()) : nullptr;
      if (!alive) {
        trouble("it uses a tensor that it also frees");
      } else if (const auto a = argument(s.identity)) {
        s.kind = Source::Kind::argument;
        s.argument = *a;
      } else if (const auto k = slot(s.identity)) {
        s.kind = Source::Kind::gradient;
        s.argument = *k;
      } else {
        s.storage = f.storage;
      }
      return s;
    }
    if (const auto it = upload_of_.find(node); it != upload_of_.end())
      return uploaded(std::move(s), r_.uploads[it->second]);
    trouble("part of it was computed before it ended (another thread synchronised the device)");
    return s;
  }

  Source uploaded(Source s, const Recording::Upload& u) {
    s.sizes = u.sizes;
    s.dtype = u.dtype;
    if (r_.host.of(u.host) != HostOrigin::outside) {  // a literal, or it is in trouble already
      s.kind = Source::Kind::constant;
      s.value = u.leaf;
      s.content = host_elements(u.host, u.sizes, u.dtype);
      return s;
    }
    s.kind = Source::Kind::host;
    s.host = host(u.host);
    return s;
  }

  using Output = std::pair<const trace::Node*, uint32_t>;
  Recording& r_;
  const std::vector<at::Tensor>& arguments_;
  Recorded& out_;
  std::unordered_map<const Storage*, size_t> argument_of_, slot_of_;
  std::unordered_set<const Storage*> given_;
  std::map<Output, size_t> found_of_, sources_;
  std::unordered_map<const trace::Node*, size_t> upload_of_;
};

}  // namespace tpubridge::step
