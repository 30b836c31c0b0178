#include "tpubridge/hlo/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

using Attrs = std::vector<std::pair<std::string_view, std::string>>;

void append_attrs(std::string& out, const Attrs& attrs) {
  for (size_t i = 0; i < attrs.size(); ++i)
    out.append(i ? ", " : " {").append(attrs[i].first).append(" = ").append(attrs[i].second);
  if (!attrs.empty()) out += '}';
}

// Moves the frame of a function in, and the one before back out.
class FrameGuard {
 public:
  FrameGuard(BuilderState& s, BuilderState::Frame& frame) : s_(s), before_(s.frame) { s.frame = &frame; }
  ~FrameGuard() { s_.frame = before_; }
  FrameGuard(const FrameGuard&) = delete;
  FrameGuard& operator=(const FrameGuard&) = delete;

 private:
  BuilderState& s_;
  BuilderState::Frame* before_;
};

Attrs attrs_of(const Builder& b, const Type* type, const std::string& mhlo_sharding,
               const std::optional<Sharding>& sharding, const std::string& memory_kind) {
  Attrs out;
  if (!mhlo_sharding.empty()) out.emplace_back("mhlo.sharding", hlo::quoted(mhlo_sharding));
  if (sharding)
    out.emplace_back("sdy.sharding", "#sdy.sharding" + sharding_text("func.func", b, *sharding, type));
  if (!memory_kind.empty()) out.emplace_back("mhlo.memory_kind", hlo::quoted(memory_kind));
  return out;
}

void check_donation(const std::vector<std::pair<Value, ParameterAttrs>>& parameters, List<Value> results) {
  std::vector<int64_t> taken;
  for (const auto& [value, attrs] : parameters) {
    if (!attrs.alias_result) continue;
    const int64_t n = *attrs.alias_result;
    if (n < 0 || n >= static_cast<int64_t>(results.size()))
      fail("func.func",
           fmt::format("a parameter is donated to result {}, but there are {}", n, results.size()), value);
    if (contains(taken, n))
      fail("func.func", fmt::format("two parameters are donated to result {}", n), value);
    const Value& result = results[static_cast<size_t>(n)];
    if (result.type() != value.type())
      fail("func.func", fmt::format("a parameter is donated to result {}, which has another type", n),
           {{"parameter", value.shape().str()}, {"result", result.shape().str()}});
    taken.push_back(n);
  }
}

std::string location_text(const Location& l) {
  if (l.file.empty()) return "loc(" + hlo::quoted(l.name) + ")";
  const std::string place = fmt::format("{}:{}:{}", hlo::quoted(l.file), l.line, l.column);
  return l.name.empty() ? "loc(" + place + ")" : fmt::format("loc({}({}))", hlo::quoted(l.name), place);
}

}  // namespace

const Type* Value::empty() { throw ProgramError("an empty hlo::Value was used"); }

Builder::Builder(ModuleOptions options) : s_(std::make_unique<BuilderState>()) {
  if (!is_symbol(options.name)) fail("module", fmt::format("'{}' is not a name", options.name));
  if (options.replicas < 1 || options.partitions < 1)
    fail("module", fmt::format("{} replicas and {} partitions: both must be at least 1", options.replicas,
                               options.partitions));
  for (const Mesh& m : options.meshes) check_mesh(m);
  for (size_t i = 0; i < options.meshes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (options.meshes[i].name == options.meshes[j].name)
        fail("sdy.mesh", fmt::format("'{}' is declared twice", options.meshes[i].name));
  s_->options = std::move(options);
  s_->main.scopes.push_back(s_->next_scope++);
}

Builder::~Builder() = default;

const Type* Builder::type(DType dtype, List<int64_t> dims) {
  const TypeKey key{dtype, dims};
  if (const auto it = s_->types.find(key); it != s_->types.end()) return &*it;
  Shape shape{dtype, dims.vec()};
  try {
    (void)shape.bytes();
  } catch (const ArgumentError&) {
    fail("tensor", "a type has a negative dimension or more bytes than can be counted",
         {{"type", shape.str()}});
  }
  if (dtype == DType::token && !dims.empty()) fail("tensor", "a token has no dimensions");
  std::string text = shape.mlir();
  return &*s_->types.insert(Type{std::move(shape), std::move(text)}).first;
}

Value Builder::parameter(const Shape& shape, ParameterAttrs attrs) {
  if (s_->finished) fail("func.func", "the program is finished, it takes no more parameters");
  const Type* t = type(shape);
  if (attrs.sharding) (void)sharding_text("func.func", *this, *attrs.sharding, t);
  const Value v(this, t, s_->next_id++, s_->main.scopes.front());
  s_->parameters.emplace_back(v, std::move(attrs));
  return v;
}

const Function& Builder::function(std::string_view name, List<Shape> parameters, const Body& body) {
  if (!is_symbol(name)) fail("func.func", fmt::format("'{}' is not a name", name));
  if (name == "main" || find_function(name))
    fail("func.func", fmt::format("there is a function '{}' already", name));
  Function f{std::string(name), {}, {}};
  for (const Shape& s : parameters) f.parameters.push_back(type(s));

  BuilderState::Frame frame;
  const FrameGuard guard(*s_, frame);
  const Values results = Op::run_body(*this, f.parameters, Op::Sees::nothing, body, "func.return");
  for (const Value& v : results) f.results.push_back(v.type());
  if (find_function(name))
    fail("func.func", fmt::format("the body of '{}' made a function of that name", name));

  // The first line of the body is ^bb0(%1: type, …): the parameters of the function.
  const std::string& text = frame.text;
  const size_t line = f.parameters.empty() ? 0 : text.find('\n') + 1;
  std::string& out = s_->function_text;
  out.append("  func.func private @").append(name) += '(';
  if (line) out.append(text, 5, line - 5 - 3);
  out += ") -> (";
  for (size_t i = 0; i < f.results.size(); ++i) out.append(i ? ", " : "").append(f.results[i]->text);
  out.append(") {\n").append(text, line, text.npos).append("  }\n");
  return s_->functions.emplace(name, std::move(f)).first->second;
}

const Function& Op::adopt(Builder& b, Function f, std::string_view text, std::string_view aliases) {
  b.s_->function_text += text;
  b.s_->alias_text += aliases;
  std::string name = f.name;
  return b.s_->functions.emplace(std::move(name), std::move(f)).first->second;
}

const Function* Builder::find_function(std::string_view name) const {
  const auto it = s_->functions.find(std::string(name));
  return it == s_->functions.end() ? nullptr : &it->second;
}

const Mesh* Builder::mesh(std::string_view name) const {
  for (const Mesh& m : s_->options.meshes)
    if (m.name == name) return &m;
  return nullptr;
}

int64_t Builder::replicas() const { return s_->options.replicas; }
int64_t Builder::partitions() const { return s_->options.partitions; }
size_t Builder::op_count() const { return s_->ops; }
size_t Builder::text_size() const { return s_->main.text.size(); }

std::string Builder::finish(List<Value> results, List<ResultAttrs> attrs) {
  if (s_->frame != &s_->main || s_->main.scopes.size() != 1)
    fail("func.func", "finish() was called inside a region");
  if (!attrs.empty()) check_count("func.func", "the list of result attributes", attrs.size(), results.size());
  for (const Value& v : results) Op::check_operand("func.return", *this, v);
  check_donation(s_->parameters, results);

  std::string out;
  out.reserve(s_->main.text.size() + s_->function_text.size() + 256 +
              64 * (s_->parameters.size() + results.size()));
  out += fmt::format(
      "module @{} attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = {} : i32}} {{\n",
      s_->options.name, s_->options.partitions, s_->options.replicas);
  for (const Mesh& m : s_->options.meshes) out.append("  ").append(mesh_text(m)) += '\n';
  out += "  func.func public @main(";
  for (size_t i = 0; i < s_->parameters.size(); ++i) {
    const auto& [value, a] = s_->parameters[i];
    append_int(out.append(i ? ", %" : "%"), value.id());
    out.append(": ").append(value.type()->text);
    Attrs list = attrs_of(*this, value.type(), a.mhlo_sharding, a.sharding, a.memory_kind);
    if (a.alias_result) list.emplace_back("tf.aliasing_output", fmt::format("{} : i32", *a.alias_result));
    if (a.donate && !a.alias_result) list.emplace_back("jax.buffer_donor", "true");
    append_attrs(out, list);
    if (!a.name.empty()) out.append(" loc(").append(hlo::quoted(a.name)) += ')';
  }
  out += ") -> (";
  for (size_t i = 0; i < results.size(); ++i) {
    out.append(i ? ", " : "").append(results[i].type()->text);
    if (attrs.empty()) continue;
    Attrs list =
        attrs_of(*this, results[i].type(), attrs[i].mhlo_sharding, attrs[i].sharding, attrs[i].memory_kind);
    if (!attrs[i].name.empty()) list.emplace_back("jax.result_info", hlo::quoted(attrs[i].name));
    append_attrs(out, list);
  }
  out += ") {\n";
  Op("func.return", *this, results).results({});
  s_->finished = true;
  out.append(s_->main.text).append("  }\n").append(s_->function_text).append("}\n");
  for (size_t i = 0; i < s_->locations.size(); ++i)
    out += fmt::format("#loc{} = {}\n", i + 1, s_->locations[i]);
  out += s_->alias_text;
  return out;
}

LocationScope::LocationScope(Builder& b, const Location& location) : b_(b), before_(b.s_->location) {
  if (location.name.empty() && location.file.empty()) fail("loc", "a location needs a name or a file");
  auto& s = *b.s_;
  const auto [it, fresh] = s.location_ids.try_emplace(location_text(location), s.locations.size() + 1);
  if (fresh) s.locations.push_back(it->first);
  s.location = it->second;
}

LocationScope::~LocationScope() { b_.s_->location = before_; }

}  // namespace tpubridge::hlo
