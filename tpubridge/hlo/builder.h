// Builds one StableHLO module as text: the function @main, private functions beside it, and the regions of
// ops, nested by callbacks.
//
//   Builder b;
//   Value x = b.parameter({DType::f32, {2, 3}});
//   std::string text = b.finish({multiply(x, tanh(x))});
//
// Types and shapes are checked when an op is built: what is wrong throws ProgramError and leaves the program
// as it was before that op. A Builder is used by one thread at a time and never moves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/sharding.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

struct ModuleOptions {
  std::string name = "program";
  int64_t replicas = 1, partitions = 1;
  std::vector<Mesh> meshes = {};  // declared to Shardy
};

struct ParameterAttrs {
  std::optional<int64_t> alias_result = {};  // donated: that result takes over its memory
  bool donate = false;                       // donated: any result may
  std::string mhlo_sharding = {};            // for GSPMD: "{devices=[2,1]<=[2]}"
  std::optional<Sharding> sharding = {};     // for Shardy
  std::string memory_kind = {};              // "pinned_host", "device"
  std::string name = {};                     // shown as its location
};

struct ResultAttrs {
  std::string mhlo_sharding = {};
  std::optional<Sharding> sharding = {};
  std::string memory_kind = {};
  std::string name = {};
};

// Where an op came from: a name ("aten::mm") and, where known, a place in a source file.
struct Location {
  std::string name = {}, file = {};
  int64_t line = 0, column = 0;
};

// A private function of the module, made by Builder::function.
struct Function {
  std::string name;
  std::vector<const Type*> parameters, results;
};

struct BuilderState;

class Builder {
 public:
  explicit Builder(ModuleOptions options = {});
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // A parameter of @main. May be added at any moment before finish().
  Value parameter(const Shape& shape, ParameterAttrs attrs = {});
  // Ends @main and gives the text of the whole module. The builder takes no more ops.
  [[nodiscard]] std::string finish(List<Value> results, List<ResultAttrs> attrs = {});

  // A private function; it sees its parameters and nothing else. For call() and composite().
  const Function& function(std::string_view name, List<Shape> parameters, const Body& body);
  [[nodiscard]] const Function* find_function(std::string_view name) const;  // null where there is none

  [[nodiscard]] const Type* type(DType dtype, List<int64_t> dims);  // throws where a dimension is negative
  [[nodiscard]] const Type* type(const Shape& shape) { return type(shape.dtype, shape.dims); }
  [[nodiscard]] const Mesh* mesh(std::string_view name) const;  // null where none was declared
  [[nodiscard]] int64_t replicas() const;
  [[nodiscard]] int64_t partitions() const;
  [[nodiscard]] size_t op_count() const;   // ops built so far, those of regions too
  [[nodiscard]] size_t text_size() const;  // bytes of text so far in @main

 private:
  friend class Op;
  friend class LocationScope;
  std::unique_ptr<BuilderState> s_;
};

// While it lives, ops built in `b` carry this location.
class LocationScope {
 public:
  LocationScope(Builder& b, const Location& location);
  ~LocationScope();
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  Builder& b_;
  uint32_t before_;
};

}  // namespace tpubridge::hlo
