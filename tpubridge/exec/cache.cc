// Two maps onto the same programs.
#include "tpubridge/exec/cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/cache/ahead.h"
#include "tpubridge/cache/packed_text.h"
#include "tpubridge/exec/families.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/trace/equal_hashes.h"

namespace tpubridge::exec {
namespace {

struct KeyHash {
  size_t operator()(const Key& k) const { return k[0] ^ (k[1] * 31); }
};

// A program with all that it was made of.
struct Known {
  Key hash;  // of the text
  cache::PackedText text;
  Mode mode;
  std::shared_ptr<const Compiled> compiled;
};

void note_collision(std::string_view what) {
  count_collision();
  log::warn("cache.equal_hashes", {{"of", std::string(what)}, {"effect", "each has a program of its own"}});
}

// An LRU of structures; a text stays known as long as one of its structures is.
class Cache {
 public:
  std::shared_ptr<const Compiled> structure(const trace::Graph& graph, const Mode& mode) {
    bool others = false;
    for (auto [it, end] = structures_.equal_range(graph.hash); it != end; ++it) {
      const Entry& e = *it->second;
      if (!e.structure.outline || e.known->mode != mode) continue;
      if (trace::matches(graph, *e.structure.outline)) {
        order_.splice(order_.begin(), order_, it->second);
        return e.known->compiled;
      }
      others = true;
    }
    if (others) note_collision("graphs");
    return nullptr;
  }

  std::shared_ptr<const Compiled> text(std::string_view text, const Mode& mode, const Structure& structure) {
    bool others = false;
    for (auto [it, end] = texts_.equal_range(text_hash(text)); it != end; ++it) {
      auto known = it->second.lock();
      if (!known || known->mode != mode) continue;
      if (known->text.holds(text)) {
        auto compiled = known->compiled;
        add(structure, std::move(known));
        return compiled;
      }
      others = true;
    }
    if (others) note_collision("programs");
    return nullptr;
  }

  void add(const Structure& structure, std::string_view text, const Mode& mode,
           std::shared_ptr<const Compiled> compiled) {
    const Key hash = text_hash(text);
    auto known =
        std::make_shared<const Known>(Known{hash, cache::PackedText(text), mode, std::move(compiled)});
    texts_.emplace(hash, known);
    add(structure, std::move(known));
  }

  size_t size() const { return order_.size(); }

  size_t set_capacity(size_t programs) {
    const size_t old = std::exchange(capacity_, programs);
    trim();
    return old;
  }

 private:
  struct Entry {
    Structure structure;
    std::shared_ptr<const Known> known;
  };
  using Place = std::list<Entry>::iterator;

  static Key text_hash(std::string_view text) {
    if (trace::hashes_are_equal()) return {};
    const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
    return {h.high64, h.low64};
  }

  // The entry of this very structure and mode.
  std::optional<Place> place(const Structure& s, const Known& known) {
    for (auto [it, end] = structures_.equal_range(s.hash); it != end; ++it) {
      const Entry& e = *it->second;
      const bool same = s.outline ? e.structure.outline && *e.structure.outline == *s.outline
                                  : !e.structure.outline && e.known.get() == &known;
      if (same && e.known->mode == known.mode) return it->second;
    }
    return std::nullopt;
  }

  void add(Structure structure, std::shared_ptr<const Known> known) {
    if (!structure.outline) structure.hash = known->hash;
    if (const auto old = place(structure, *known)) {
      const Key before = (*old)->known->hash;
      (*old)->known = std::move(known);
      order_.splice(order_.begin(), order_, *old);
      forget_text(before);
      return;
    }
    order_.push_front({std::move(structure), std::move(known)});
    structures_.emplace(order_.front().structure.hash, order_.begin());
    trim();
  }

  void trim() {
    while (order_.size() > capacity_) {
      const Place last = std::prev(order_.end());
      for (auto [it, end] = structures_.equal_range(last->structure.hash); it != end; ++it)
        if (it->second == last) {
          structures_.erase(it);
          break;
        }
      const Key text = last->known->hash;
      order_.erase(last);
      forget_text(text);
    }
    count_cache_entries(static_cast<int64_t>(order_.size()));
  }

  // Texts whose last structure went.
  void forget_text(const Key& hash) {
    for (auto [it, end] = texts_.equal_range(hash); it != end;)
      it = it->second.expired() ? texts_.erase(it) : std::next(it);
  }

  std::list<Entry> order_;  // most recent first
  std::unordered_multimap<Key, Place, KeyHash> structures_;
  std::unordered_multimap<Key, std::weak_ptr<const Known>, KeyHash> texts_;
  size_t capacity_ = 1024;
};

Cache& memory() {
  static auto* c = new Cache;  // executables must not die after the plugin's own statics
  return *c;
}

}  // namespace

void Mode::add(std::string_view name, std::string_view value) {
  text_.append(name).append("=").append(std::to_string(value.size())).append(":").append(value);
}

Structure structure_of(const trace::Graph& graph) {
  return {graph.hash, std::make_shared<const trace::Outline>(trace::outline_of(graph))};
}

std::shared_ptr<const Compiled> find_structure(const trace::Graph& graph, const Mode& mode) {
  return memory().structure(graph, mode);
}

std::shared_ptr<const Compiled> find_text(std::string_view text, const Mode& mode,
                                          const Structure& structure) {
  return memory().text(text, mode, structure);
}

void remember(const Structure& structure, std::string_view text, const Mode& mode,
              std::shared_ptr<const Compiled> compiled) {
  memory().add(structure, text, mode, std::move(compiled));
}

void set_memory(Compiled& c) {
  try {
    const auto m = c.program->info().memory();
    c.temporaries = m.temporaries;
    c.needs = m.outputs - m.aliased + m.temporaries;
  } catch (const UnsupportedError&) {  // the plugin keeps no such account: at least the results
    for (const auto& s : c.program->signature()->results) c.needs += s.bytes();
  }
}

namespace {

struct Programs {
  std::mutex mutex;
  std::optional<cache::ProgramCache> it;
  struct Before {
    std::shared_ptr<cache::DiskCache> disk;
    std::chrono::milliseconds deadline, patience;
  };
  std::optional<Before> before;  // of one that was closed
};
Programs& all_programs() {
  static auto* p = new Programs;  // as above
  return *p;
}

}  // namespace

cache::ProgramCache programs() {
  auto& p = all_programs();
  {
    const std::lock_guard lock(p.mutex);
    if (p.it) return *p.it;
  }
  auto& opened = client();  // not under the lock: opening it takes long, and may ask for programs
  const std::lock_guard lock(p.mutex);
  if (!p.it && p.before) {
    p.it.emplace(opened, p.before->disk);
    p.it->set_deadline(p.before->deadline);
    p.it->set_patience(p.before->patience);
  } else if (!p.it) {
    p.it.emplace(opened);
    p.it->load_ahead(cache::this_command());
  }
  return *p.it;
}

void close_programs() {
  auto& p = all_programs();
  const std::lock_guard lock(p.mutex);
  if (!p.it) return;
  p.before = Programs::Before{p.it->disk(), p.it->deadline(), p.it->set_patience({})};
  p.it.reset();
}

void set_programs(cache::ProgramCache programs) {
  programs.load_ahead(cache::this_command());
  std::optional<cache::ProgramCache> other(std::move(programs));  // the old one goes after the lock
  auto& p = all_programs();
  const std::lock_guard lock(p.mutex);
  p.it.swap(other);
}

size_t cache_size() {
  const Lock lock(mutex());
  return memory().size();
}

size_t set_cache_capacity(size_t programs) {
  const Lock lock(mutex());
  set_family_capacity(programs);
  return memory().set_capacity(programs);
}

}  // namespace tpubridge::exec
