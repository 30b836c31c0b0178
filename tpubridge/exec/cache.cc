// Two maps onto the same programs.
#include "tpubridge/exec/cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>

#include "tpubridge/base/errors.h"
#include "tpubridge/cache/ahead.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {
namespace {

struct KeyHash {
  size_t operator()(const Key& k) const { return k[0] ^ (k[1] * 31); }
};

// An LRU of structures; a text stays known as long as one of its structures is.
struct Cache {
  struct Entry {
    Key structure, text;
    std::shared_ptr<const Compiled> compiled;
  };
  std::list<Entry> order;  // most recent first
  std::unordered_map<Key, std::list<Entry>::iterator, KeyHash> structures;
  std::unordered_map<Key, std::weak_ptr<const Compiled>, KeyHash> texts;
  size_t capacity = 1024;

  void trim() {
    while (order.size() > capacity) {
      Entry last = std::move(order.back());
      structures.erase(last.structure);
      order.pop_back();
      last.compiled.reset();
      auto it = texts.find(last.text);
      if (it != texts.end() && it->second.expired()) texts.erase(it);
    }
    count_cache_entries(static_cast<int64_t>(order.size()));
  }
};

Cache& memory() {
  static auto* c = new Cache;  // executables must not die after the plugin's own statics
  return *c;
}

}  // namespace

std::shared_ptr<const Compiled> find_structure(const Key& key) {
  auto& c = memory();
  auto it = c.structures.find(key);
  if (it == c.structures.end()) return nullptr;
  c.order.splice(c.order.begin(), c.order, it->second);
  return it->second->compiled;
}

std::shared_ptr<const Compiled> find_text(const Key& text, const Key& structure) {
  auto& c = memory();
  auto it = c.texts.find(text);
  auto compiled = it == c.texts.end() ? nullptr : it->second.lock();
  if (compiled) remember(structure, text, compiled);
  return compiled;
}

void remember(const Key& structure, const Key& text, std::shared_ptr<const Compiled> compiled) {
  auto& c = memory();
  c.texts[text] = compiled;
  c.order.push_front({structure, text, std::move(compiled)});
  c.structures[structure] = c.order.begin();
  c.trim();
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
  std::unique_ptr<cache::ProgramCache> it;
  std::atomic<bool> there{false};

  void set(cache::ProgramCache made) {
    made.load_ahead(cache::this_command());
    if (it)
      *it = std::move(made);
    else
      it = std::make_unique<cache::ProgramCache>(std::move(made));
    there = true;
  }
};
Programs& all_programs() {
  static auto* p = new Programs;  // as above
  return *p;
}

}  // namespace

cache::ProgramCache& programs() {
  auto& p = all_programs();
  if (!p.there) {
    auto& opened = client();
    const std::lock_guard lock(p.mutex);
    if (!p.there) p.set(cache::ProgramCache(opened));
  }
  return *p.it;
}

void set_programs(cache::ProgramCache programs) {
  const std::lock_guard lock(all_programs().mutex);
  all_programs().set(std::move(programs));
}

Key text_key(const std::string& text, int device) {
  const XXH128_hash_t h = XXH3_128bits_withSeed(text.data(), text.size(), static_cast<uint64_t>(device));
  return {h.high64, h.low64};
}

size_t cache_size() { return memory().order.size(); }

size_t set_cache_capacity(size_t programs) {
  auto& c = memory();
  const size_t old = c.capacity;
  c.capacity = programs;
  c.trim();
  return old;
}

}  // namespace tpubridge::exec
