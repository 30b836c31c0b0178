#include "tpubridge/step/modules.h"

#include <cxxabi.h>
#include <malloc.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>

#include "tpubridge/step/objects.h"

namespace tpubridge::step {

using torch::nn::Module;
using ModulePtr = std::shared_ptr<Module>;

namespace {

// What libstdc++'s shared_ptr is: the object, and what counts its holders.
struct SharedWords {
  uint64_t object = 0, counts = 0;
};
SharedWords words_of(const ModulePtr& m) {
  static_assert(sizeof(SharedWords) == sizeof m);
  SharedWords out;
  std::memcpy(&out, static_cast<const void*>(&m), sizeof out);
  return out;
}

bool is_module(const std::type_info& t) {
  if (t == typeid(Module)) return true;
  if (const auto* one = dynamic_cast<const abi::__si_class_type_info*>(&t))
    return is_module(*one->__base_type);
  if (const auto* many = dynamic_cast<const abi::__vmi_class_type_info*>(&t))
    for (unsigned i = 0; i < many->__base_count; ++i)
      if (many->__base_info[i].__offset() == 0 && is_module(*many->__base_info[i].__base_type)) return true;
  return false;
}

// Whether what counts the holders of an object counts those of this one: it lies in front of it, or holds a
// pointer to it. Where a module died, the memory of its counts may be those of another one by now.
bool count_holders_of(uint64_t object, uint64_t counts) {
  constexpr size_t kFront = 64, kMost = 8;  // with a deleter, the pointer lies behind what that one captures
  const std::string name = class_at(counts).name;
  if (name.starts_with("St23_Sp_counted_ptr_inplace")) return object > counts && object - counts <= kFront;
  if (name.find("_Sp_counted_") == std::string::npos) return false;
  uint64_t words[kMost] = {};
  return read_memory(counts + 2 * kWord, words, sizeof words) &&
         std::find(std::begin(words), std::end(words), object) != std::end(words);
}

// A shared_ptr of a living module, if these two words are one: the module knows its own counts, they know it,
// and they are those of a shared_ptr that somebody holds. What was freed has no such counts any more.
ModulePtr module_of(uint64_t object, uint64_t counts) {
  if (!is_address(object) || !is_address(counts) || object % kWord != 0 || counts % kWord != 0 ||
      is_loaded(object))
    return {};
  SharedWords itself;  // behind the table of functions
  uint32_t holders = 0;
  if (!read_memory(object + kWord, &itself, sizeof itself) || itself.object != object ||
      itself.counts != counts || !read_memory(counts + kWord, &holders, sizeof holders) || holders == 0)
    return {};
  if (!count_holders_of(object, counts)) return {};
  const Named c = class_at(object);
  if (!c.type || !is_module(*c.type)) return {};
  return reinterpret_cast<Module*>(object)->shared_from_this();  // NOLINT(performance-no-int-to-ptr)
}

void look_for_modules(const std::vector<uint64_t>& words, int hops, std::vector<ModulePtr>& out) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + 1 < words.size())
      if (auto m = module_of(words[i], words[i + 1])) {
        out.push_back(std::move(m));
        ++i;
        continue;
      }
    if (hops == 0 || !is_address(words[i]) || words[i] % kWord != 0 || is_loaded(words[i])) continue;
    look_for_modules(words_at(words[i], kNear), hops - 1, out);
  }
}

}  // namespace

size_t words_of_module(uint64_t address) {
  uint64_t table = 0;
  if (!read_memory(address, &table, kWord) || !is_address(table) || !is_loaded(table)) return 0;
  const Named c = class_at(address);
  return c.type && is_module(*c.type) ? sizeof(Module) / kWord : 0;
}

ModuleImage image_of(const ModulePtr& m) {
  constexpr size_t kMost = 16384;
  const SharedWords w = words_of(m);
  const std::string counts = class_at(w.counts).name;
  size_t bytes = 0;
  // NOLINTBEGIN(performance-no-int-to-ptr)
  if (counts.starts_with("St23_Sp_counted_ptr_inplace") && counts.find("SaI") != std::string::npos)
    bytes = w.counts + malloc_usable_size(reinterpret_cast<void*>(w.counts)) - w.object;
  else if (counts.starts_with("St15_Sp_counted_ptr") && dynamic_cast<void*>(m.get()) == m.get())
    bytes = malloc_usable_size(reinterpret_cast<void*>(w.object));
  // NOLINTEND(performance-no-int-to-ptr)
  ModuleImage out{reinterpret_cast<const std::byte*>(m.get())};
  const Module& module = *m;
  out.is_users = !std::string_view(typeid(module).name()).starts_with("N5torch2nn");
  out.bytes.resize(std::min(bytes, kMost));
  if (!read_memory(w.object, out.bytes.data(), out.bytes.size())) out.bytes.clear();
  return out;
}

bool hold(const std::vector<ModuleImage>& images) {
  for (const auto& i : images)
    if (std::memcmp(i.at, i.bytes.data(), i.bytes.size()) != 0) return false;
  return true;
}

std::vector<Window> behind(const std::vector<ModuleImage>& images, const Wanted& wanted) {
  std::vector<Fixed> objects;
  for (const auto& i : images)
    if (i.is_users)
      objects.push_back({reinterpret_cast<uintptr_t>(i.at), sizeof(Module) / kWord, i.bytes.size() / kWord});
  return Closure::behind(objects, wanted);
}

void Modules::add(const ModulePtr& root) { put(root, true); }

void Modules::put(const ModulePtr& root, bool hold) {
  for (const auto& r : roots_)
    if (r.root.lock() == root) return;
  roots_.push_back({root, hold ? root : nullptr, root->modules(/*include_self=*/false)});
}

bool Modules::find(const Closure& closure) {
  std::vector<ModulePtr> found;
  look_for_modules(closure.words(), 2, found);
  for (const Range& r : few_globals()) look_for_modules(words_at(r.begin, r.words()), 1, found);
  bool any = false;
  for (const auto& m : found) {
    const auto known = all();
    if (std::find(known.begin(), known.end(), m) != known.end()) continue;
    put(m, false);
    any = true;
  }
  return any;
}

void Modules::append_modes(std::vector<uint64_t>& guard) {
  died_ += std::erase_if(roots_, [](const Root& r) { return r.root.expired(); });
  uint64_t bits = 1;
  auto add = [&](const Module& m) {
    bits = (bits << 1) | m.is_training();
    if (bits >> 63) guard.push_back(std::exchange(bits, 1));
  };
  for (const auto& r : roots_) {
    add(*r.root.lock());
    for (const auto& m : r.children) add(*m);
  }
  guard.push_back(bits);
  guard.push_back(died_);
}

std::vector<ModulePtr> Modules::all() const {
  std::vector<ModulePtr> out;
  for (const auto& r : roots_) {
    if (auto m = r.root.lock()) out.push_back(std::move(m));
    out.insert(out.end(), r.children.begin(), r.children.end());
  }
  return out;
}

}  // namespace tpubridge::step
