#include "tests/hlo/all_ops.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace tpubridge::hlo {
namespace {

using nlohmann::json;

void append_number(std::vector<long double>& out, const json& v) {
  if (v.is_array()) {
    for (const json& part : v) append_number(out, part);
  } else if (v.is_string()) {
    out.push_back(std::stold(v.get<std::string>()));  // inf, -inf, nan
  } else if (v.is_number_unsigned()) {
    out.push_back(static_cast<long double>(v.get<uint64_t>()));
  } else if (v.is_number_integer()) {
    out.push_back(static_cast<long double>(v.get<int64_t>()));
  } else {
    out.push_back(v.get<double>());
  }
}

Reference to_reference(const json& j) {
  Reference out{{dtype_from_name(j.at("dtype").get<std::string>()).value(), j.at("dims")}, {}};
  for (const json& v : j.at("data")) append_number(out.data, v);
  if (out.shape.dtype == DType::f32 || out.shape.dtype == DType::c64)  // the file has the shortest digits
    for (long double& v : out.data) v = static_cast<float>(v);
  return out;
}

}  // namespace

const std::map<std::string, ReferenceCase>& reference() {
  static const auto cases = [] {
    std::ifstream file(TEST_DATA "/hlo_reference.json");
    std::map<std::string, ReferenceCase> out;
    for (const json& c : json::parse(file)) {
      ReferenceCase& r = out[c.at("name")];
      for (const json& i : c.at("inputs")) r.inputs.push_back(to_reference(i));
      for (const json& o : c.at("outputs")) r.outputs.push_back(to_reference(o));
      r.tolerance = c.at("tol");
    }
    return out;
  }();
  return cases;
}

Sample build(const Family& family) {
  Builder b({.name = family.name});
  Values results;
  for (const Case& c : family.cases) {
    Values inputs;
    for (const Reference& r : reference().at(c.name).inputs) inputs.push_back(b.parameter(r.shape));
    const LocationScope here(b, {.name = c.name, .file = "cases.cc", .line = 1, .column = 1});
    const Values out = c.build(b, inputs);
    results.insert(results.end(), out.begin(), out.end());
  }
  return {family.name, b.finish(results), 1, 1, false, family.tpu};
}

Sample collective_sample() {
  Builder b({.name = "collectives", .replicas = 4});
  const Value x = b.parameter({DType::f32, {4, 2}});
  const std::vector<std::vector<int64_t>> pairs = {{0, 1}, {2, 3}};
  const Values two = all_reduce({x, reduce(x, {1}, Reducer::add)},
                                [](In a) -> Values { return {maximum(a[0], a[1])}; }, {.groups = pairs});
  return {
      "collectives",
      b.finish({all_reduce(x, Reducer::add), two[0], two[1], all_gather(x, 1, {.groups = pairs}),
                reduce_scatter(x, 0, Reducer::add), reduce_scatter(x, 1, Reducer::maximum, {.groups = pairs}),
                all_to_all(x, 0, 1), collective_permute(x, {{0, 1}, {1, 2}, {2, 3}}),
                convert(replica_id(b), DType::s32), convert(partition_id(b), DType::s32),
                all_reduce(x, Reducer::minimum, {.groups = pairs, .channel = 1, .global_ids = true})}),
      4, 1};
}

Sample uneven_sample() {
  Builder b({.name = "uneven", .replicas = 4});
  const Value x = b.parameter({DType::f32, {4, 2}});
  return {"uneven", b.finish({all_reduce(x, Reducer::add, {.groups = {{0, 1, 2}, {3}}})}), 4, 1, false,
          false};
}

Sample broadcast_sample() {
  Builder b({.name = "broadcast", .replicas = 4});
  const Value x = b.parameter({DType::f32, {4, 2}});
  return {"broadcast", b.finish({collective_broadcast(x, {.groups = {{2, 0, 1, 3}}})}), 4, 1, false, false};
}

Sample sharded_sample() {
  Builder b({.name = "sharded", .partitions = 4, .meshes = {{"mesh", {{"data", 2}, {"model", 2}}}}});
  const Sharding rows{"mesh", {{"data"}, {}}}, columns{"mesh", {{}, {"model"}}},
      both{"mesh", {{"data"}, {"model"}}};
  const Value x = b.parameter({DType::f32, {4, 2}}, {.sharding = rows, .name = "x"});
  const Value w = b.parameter({DType::f32, {2, 6}}, {.sharding = columns, .name = "w"});
  const Value y = matmul(x, w);
  const Value sum = reduce(sharding_constraint(y, {"mesh", {{}, {}}, true}), {0, 1}, Reducer::add);
  return {"sharded", b.finish({y, sum}, {{.sharding = both}, {.sharding = Sharding{"mesh", {}}}}), 1, 4,
          true};
}

Sample gspmd_sample() {
  Builder b({.name = "gspmd", .partitions = 4});
  const Value x = b.parameter({DType::f32, {8}}, {.mhlo_sharding = "{devices=[4]<=[4]}"});
  const Value y = mhlo_sharding_constraint(x * x, "{replicated}");
  return {"gspmd",
          b.finish({y + x, reduce(y, {0}, Reducer::add)},
                   {{.mhlo_sharding = "{devices=[4]<=[4]}"}, {.mhlo_sharding = "{replicated}"}}),
          1, 4};
}

std::vector<Sample> all_ops() {
  std::vector<Sample> out;
  for (const Family& f : families()) out.push_back(build(f));
  out.push_back(collective_sample());
  out.push_back(uneven_sample());
  out.push_back(broadcast_sample());
  out.push_back(sharded_sample());
  out.push_back(gspmd_sample());
  return out;
}

}  // namespace tpubridge::hlo
