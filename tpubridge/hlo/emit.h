// Inside of hlo/: the state of a Builder and the writer of one op. Only the files that define ops include it.
//
// Invariant: the text of a Builder always ends after a whole op. An op that is given up half-way (an
// exception in a region) takes back what it wrote.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/definition.h"

namespace tpubridge::hlo {

inline void append_int(std::string& out, int64_t n) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, n).ptr;
  out.append(buffer, end);
}
void append_list(std::string& out, List<int64_t> items);      // 1, 2, 3
void append_quoted(std::string& out, std::string_view text);  // "text", escaped as MLIR wants it
[[nodiscard]] std::string quoted(std::string_view text);
[[nodiscard]] bool is_symbol(std::string_view name);  // may stand after @ with no quotes
[[nodiscard]] std::string sharding_text(std::string_view op, const Builder& b, const Sharding& sharding,
                                        const Type* type);  // <@mesh, [{"x"}, {}]>, checked

void check_mesh(const Mesh& mesh);
[[nodiscard]] std::string mesh_text(const Mesh& mesh);

struct TypeKey {
  DType dtype;
  std::span<const int64_t> dims;
};
struct TypeHash {
  using is_transparent = void;
  size_t operator()(const TypeKey& k) const;
  size_t operator()(const Type& t) const { return (*this)(TypeKey{t.shape.dtype, t.shape.dims}); }
};
struct TypeEqual {
  using is_transparent = void;
  bool operator()(const Type& a, const Type& b) const { return a.shape == b.shape; }
  bool operator()(const TypeKey& a, const Type& b) const;
  bool operator()(const Type& a, const TypeKey& b) const { return (*this)(b, a); }
};

struct BuilderState {
  // Where ops go now: a function's text, and the regions open in it. Values of a region can be seen while it
  // is open; a closed region (reducers, comparators, functions) sees nothing from outside.
  struct Frame {
    std::string text;
    std::vector<uint32_t> scopes;  // serial numbers, growing
    uint32_t floor = 0;            // the oldest scope that can be seen
  };

  ModuleOptions options;
  Frame main;
  Frame* frame = &main;
  std::vector<std::pair<Value, ParameterAttrs>> parameters;
  std::unordered_map<std::string, Function> functions;  // addresses stay
  std::string function_text, alias_text;
  std::unordered_set<Type, TypeHash, TypeEqual> types;
  std::unordered_map<uint32_t, Definition> definitions;  // by the id of the result
  std::vector<const Type*> operand_types;                // of the ops being written, as a stack
  std::vector<std::string> locations;                    // #loc1 is locations[0]
  std::unordered_map<std::string, uint32_t> location_ids;
  uint32_t location = 0;  // 0: none
  uint32_t next_id = 0, next_scope = 0;
  size_t ops = 0;
  bool finished = false;
};

class Op {
 public:
  Op(std::string_view name, Builder& b, List<Value> operands);
  Op(std::string_view name, List<Value> operands) : Op(name, operands.front().builder(), operands) {}
  ~Op();
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  // Attributes of the op's definition, in <{…}>; all before the first region.
  Op& attr(std::string_view key, std::string_view text);
  Op& number(std::string_view key, int64_t n, std::string_view type);  // key = n : i64
  Op& flag(std::string_view key, bool value);
  Op& attributes(std::string_view text);                                                  // key = text, …
  Op& list(std::string_view key, List<int64_t> items);                                    // array<i64: 1, 2>
  Op& bools(std::string_view key, const std::vector<bool>& items);                        // array<i1: true>
  Op& table(std::string_view key, const std::vector<std::pair<int64_t, int64_t>>& rows);  // dense<[[0, 1]]>
  Op& string(std::string_view key, std::string_view text);
  std::string& open(
      std::string_view key);  // the caller writes the attribute's text itself, at the end of this

  // A region; `closed` ones see nothing from outside. Gives what the body returned, for checks.
  enum class Sees { all, nothing };
  Values region(List<const Type*> arguments, Sees sees, const Body& body);
  Op& text_region(std::string_view text);  // one written by the caller, without braces

  // Attributes that are not of the op's definition (mhlo.sharding), in {…}; after the regions.
  Op& extra(std::string_view key, std::string_view text);

  // Ends the op.
  Value result(const Type* type);
  Value result(DType dtype, List<int64_t> dims) { return result(b_.type(dtype, dims)); }
  Values results(List<const Type*> types);

  // A body outside of an op: what Builder::function and region() share.
  static Values run_body(Builder& b, List<const Type*> arguments, Sees sees, const Body& body,
                         std::string_view return_op);
  static void check_operand(std::string_view op, const Builder& b, const Value& v);
  static Value make(Builder& b, const Type* type);
  // A function whose text is written already, with those that it calls, and the aliases that stand in it.
  static const Function& adopt(Builder& b, Function f, std::string_view text, std::string_view aliases);
  // Writes down how a result was made.
  static Value defined(Value result, Definition how);
  static void define_anew(Value v, Definition how);  // in the place of what was written down
  static const Definition* definition(Value v);

 private:
  enum class Part { operands, attributes, regions, extras };
  std::string& enter(Part part);
  void end(List<const Type*> types);
  void write_results(size_t count);

  Builder& b_;
  std::string& out_;  // of the frame that was current when the op began; it is again when the op ends
  size_t start_, types_at_;
  uint32_t id_;  // of the first result
  Part part_ = Part::operands;
  bool done_ = false;
};

}  // namespace tpubridge::hlo
