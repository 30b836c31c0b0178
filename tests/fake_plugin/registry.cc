// The table of handles and the list of misuses. Both live as long as the process: plugin threads may outlast
// main.
#include "registry.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fake {

thread_local const char* current_function = "outside the API";

const char* name(Kind kind) {
  constexpr const char* kNames[] = {"error",    "event",       "client",
                                    "device",   "description", "memory",
                                    "buffer",   "executable",  "loaded_executable",
                                    "topology", "context",     "serialized"};
  return kNames[static_cast<int>(kind)];
}

namespace registry {
namespace {

// Not a canonical address on any machine, so that reading through a handle crashes at once.
constexpr uint64_t kMark = 0x00fa'0000'0000'0000, kMarkMask = 0xffff'0000'0000'0000;

struct Table {
  std::shared_mutex lock;
  std::unordered_map<const void*, std::pair<Kind, std::shared_ptr<Object>>> objects;
  std::array<std::atomic<int64_t>, static_cast<int>(Kind::count)> live{};
  uint64_t next = 1;
  std::mutex misuse_lock;
  std::vector<std::string> misuses;
};
Table& table() {
  static auto* const t = new Table;
  return *t;
}

[[noreturn]] void refuse(Kind kind, const void* handle, const Kind* found) {
  std::string what = std::string("a ") + name(kind) + " was expected, but the handle is ";
  const auto bits = reinterpret_cast<uint64_t>(handle);
  if (!handle) {
    what += "null";
  } else if (found) {
    what += std::string("a ") + name(*found);
  } else if ((bits & kMarkMask) == kMark) {
    what += "one that was destroyed before";
  } else {
    what += "not one of this plugin";
  }
  misuse(what);
}

}  // namespace

void* insert(Kind kind, std::shared_ptr<Object> object, void* handle) {
  Table& t = table();
  const std::unique_lock guard(t.lock);
  if (!handle) handle = reinterpret_cast<void*>(kMark | (t.next++ << 4));
  t.objects[handle] = {kind, std::move(object)};
  ++t.live[static_cast<int>(kind)];
  return handle;
}

std::shared_ptr<Object> find(Kind kind, const void* handle) {
  Table& t = table();
  std::shared_lock guard(t.lock);
  const auto at = t.objects.find(handle);
  if (at != t.objects.end() && at->second.first == kind) return at->second.second;
  const Kind found = at == t.objects.end() ? kind : at->second.first;
  const bool there = at != t.objects.end();
  guard.unlock();
  refuse(kind, handle, there ? &found : nullptr);
}

std::shared_ptr<Object> remove(Kind kind, const void* handle) {
  Table& t = table();
  std::unique_lock guard(t.lock);
  const auto at = t.objects.find(handle);
  if (at != t.objects.end() && at->second.first == kind) {
    auto object = std::move(at->second.second);
    t.objects.erase(at);
    --t.live[static_cast<int>(kind)];
    return object;
  }
  const Kind found = at == t.objects.end() ? kind : at->second.first;
  const bool there = at != t.objects.end();
  guard.unlock();
  refuse(kind, handle, there ? &found : nullptr);
}

int64_t live(Kind kind) { return table().live[static_cast<int>(kind)]; }

void note_misuse(const std::string& what) {
  Table& t = table();
  const std::lock_guard guard(t.misuse_lock);
  t.misuses.push_back(std::string(current_function) + ": " + what);
}

void misuse(const std::string& what) {
  note_misuse(what);
  throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, std::string(current_function) + ": " + what};
}

int64_t misuses() {
  Table& t = table();
  const std::lock_guard guard(t.misuse_lock);
  return static_cast<int64_t>(t.misuses.size());
}

std::string misuse_text() {
  Table& t = table();
  const std::lock_guard guard(t.misuse_lock);
  std::string text;
  for (const auto& line : t.misuses) text += line + "\n";
  return text;
}

void forget_misuse() {
  Table& t = table();
  const std::lock_guard guard(t.misuse_lock);
  t.misuses.clear();
}

}  // namespace registry
}  // namespace fake
