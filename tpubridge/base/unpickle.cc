#include "tpubridge/base/unpickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::pickled {
namespace {

constexpr size_t kMostNodes = size_t{1} << 22;

// Python's stack machine, of the protocols 2 to 4 as torch writes them.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file,
          const std::function<bool(std::string_view)>& known)
      : bytes_(bytes), file_(file), known_(known) {}

  Pickle run() {
    while (step(number<uint8_t>())) {
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& why, std::string hint = {}) const {
    throw FileError(fmt::format("{}: {}", file_, why), {{"path", file_}, {"offset", std::to_string(at_)}},
                    std::move(hint), Code::data_loss);
  }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) fail("the pickle ends too early");
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += count;
    return {begin, count};
  }
  template <class T>
  T number() {
    T out;
    std::memcpy(&out, take(sizeof(T)).data(), sizeof(T));
    return out;
  }
  std::string_view line() {
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const std::string_view rest(begin, bytes_.size() - at_);
    const size_t end = rest.find('\n');
    if (end == rest.npos) fail("the pickle ends too early");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  Index make(Node node) {
    if (out_.nodes.size() >= kMostNodes) fail("the pickle holds too many values");
    out_.nodes.push_back(std::move(node));
    return static_cast<Index>(out_.nodes.size() - 1);
  }
  void push(Node node) { stack_.push_back(make(std::move(node))); }
  Index pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("the pickle takes what is not there");
    const Index out = stack_.back();
    stack_.pop_back();
    return out;
  }
  // All behind the last mark.
  std::vector<Index> pop_marked() {
    if (marks_.empty()) fail("the pickle takes what is not there");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> out(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return out;
  }
  Index top() {
    const Index out = pop();
    stack_.push_back(out);
    return out;
  }
  Node& top_of(Kind kind) {
    Node& node = out_.nodes[top()];
    if (node.kind != kind) fail("the pickle fills what is no list and no dict");
    return node;
  }

  void tuple(size_t count) {
    std::vector<Index> items(count);
    for (size_t i = count; i > 0; --i) items[i - 1] = pop();
    push({Kind::tuple, 0, 0, {}, std::move(items)});
  }
  void fill(Kind kind, const std::vector<Index>& items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a dict has a key without a value");
    auto& into = top_of(kind).items;
    into.insert(into.end(), items.begin(), items.end());
  }
  void long_integer(std::string_view bytes) {
    if (bytes.size() > sizeof(int64_t)) fail("a number is too large");
    uint64_t value = !bytes.empty() && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push({Kind::integer, static_cast<int64_t>(value)});
  }
  void global(std::string name) {
    if (!known_(name))
      fail("it names " + quote(name) + ", which is no part of a tensor",
           "Only tensors are read, and nothing is executed. Save model.state_dict() instead.");
    push({Kind::global, 0, 0, std::move(name)});
  }
  void reduce() {
    const Index arguments = pop(), function = pop();
    const Node &f = out_.nodes[function], &a = out_.nodes[arguments];
    if (f.kind != Kind::global || a.kind != Kind::tuple) fail("the pickle calls what is no function");
    if (f.text == "collections OrderedDict" && a.items.empty()) return push({Kind::dict});
    push({Kind::call, 0, 0, {}, {function, arguments}});
  }
  void remember(uint32_t place) { memo_[place] = top(); }
  void recall(uint32_t place) {
    const auto it = memo_.find(place);
    if (it == memo_.end()) fail("the pickle takes what is not there");
    stack_.push_back(it->second);
  }

  bool step(uint8_t op);
  bool simple(uint8_t op);
  bool collection(uint8_t op);

  std::span<const std::byte> bytes_;
  const std::string& file_;
  const std::function<bool(std::string_view)>& known_;
  size_t at_ = 0;
  Pickle out_;
  std::vector<Index> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, Index> memo_;
};

// Values that stand alone.
bool Machine::simple(uint8_t op) {
  switch (op) {
    case 'N':
      push({});
      return true;
    case 0x88:
      push({Kind::boolean, 1});
      return true;
    case 0x89:
      push({Kind::boolean, 0});
      return true;
    case 'J':
      push({Kind::integer, number<int32_t>()});
      return true;
    case 'K':
      push({Kind::integer, number<uint8_t>()});
      return true;
    case 'M':
      push({Kind::integer, number<uint16_t>()});
      return true;
    case 0x8a:
      long_integer(take(number<uint8_t>()));
      return true;
    case 'G':
      push({Kind::real, 0, std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()))});
      return true;
    case 'X':
      push({Kind::text, 0, 0, std::string(take(number<uint32_t>()))});
      return true;
    case 0x8c:
      push({Kind::text, 0, 0, std::string(take(number<uint8_t>()))});
      return true;
    case 'c': {
      const std::string module(line());
      global(module + " " + std::string(line()));
      return true;
    }
    default:
      return false;
  }
}

bool Machine::collection(uint8_t op) {
  switch (op) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case ')':
      push({Kind::tuple});
      return true;
    case ']':
      push({Kind::list});
      return true;
    case '}':
      push({Kind::dict});
      return true;
    case 0x85:
      tuple(1);
      return true;
    case 0x86:
      tuple(2);
      return true;
    case 0x87:
      tuple(3);
      return true;
    case 't':
      push({Kind::tuple, 0, 0, {}, pop_marked()});
      return true;
    case 'e':
      fill(Kind::list, pop_marked());
      return true;
    case 'u':
      fill(Kind::dict, pop_marked());
      return true;
    case 'a': {
      const Index item = pop();
      fill(Kind::list, {item});
      return true;
    }
    case 's': {
      const Index value = pop(), key = pop();
      fill(Kind::dict, {key, value});
      return true;
    }
    default:
      return false;
  }
}

bool Machine::step(uint8_t op) {
  if (simple(op) || collection(op)) return true;
  switch (op) {
    case 0x80:
      if (const int version = number<uint8_t>(); version > 5) fail("a pickle of an unknown version");
      return true;
    case 0x95:
      (void)take(8);
      return true;  // the length of a frame
    case 'q':
      remember(number<uint8_t>());
      return true;
    case 'r':
      remember(number<uint32_t>());
      return true;
    case 0x94:
      remember(static_cast<uint32_t>(memo_.size()));
      return true;
    case 'h':
      recall(number<uint8_t>());
      return true;
    case 'j':
      recall(number<uint32_t>());
      return true;
    case 'R':
      reduce();
      return true;
    case 'Q': {
      const Index id = pop();
      push({Kind::persistent, 0, 0, {}, {id}});
      return true;
    }
    case 'b':  // attributes of a dict (the versions of modules): they say nothing of tensors
      (void)pop();
      (void)top_of(Kind::dict);
      return true;
    case '.':
      out_.root = pop();
      return false;
    default:
      fail(fmt::format("the pickle does what no file of tensors does (0x{:02x})", op));
  }
}

}  // namespace

Pickle unpickle(std::span<const std::byte> bytes, const std::string& file,
                const std::function<bool(std::string_view)>& known) {
  return Machine(bytes, file, known).run();
}

}  // namespace tpubridge::pickled
