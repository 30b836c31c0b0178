#include "tpubridge/hlo/emit.h"

#include <algorithm>

#include "tpubridge/hlo/check.h"

namespace tpubridge::hlo {
namespace {

void append_types(std::string& out, std::span<const Type* const> types) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (i) out += ", ";
    out += types[i]->text;
  }
}

void append_id(std::string& out, uint32_t id) {
  out += '%';
  append_int(out, id);
}

// Opens a scope for as long as it lives, also where the body throws.
class ScopeGuard {
 public:
  ScopeGuard(BuilderState::Frame& frame, uint32_t serial, bool closed) : frame_(frame), floor_(frame.floor) {
    frame_.scopes.push_back(serial);
    if (closed) frame_.floor = serial;
  }
  ~ScopeGuard() {
    frame_.scopes.pop_back();
    frame_.floor = floor_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  BuilderState::Frame& frame_;
  uint32_t floor_;
};

}  // namespace

void append_list(std::string& out, List<int64_t> items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append_int(out, items[i]);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += '\\';
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string quoted(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

bool is_symbol(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '$';
  });
}

size_t TypeHash::operator()(const TypeKey& k) const {
  uint64_t h = static_cast<uint64_t>(k.dtype) + 0x9e3779b97f4a7c15ULL * (k.dims.size() + 1);
  for (const int64_t d : k.dims) h = (h ^ static_cast<uint64_t>(d)) * 0x100000001b3ULL ^ (h >> 29);
  return h;
}

bool TypeEqual::operator()(const TypeKey& a, const Type& b) const {
  return a.dtype == b.shape.dtype &&
         std::equal(a.dims.begin(), a.dims.end(), b.shape.dims.begin(), b.shape.dims.end());
}

void Op::check_operand(std::string_view op, const Builder& b, const Value& v) {
  if (&v.builder() != &b) fail(op, "an operand belongs to another program", v);
  const auto& frame = *b.s_->frame;
  if (v.scope_ == frame.scopes.back() ||
      (v.scope_ >= frame.floor && std::binary_search(frame.scopes.begin(), frame.scopes.end(), v.scope_)))
    return;
  fail(op,
       "an operand cannot be seen from here: it belongs to a region that has ended, or to one around a "
       "closed region",
       v);
}

Value Op::make(Builder& b, const Type* type) {
  return {&b, type, b.s_->next_id++, b.s_->frame->scopes.back()};
}

Value Op::defined(Value result, Definition how) {
  result.builder().s_->definitions.emplace(result.id(), std::move(how));
  return result;
}

void Op::define_anew(Value v, Definition how) {
  v.builder().s_->definitions.insert_or_assign(v.id(), std::move(how));
}

const Definition* Op::definition(Value v) {
  const auto& all = v.builder().s_->definitions;
  const auto it = all.find(v.id());
  return it == all.end() ? nullptr : &it->second;
}

// Most ops have one result: it is written in front at once, and mended at the end where there are others.
Op::Op(std::string_view name, Builder& b, List<Value> operands)
    : b_(b),
      out_(b.s_->frame->text),
      start_(out_.size()),
      types_at_(b.s_->operand_types.size()),
      id_(b.s_->next_id) {
  if (b.s_->finished) fail(name, "the program is finished, it takes no more ops");
  for (const Value& v : operands) check_operand(name, b, v);
  ++b.s_->next_id;
  write_results(1);
  out_ += '"';
  out_ += name;
  out_ += "\"(";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i) out_ += ", ";
    append_id(out_, operands[i].id());
    b.s_->operand_types.push_back(operands[i].type());
  }
  out_ += ')';
}

Op::~Op() {
  if (done_) return;
  out_.resize(start_);
  b_.s_->operand_types.resize(types_at_);
}

// "    %7, %9, %10 = " at the end of the text; what follows the first id is consecutive.
void Op::write_results(size_t count) {
  out_.append(2 + 2 * b_.s_->frame->scopes.size(), ' ');
  if (count == 0) return;
  append_id(out_, id_);
  for (size_t i = 1; i < count; ++i)
    append_id(out_.append(", "), b_.s_->next_id + static_cast<uint32_t>(i) - 1);
  out_ += " = ";
}

// Closes what is open and opens `part`, or a comma where it is open already.
std::string& Op::enter(Part part) {
  std::string& out = out_;
  if (part == part_) return out += ", ";
  if (part_ == Part::attributes) out += "}>";
  if (part_ == Part::regions) out += ')';
  part_ = part;
  return out += part == Part::attributes ? " <{" : part == Part::regions ? " (" : " {";
}

Op& Op::attr(std::string_view key, std::string_view text) {
  open(key) += text;
  return *this;
}

Op& Op::extra(std::string_view key, std::string_view text) {
  enter(Part::extras).append(key).append(" = ").append(text);
  return *this;
}

Op& Op::number(std::string_view key, int64_t n, std::string_view type) {
  std::string& out = open(key);
  append_int(out, n);
  out.append(" : ").append(type);
  return *this;
}

Op& Op::attributes(std::string_view text) {
  if (!text.empty()) enter(Part::attributes).append(text);
  return *this;
}

Op& Op::flag(std::string_view key, bool value) { return attr(key, value ? "true" : "false"); }

Op& Op::list(std::string_view key, List<int64_t> items) {
  std::string& out =
      enter(Part::attributes).append(key).append(items.empty() ? " = array<i64" : " = array<i64: ");
  append_list(out, items);
  out += '>';
  return *this;
}

Op& Op::bools(std::string_view key, const std::vector<bool>& items) {
  std::string& out =
      enter(Part::attributes).append(key).append(items.empty() ? " = array<i1" : " = array<i1: ");
  for (size_t i = 0; i < items.size(); ++i) out.append(i ? ", " : "").append(items[i] ? "true" : "false");
  out += '>';
  return *this;
}

Op& Op::table(std::string_view key, const std::vector<std::pair<int64_t, int64_t>>& rows) {
  std::string& out = enter(Part::attributes).append(key).append(rows.empty() ? " = dense<" : " = dense<[");
  for (size_t i = 0; i < rows.size(); ++i) {
    out += i ? ", [" : "[";
    append_list(out, {rows[i].first, rows[i].second});
    out += ']';
  }
  out += rows.empty() ? "> : tensor<" : "]> : tensor<";
  append_int(out, static_cast<int64_t>(rows.size()));
  out += "x2xi64>";
  return *this;
}

Op& Op::string(std::string_view key, std::string_view text) {
  append_quoted(open(key), text);
  return *this;
}

std::string& Op::open(std::string_view key) { return enter(Part::attributes).append(key).append(" = "); }

Values Op::run_body(Builder& b, List<const Type*> arguments, Sees sees, const Body& body,
                    std::string_view return_op) {
  auto& s = *b.s_;
  const ScopeGuard guard(*s.frame, s.next_scope++, sees == Sees::nothing);
  Values inputs;
  for (const Type* t : arguments) inputs.push_back(make(b, t));
  if (!inputs.empty()) {
    std::string& out = s.frame->text;
    for (size_t i = 0; i < inputs.size(); ++i) {
      append_id(out.append(i ? ", " : "^bb0("), inputs[i].id());
      out.append(": ").append(inputs[i].type()->text);
    }
    out += "):\n";
  }
  Values outputs = body(inputs);
  Op(return_op, b, outputs).results({});
  return outputs;
}

Values Op::region(List<const Type*> arguments, Sees sees, const Body& body) {
  enter(Part::regions) += "{\n";
  Values outputs = run_body(b_, arguments, sees, body, "stablehlo.return");
  b_.s_->frame->text += '}';
  return outputs;
}

Op& Op::text_region(std::string_view text) {
  enter(Part::regions).append("{\n").append(text) += '}';
  return *this;
}

// Writes the types, and mends the results in front.
void Op::end(List<const Type*> types) {
  auto& s = *b_.s_;
  if (part_ != Part::operands) out_ += part_ == Part::attributes ? "}>" : part_ == Part::regions ? ")" : "}";
  out_ += " : (";
  append_types(out_, std::span<const Type* const>(s.operand_types).subspan(types_at_));
  out_ += types.size() == 1 ? ") -> " : ") -> (";
  append_types(out_, types);
  if (types.size() != 1) out_ += ')';
  if (s.location) {
    append_int(out_.append(" loc(#loc"), s.location);
    out_ += ')';
  }
  out_ += '\n';
  if (types.size() != 1) {
    const std::string rest = out_.substr(out_.find('"', start_));
    out_.resize(start_);
    write_results(types.size());
    out_ += rest;
  }
  s.operand_types.resize(types_at_);
  ++s.ops;
  done_ = true;
}

Value Op::result(const Type* type) {
  end({type});
  return {&b_, type, id_, b_.s_->frame->scopes.back()};
}

Values Op::results(List<const Type*> types) {
  end(types);
  Values out;
  out.reserve(types.size());
  for (const Type* t : types)
    out.push_back(out.empty() ? Value(&b_, t, id_, b_.s_->frame->scopes.back()) : make(b_, t));
  return out;
}

}  // namespace tpubridge::hlo
