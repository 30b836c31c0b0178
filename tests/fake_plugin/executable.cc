// Programs that are compiled, loaded or not: what the compiler below says of them, as of a TPU.
#include "entry.h"
#include "objects.h"
#include "under.h"

#include <algorithm>

namespace fake {

Program::~Program() {
  auto e = args<PJRT_Executable_Destroy_Args>();
  e.executable = below;
  (void)failure_from(under().PJRT_Executable_Destroy(&e));
  auto l = args<PJRT_LoadedExecutable_Destroy_Args>();
  l.executable = below_loaded;
  (void)failure_from(under().PJRT_LoadedExecutable_Destroy(&l));
}

LoadedExecutable::~LoadedExecutable() {
  if (client) --client->children;
}

namespace {

CompiledStats stats_of(PJRT_Executable* below) {
  auto a = args<PJRT_Executable_GetCompiledMemoryStats_Args>();
  a.executable = below;
  call(&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, a);
  CompiledStats s{a.generated_code_size_in_bytes, a.argument_size_in_bytes, a.output_size_in_bytes,
                  a.alias_size_in_bytes,          a.temp_size_in_bytes,     a.peak_memory_in_bytes};
  s.peak = std::max(s.peak, s.arguments + s.outputs - s.aliases + s.temporaries);
  return s;
}

// What the compiler below counts, and the time that this generation would take at its best.
void cost_of(Program& program) {
  auto a = args<PJRT_Executable_GetCostAnalysis_Args>();
  a.executable = program.below;
  call(&PJRT_Api::PJRT_Executable_GetCostAnalysis, a);
  double flops = 0, bytes = 0;
  for (size_t i = 0; i < a.num_properties; ++i) {
    const PJRT_NamedValue& v = a.properties[i];
    const std::string_view name(v.name, v.name_size);
    if (name == "flops") flops = v.float_value;
    if (name == "bytes accessed") bytes = v.float_value;
    if (name != "optimal_seconds") program.costs.add(v);
  }
  const Generation& g = *program.generation;
  program.costs.add("optimal_seconds",
                    static_cast<float>(std::max(flops / (g.tflops * 1e12), bytes / (g.gbytes_per_s * 1e9))));
}

}  // namespace

std::shared_ptr<Program> describe(PJRT_LoadedExecutable* below, const Generation& generation) {
  auto program = std::make_shared<Program>();
  program->below_loaded = below;
  program->generation = &generation;
  auto e = args<PJRT_LoadedExecutable_GetExecutable_Args>();
  e.loaded_executable = below;
  call(&PJRT_Api::PJRT_LoadedExecutable_GetExecutable, e);
  program->below = e.executable;
  auto name = args<PJRT_Executable_Name_Args>();
  name.executable = e.executable;
  call(&PJRT_Api::PJRT_Executable_Name, name);
  program->name.assign(name.executable_name, name.executable_name_size);
  auto outputs = args<PJRT_Executable_NumOutputs_Args>();
  outputs.executable = e.executable;
  call(&PJRT_Api::PJRT_Executable_NumOutputs, outputs);
  program->outputs = outputs.num_outputs;
  auto print = args<PJRT_Executable_Fingerprint_Args>();
  print.executable = e.executable;
  call(&PJRT_Api::PJRT_Executable_Fingerprint, print);
  program->fingerprint = std::string(generation.name) + "-" +
                         std::string(print.executable_fingerprint, print.executable_fingerprint_size);
  program->stats = stats_of(e.executable);
  cost_of(*program);
  return program;
}

namespace {

template <auto Function, class Args>
void ask(Args& a) {
  const auto executable = get<Executable>(a.executable);
  forward(Function, a, &Args::executable, executable->program->below);
}

void destroy(PJRT_Executable_Destroy_Args& a) {
  if (a.executable) take<Executable>(a.executable);
}

void fingerprint(PJRT_Executable_Fingerprint_Args& a) {
  const auto executable = get<Executable>(a.executable);
  a.executable_fingerprint = executable->program->fingerprint.c_str();
  a.executable_fingerprint_size = executable->program->fingerprint.size();
}

void costs(PJRT_Executable_GetCostAnalysis_Args& a) {
  const auto executable = get<Executable>(a.executable);
  a.properties = executable->program->costs.data();
  a.num_properties = executable->program->costs.size();
}

void memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& a) {
  const CompiledStats s = get<Executable>(a.executable)->program->stats;
  a.generated_code_size_in_bytes = s.code;
  a.argument_size_in_bytes = s.arguments;
  a.output_size_in_bytes = s.outputs;
  a.alias_size_in_bytes = s.aliases;
  a.temp_size_in_bytes = s.temporaries;
  a.host_generated_code_size_in_bytes = a.host_argument_size_in_bytes = a.host_output_size_in_bytes =
      a.host_alias_size_in_bytes = a.host_temp_size_in_bytes = 0;
  if (settings().minor >= 72) a.peak_memory_in_bytes = s.peak;  // an older plugin does not know the field
}

void program(PJRT_Executable_OptimizedProgram_Args& a) {
  if (!a.program) registry::misuse("the program is null");
  ask<&PJRT_Api::PJRT_Executable_OptimizedProgram>(a);
}

}  // namespace

void install_executables(PJRT_Api& api) {
  FAKE_SET(PJRT_Executable_Destroy, destroy);
  FAKE_SET(PJRT_Executable_Name, ask<&PJRT_Api::PJRT_Executable_Name>);
  FAKE_SET(PJRT_Executable_NumReplicas, ask<&PJRT_Api::PJRT_Executable_NumReplicas>);
  FAKE_SET(PJRT_Executable_NumPartitions, ask<&PJRT_Api::PJRT_Executable_NumPartitions>);
  FAKE_SET(PJRT_Executable_NumOutputs, ask<&PJRT_Api::PJRT_Executable_NumOutputs>);
  FAKE_SET(PJRT_Executable_SizeOfGeneratedCodeInBytes,
           ask<&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes>);
  FAKE_SET(PJRT_Executable_OutputMemoryKinds, ask<&PJRT_Api::PJRT_Executable_OutputMemoryKinds>);
  FAKE_SET(PJRT_Executable_OutputElementTypes, ask<&PJRT_Api::PJRT_Executable_OutputElementTypes>);
  FAKE_SET(PJRT_Executable_OutputDimensions, ask<&PJRT_Api::PJRT_Executable_OutputDimensions>);
  FAKE_SET(PJRT_Executable_OptimizedProgram, program);
  FAKE_SET(PJRT_Executable_Fingerprint, fingerprint);
  FAKE_SET(PJRT_Executable_GetCostAnalysis, costs);
  FAKE_SET(PJRT_Executable_GetCompiledMemoryStats, memory_stats);
}

}  // namespace fake
