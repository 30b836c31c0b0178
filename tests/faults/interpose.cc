#include "tests/faults/interpose.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>
#include <unordered_map>

namespace tpubridge::faults {
namespace {

thread_local bool active = false;
Plan plan;
int64_t count = 0;
std::string hit;
std::vector<Change>* changes = nullptr;

bool due() {
  const int64_t n = count++;
  return plan.fault == Fault::fails_onward ? n >= plan.at : n == plan.at;
}

// nlohmann's destructors allocate, and so does the standard library where it promises not to throw (folder
// iterators, remove_all): the process ends, and nothing of ours can help.
bool must_not_throw(void* frame) {
  Dl_info info{};
  if (::dladdr(frame, &info) == 0 || info.dli_sname == nullptr) return false;
  const std::string_view name = info.dli_sname;
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  return has("directory_iterator") || has("10remove_all") ||
         (has("basic_json") && (has("7destroy") || name.ends_with("D2Ev")));
}

bool inside_what_must_not_throw() {
  static std::unordered_map<void*, bool> known;  // looking for a name takes long
  std::array<void*, 24> frames{};
  const int n = ::backtrace(frames.data(), frames.size());
  return std::any_of(frames.begin(), frames.begin() + n, [](void* frame) {
    const auto [it, fresh] = known.try_emplace(frame);
    if (fresh) it->second = must_not_throw(frame);
    return it->second;
  });
}

}  // namespace

Armed::Armed(Plan p, std::vector<Change>* record) {
  plan = p;
  count = 0;
  hit.clear();
  hit.reserve(64);  // noting an operation must not allocate
  changes = record;
  if (plan.memory) (void)inside_what_must_not_throw();  // what it loads, it loads now
  active = true;
}
Armed::~Armed() { active = false; }

int64_t counted() { return count; }
const std::string& struck() { return hit; }
bool armed() { return active; }
bool recording() { return active && changes != nullptr; }

void record(Change change) {
  active = false;
  changes->push_back(std::move(change));
  active = true;
}

std::string path_of_fd(int fd) {
  const bool was = active;
  active = false;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char target[PATH_MAX];
  const ssize_t n = ::readlink(link.c_str(), target, sizeof target);
  std::string out(target, n < 0 ? 0 : static_cast<size_t>(n));
  active = was;
  return out;
}

Verdict judge(const char* operation, size_t size) {
  Verdict go{0, size, false};
  if (!active || plan.memory || !due() || plan.fault == Fault::none) return go;
  if (hit.empty()) hit.assign(operation);
  switch (plan.fault) {
    case Fault::cut_short:
      return {0, size > 1 ? size / 2 : size, false};
    case Fault::dies:
      ::_exit(kDied);
    case Fault::dies_half_way:
      return {0, size / 2, true};
    default:
      return {plan.error, size, false};
  }
}

bool refuse_allocation() {
  if (!active || !plan.memory || !due() || plan.fault == Fault::none) return false;
  active = false;
  const bool hopeless = inside_what_must_not_throw();
  active = true;
  if (hopeless) {
    ++plan.at;
    return false;
  }
  if (hit.empty()) hit.assign("allocation");
  return true;
}

}  // namespace tpubridge::faults
