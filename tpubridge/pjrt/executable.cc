#include "tpubridge/pjrt/executable.h"

#include "tpubridge/capi/call.h"
#include "tpubridge/capi/convert.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

Executable::Executable(std::shared_ptr<Plugin> plugin, PJRT_Executable* raw)
    : plugin_(std::move(plugin)), raw_(plugin_->api(), raw) {}

std::string Executable::name() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_Executable_Name);
  return {args.executable_name, args.executable_name_size};
}

int Executable::num_replicas() const {
  return static_cast<int>(ask(raw_, &PJRT_Api::PJRT_Executable_NumReplicas).num_replicas);
}

int Executable::num_partitions() const {
  return static_cast<int>(ask(raw_, &PJRT_Api::PJRT_Executable_NumPartitions).num_partitions);
}

std::vector<Shape> Executable::results() const {
  const auto types = ask(raw_, &PJRT_Api::PJRT_Executable_OutputElementTypes);
  const auto dims = ask(raw_, &PJRT_Api::PJRT_Executable_OutputDimensions);
  std::vector<Shape> out(types.num_output_types);
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = from_pjrt(types.output_types[i]);
    out[i].dims.assign(next, next + dims.dim_sizes[i]);
    next += dims.dim_sizes[i];
  }
  return out;
}

Values Executable::cost_analysis() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_Executable_GetCostAnalysis);
  return from_pjrt(args.properties, args.num_properties);
}

ProgramMemory Executable::memory() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats);
  return {args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes,
          args.alias_size_in_bytes,          args.temp_size_in_bytes,     args.peak_memory_in_bytes};
}

Program Executable::optimized_program() const {
  PJRT_Program program{};
  program.struct_size = sizeof program;
  PJRT_Executable_OptimizedProgram_Args args{};
  args.executable = raw_.get();
  args.program = &program;
  call(raw_.api(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);  // first call: the size
  Program out{std::string(program.code_size, '\0'), {program.format, program.format_size}};
  program.code = out.code.data();
  call(raw_.api(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);
  return out;
}

std::optional<Signature> Executable::signature() const {
  try {
    const Program program = optimized_program();
    return hlo_signature(program.code, program.format);
  } catch (const UnsupportedError&) {
    return std::nullopt;  // the caller then checks what it can without it
  }
}

std::optional<std::vector<Tiling>> Executable::result_tilings() const {
  try {
    const Program program = optimized_program();
    return hlo_result_tilings(program.code, program.format, num_partitions());
  } catch (const UnsupportedError&) {
    return std::nullopt;
  }
}

std::string Executable::fingerprint() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_Executable_Fingerprint);
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

std::string Executable::serialize() const {
  const auto args = ask(raw_, &PJRT_Api::PJRT_Executable_Serialize);
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return out;
}

}  // namespace tpubridge::pjrt
