#include "tools/compile/compile.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>

#include "tools/compile/models.h"
#include "tools/interrupt.h"
#include "tpubridge/aot/generations.h"
#include "tpubridge/export/save.h"

namespace tpubridge::tools {
namespace {

// The examples of one program.
std::vector<ExportInput> examples(const CompileModel& model, const std::vector<Bucket>& buckets,
                                  size_t index) {
  std::vector<ExportInput> out;
  for (const auto& input : model.inputs) {
    const auto given = std::ranges::find(buckets, input.name, &Bucket::input);
    if (given == buckets.end() && !input.sizes)
      throw ArgumentError(
          "the model takes input " + input.name + " in several sizes: say which", {{"input", input.name}},
          "Give them with --buckets " + input.name + "=SIZES, as in --buckets input_ids=1x16,1x32.",
          Code::invalid_argument);
    const auto& sizes = given == buckets.end()     ? *input.sizes
                        : given->sizes.size() == 1 ? given->sizes[0]
                                                   : given->sizes[index];
    out.push_back({input.name, torch::zeros(sizes, torch::dtype(input.type))});
  }
  return out;
}

void check_bucket_names(const CompileModel& model, const std::vector<Bucket>& buckets) {
  std::string names;
  for (const auto& input : model.inputs) names += (names.empty() ? "" : ", ") + input.name;
  for (const Bucket& b : buckets)
    if (std::ranges::find(model.inputs, b.input, &CompileModel::Input::name) == model.inputs.end())
      throw ArgumentError("--buckets names " + b.input + "; the model takes " + names, {{"input", b.input}},
                          "", Code::invalid_argument);
}

ExportedProgram export_model(const CompileModel& model, const std::vector<ExportInput>& inputs,
                             const std::string& file, bool constants) {
  ExportOptions options{.modules = {model.module}, .weights_as_constants = constants, .name = file};
  // Names of results are known when it was called.
  ExportedProgram out = export_program(
      inputs, [&](const std::vector<at::Tensor>& in) { return model.call(in, options.outputs); }, options);
  return out;
}

CompileRun::Program signature_of(const ExportedProgram& program) {
  CompileRun::Program out;
  for (const auto& t : program.inputs) out.inputs.emplace_back(t.name, t.shape);
  for (const auto& t : program.outputs) out.outputs.emplace_back(t.name, t.shape);
  return out;
}

}  // namespace

CompileRun compile_model(const CompileOptions& options) {
  const bool text = Path(options.out).extension() == ".mlir";
  const auto buckets = parse_buckets(options.buckets);
  const size_t count = count_buckets(buckets);
  if (text && (count > 1 || !options.tpus.empty() || options.no_executable))
    throw ArgumentError(
        "StableHLO is one program and no executable: --tpu, --no-executable and several "
        "buckets are for packages (.tbp)",
        {{"out", options.out}}, "", Code::invalid_argument);
  for (const std::string& tpu : options.tpus) (void)aot::parse_slice(tpu);
  const torch::NoGradGuard no_grad;
  set_phase("loading");
  const CompileModel model = open_model(options.model);
  check_bucket_names(model, buckets);
  CompileRun run{.kind = model.kind};
  PackageWriter writer(options.model + " (" + model.kind + ")");
  set_phase("tracing");
  for (size_t i = 0; i < count; ++i) {
    ExportedProgram program = export_model(model, examples(model, buckets, i), options.model, text);
    run.programs.push_back(signature_of(program));
    if (text) {
      const NoInterrupts hold(options.out);
      const std::string made = "// " + made_with() + "\n" + program.text;
      write_file(options.out, made);
      run.bytes = static_cast<int64_t>(made.size());
      return run;
    }
    writer.add(std::move(program));
  }
  set_phase("compiling");
  std::optional<NoInterrupts> hold;
  const PackageReport saved = writer.save(
      options.out, {.this_machine = !options.no_executable, .tpus = options.tpus, .before_writing = [&] {
                      hold.emplace(options.out);
                    }});
  for (const auto& e : saved.executables)
    run.executables.push_back({e.program, e.target, e.compile_seconds, e.bytes});
  run.weights = saved.weights;
  run.weight_bytes = saved.weight_bytes;
  run.bytes = saved.bytes;
  return run;
}

}  // namespace tpubridge::tools
