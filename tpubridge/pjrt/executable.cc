#include "tpubridge/pjrt/executable.h"

#include "tpubridge/pjrt/api.h"
#include "tpubridge/pjrt/hlo_signature.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

Executable::Executable(Executable&& other) noexcept
    : plugin_(std::move(other.plugin_)), raw_(std::exchange(other.raw_, nullptr)) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(raw_, other.raw_);
  return *this;
}

Executable::~Executable() {
  if (!raw_) return;
  PJRT_Executable_Destroy_Args args{};
  args.executable = raw_;
  call_noexcept(plugin_->api(), &PJRT_Api::PJRT_Executable_Destroy, args);
}

std::string Executable::name() const {
  PJRT_Executable_Name_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_Name, args);
  return {args.executable_name, args.executable_name_size};
}

int Executable::num_replicas() const {
  PJRT_Executable_NumReplicas_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_NumReplicas, args);
  return static_cast<int>(args.num_replicas);
}

int Executable::num_partitions() const {
  PJRT_Executable_NumPartitions_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_NumPartitions, args);
  return static_cast<int>(args.num_partitions);
}

std::vector<Shape> Executable::results() const {
  PJRT_Executable_OutputElementTypes_Args types{};
  types.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_OutputElementTypes, types);
  PJRT_Executable_OutputDimensions_Args dims{};
  dims.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_OutputDimensions, dims);
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
  PJRT_Executable_GetCostAnalysis_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_GetCostAnalysis, args);
  return from_named(args.properties, args.num_properties);
}

ProgramMemory Executable::memory() const {
  PJRT_Executable_GetCompiledMemoryStats_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_GetCompiledMemoryStats, args);
  return {args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes,
          args.alias_size_in_bytes,          args.temp_size_in_bytes,     args.peak_memory_in_bytes};
}

Program Executable::optimized_program() const {
  PJRT_Program program{};
  program.struct_size = sizeof program;
  PJRT_Executable_OptimizedProgram_Args args{};
  args.executable = raw_;
  args.program = &program;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);  // first call: the size
  Program out{std::string(program.code_size, '\0'), {program.format, program.format_size}};
  program.code = out.code.data();
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_OptimizedProgram, args);
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

std::string Executable::fingerprint() const {
  PJRT_Executable_Fingerprint_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_Fingerprint, args);
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

std::string Executable::serialize() const {
  PJRT_Executable_Serialize_Args args{};
  args.executable = raw_;
  call(plugin_->api(), &PJRT_Api::PJRT_Executable_Serialize, args);
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return out;
}

}  // namespace tpubridge::pjrt
