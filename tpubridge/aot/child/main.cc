// tpubridge-aot REQUEST.json RESPONSE.json: compiles one program with libtpu for a TPU that is not here.
//
// A process of its own, because libtpu may abort, hang or take all memory, and because it is an x86_64
// library. Whatever happens short of that is told in RESPONSE.json, written in one piece (libtpu prints on
// stdout and stderr). aot/protocol.h describes both documents.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/limits.h"
#include "tpubridge/capi/collectives.h"
#include "tpubridge/pjrt/plugin.h"
#include "tpubridge/pjrt/topology.h"

namespace {

using nlohmann::json;
using namespace tpubridge;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// libtpu reads these when it is loaded. Nothing may ask the network, and nothing here touches a TPU, so that
// many such processes may run at once, beside one that trains.
void prepare_environment() {
  setenv("TPU_SKIP_MDS_QUERY", "1", 1);
  setenv("TPU_WORKER_HOSTNAMES", "localhost", 1);
  setenv("TPU_WORKER_ID", "0", 1);
  setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 1);  // any: topologies are named one by one
  setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 1);
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
  unsetenv("XLA_FLAGS");  // meant for the plugin of the parent; ours come by the request
}

json describe_topology(const pjrt::Topology& topology) {
  const auto devices = topology.devices();
  std::set<std::pair<int64_t, std::vector<int64_t>>> places;  // in which slice, and where
  std::set<int> hosts;
  for (const auto& d : devices) {
    const auto slice = d.attributes.find("slice_index");
    const auto* index = slice == d.attributes.end() ? nullptr : std::get_if<int64_t>(&slice->second);
    places.emplace(index ? *index : 0, d.coords());
    hosts.insert(d.process_index);
  }
  json out = {{"platform", topology.platform_name()},
              {"devices", devices.size()},
              {"chips", places.size()},
              {"hosts", hosts.size()}};
  if (devices.empty()) return out;
  const auto& first = devices.front();
  out["device_kind"] = first.kind;
  if (const auto limit = first.attributes.find("device_memory_bytes_limit"); limit != first.attributes.end())
    if (const auto* bytes = std::get_if<int64_t>(&limit->second)) out["hbm_bytes"] = *bytes;
  return out;
}

pjrt::CompileOptions options_of(const JsonReader& request) {
  pjrt::CompileOptions out;
  out.num_replicas = static_cast<int>(request.integer("replicas"));
  out.num_partitions = static_cast<int>(request.integer("partitions"));
  out.use_spmd_partitioning = out.num_partitions > 1;
  out.use_shardy = request.flag("shardy");
  for (const auto& [name, value] : request.json().at("xla_options").items()) {
    if (value.is_boolean())
      out.overrides[name] = value.get<bool>();
    else if (value.is_number_integer())
      out.overrides[name] = value.get<int64_t>();
    else if (value.is_number())
      out.overrides[name] = value.get<double>();
    else
      out.overrides[name] = value.get<std::string>();
  }
  return out;
}

json numbers_of(const pjrt::Executable& program, int64_t partitions) {
  const pjrt::ProgramMemory m = program.memory();
  json out = {{"memory",
               {{"arguments", m.arguments},
                {"outputs", m.outputs},
                {"temporaries", m.temporaries},
                {"aliased", m.aliased},
                {"code", m.code},
                {"peak", m.peak}}}};
  if (partitions > 1) {
    const pjrt::Program code = program.optimized_program();
    json& all = out["collectives"] = json::array();
    for (const auto& c : pjrt::hlo_collectives(code.code, code.format))
      all.push_back({{"kind", c.kind}, {"count", c.count}, {"bytes", c.bytes}});
  }
  json& cost = out["cost"] = json::object();
  for (const auto& [name, value] : program.cost_analysis()) {
    if (const auto* f = std::get_if<float>(&value)) cost[name] = *f;
    if (const auto* i = std::get_if<int64_t>(&value)) cost[name] = *i;
  }
  return out;
}

// Fills the response step by step, so that it names the stage that failed.
void work(const Path& request_file, json& response) {
  const JsonReader request = JsonReader::of_file(request_file);
  prepare_environment();
  const pjrt::Program program{read_file(request.text("program")), "mlir"};

  response["stage"] = "load";
  const auto start = std::chrono::steady_clock::now();
  const auto plugin = pjrt::Plugin::load(request.text("libtpu"));

  response["stage"] = "topology";
  pjrt::Values options;
  if (const std::string cores = request.text("chip_config"); !cores.empty())
    options["chip_config_name"] = cores;
  if (const int64_t slices = request.integer("slices", 1); slices > 1) options["num_slices"] = slices;
  const pjrt::Topology topology(plugin, request.text("topology"), options);
  response["topology"] = describe_topology(topology);
  response["load_seconds"] = seconds_since(start);

  response["stage"] = "compile";
  const auto compile_start = std::chrono::steady_clock::now();
  pjrt::CompileOptions compile_options = options_of(request);
  // By itself libtpu would have a replica in each slice.
  if (request.integer("slices", 1) > 1)
    for (const auto& d : topology.devices()) compile_options.devices.push_back(d.id);
  const pjrt::Executable executable = topology.compile(program, compile_options);
  response["compile_seconds"] = seconds_since(compile_start);

  response["stage"] = "report";
  response.update(numbers_of(executable, request.integer("partitions")));
  if (const std::string to = request.text("executable"); !to.empty()) write_file(to, executable.serialize());
  response["stage"] = "done";
}

json describe_error(const Error& e) {
  return {{"type", e.type_name()},
          {"message", e.message()},
          {"hint", e.hint()},
          {"code", static_cast<int>(e.code())},
          {"xla_code", e.detail("xla_code")}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: tpubridge-aot REQUEST.json RESPONSE.json\n(started by `tpubridge fit`)\n", stderr);
    return 64;
  }
  limit_this_process();
  json response = {{"stage", "request"}};
  try {
    work(argv[1], response);
  } catch (const Error& e) {
    response["error"] = describe_error(e);
  } catch (const std::exception& e) {
    response["error"] = {{"type", "std::exception"}, {"message", e.what()}};
  }
  try {
    write_file(argv[2], response.dump(-1, ' ', false, json::error_handler_t::replace));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tpubridge-aot: %s\n", e.what());
    _exit(74);
  }
  _exit(0);  // libtpu's threads and static destructors are not waited for
}
