// Ops that are StableHLO files.
#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/hash.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/module_text.h"
#include "tpubridge/kernels/custom_op.h"

namespace tpubridge {
namespace kernels {
namespace {

struct KernelFile {
  Path path;
  std::string function;  // its name in programs: of its text: another text is another program
  hlo::ModuleText module;
};

KernelFile read_kernel(const std::string& op, const Path& path) {
  try {
    auto module = hlo::ModuleText::parse(read_file(path));
    const std::string digest = hash128(module.text()).hex();
    return {path, "kernel_" + digest, std::move(module)};
  } catch (Error& e) {
    e.add({{"op", op}, {"file", path.string()}});
    throw;
  }
}

std::vector<KernelFile> read_kernels(const std::string& op, const std::vector<Path>& paths) {
  if (paths.empty()) throw ArgumentError("there is no file for " + op);
  std::vector<KernelFile> out;
  for (const auto& p : paths) {
    out.push_back(read_kernel(op, p));
    const auto &first = out[0].module, &last = out.back().module;
    if (first.parameters().size() != last.parameters().size() ||
        first.results().size() != last.results().size())
      throw ArgumentError("the files for " + op + " take or give different numbers of tensors",
                          {{"file", out[0].path.string()}, {"other", p.string()}});
  }
  return out;
}

// Custom calls that one platform alone has; empty for those that nobody here knows.
std::string platform_of(std::string_view target) {
  const auto has = [&](std::string_view part) { return target.find(part) != target.npos; };
  if (target == "tpu_custom_call") return "tpu";
  if (has("triton") || has("mosaic_gpu") || has("__cudnn") || has("__cublas") || has("xla.gpu") ||
      target.starts_with("cu"))
    return "cuda";
  if (target.starts_with("lapack_")) return "a process with JAX";
  return {};
}

class KernelOp final : public CustomOp {
 public:
  KernelOp(const c10::OperatorHandle& op, std::vector<KernelFile> files)
      : CustomOp(op, lower::plain), files_(std::move(files)) {
    const auto& file = files_[0];
    const auto& parameters = op.schema().arguments();
    const auto tensors = std::count_if(parameters.begin(), parameters.end(), [](const auto& a) {
      return a.real_type()->kind() == c10::TypeKind::TensorType;
    });
    if (static_cast<size_t>(tensors) != parameters.size() ||
        parameters.size() != file.module.parameters().size() || results() != file.module.results().size())
      throw ArgumentError(
          name() + " and its file do not take or give the same: the file takes " +
              std::to_string(file.module.parameters().size()) + " tensors and gives " +
              std::to_string(file.module.results().size()),
          {{"op", name()}, {"schema", c10::toString(op.schema())}, {"file", file.path.string()}});
  }

  void check(const lower::Call& call) const override {
    const KernelFile& file = fitting(call);
    const std::string here = platform();
    for (const auto& target : file.module.custom_calls()) {
      if (target == ffi::kTarget) refuse(file, target, "no file");
      if (const std::string other = platform_of(target); !other.empty() && other != here)
        refuse(file, target, other);
    }
  }
  [[nodiscard]] std::vector<Shape> shapes(const lower::Call& call) const override {
    return fitting(call).module.results();
  }

  void lower(lower::Context& c) const override {
    const KernelFile& file = fitting(c);
    hlo::Values operands;
    for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand(i));
    const hlo::Values values = hlo::call(c.b, file.module.add_to(c.b, file.function), operands);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].shape() != c.out(i))
        throw ProgramError(file.path.string() + " gives " + values[i].shape().str() + " as result " +
                               std::to_string(i) + " of " + name() + ", its Meta kernel said " +
                               c.out(i).str(),
                           {{"op", name()}, {"file", file.path.string()}});
      c.result(values[i], i);
    }
  }

 private:
  [[noreturn]] void refuse(const KernelFile& file, const std::string& target,
                           const std::string& other) const {
    throw UnsupportedError(name() + " cannot run here: its file calls @" + target + ", which is for " +
                               other + ", and the plugin is for " + platform(),
                           {{"op", name()}, {"file", file.path.string()}, {"platform", platform()}},
                           "Export it for this platform: jax.export.export(f, platforms=[…]).",
                           Code::unsupported);
  }

  [[nodiscard]] static std::vector<Shape> given(const lower::Call& call, size_t n) {
    std::vector<Shape> out;
    for (size_t i = 0; i < n; ++i) out.push_back(call.is_tensor(i) ? call.shape(i) : Shape{DType::token, {}});
    return out;
  }

  [[nodiscard]] const KernelFile& fitting(const lower::Call& call) const {
    const auto got = given(call, arguments().size());
    for (const auto& file : files_)
      if (file.module.parameters() == got) return file;
    const auto list = [](const std::vector<Shape>& all) {
      std::string out;
      for (const auto& s : all) out += (out.empty() ? "" : ", ") + s.str();
      return out;
    };
    Details details = {{"op", name()}, {"got", list(got)}};
    for (const auto& file : files_) details.emplace_back(file.path.string(), list(file.module.parameters()));
    throw ArgumentError(
        "no file of " + name() + " is for these shapes", std::move(details),
        "A kernel file is for one list of shapes and element types: export it for these too.");
  }

  std::vector<KernelFile> files_;
};

c10::OperatorHandle handle_of(const std::string& op, const hlo::ModuleText& module) {
  if (op.find('(') == op.npos && op.find("::") != op.npos) {
    const auto dot = op.find('.', op.find("::"));
    if (!c10::Dispatcher::singleton().findSchema(
            {op.substr(0, dot), dot == op.npos ? "" : op.substr(dot + 1)})) {
      std::string schema = op + "(", gives;
      for (size_t i = 0; i < module.parameters().size(); ++i)
        schema += (i ? ", Tensor x" : "Tensor x") + std::to_string(i);
      for (size_t i = 0; i < module.results().size(); ++i) gives += i ? ", Tensor" : "Tensor";
      return find_or_define(schema + ") -> " + (module.results().size() == 1 ? gives : "(" + gives + ")"));
    }
  }
  return find_or_define(op);
}

bool is_differentiable(const Shape& s) { return is_float(s.dtype) || is_complex(s.dtype); }

// Calls the op of the gradient's files, which take the inputs, perhaps the results, and the gradients.
Gradient by_files(UserOp backward, const hlo::ModuleText& forward, const hlo::ModuleText& module) {
  const size_t in = forward.parameters().size(), out = forward.results().size(),
               takes = module.parameters().size();
  std::vector<bool> differentiable;
  for (const auto& s : forward.parameters()) differentiable.push_back(is_differentiable(s));
  const auto floats = static_cast<size_t>(std::count(differentiable.begin(), differentiable.end(), true));
  const bool all = module.results().size() == in;
  if ((takes != in + out && takes != in + 2 * out) || (!all && module.results().size() != floats))
    throw ArgumentError(
        "the file of the gradient takes " + std::to_string(takes) + " tensors and gives " +
            std::to_string(module.results().size()),
        {{"op", backward.name()}, {"inputs", std::to_string(in)}, {"results", std::to_string(out)}},
        "It takes the inputs and the gradients of the results, and gives those of the floating inputs.");
  const bool with_results = takes != in + out;
  return [backward, with_results, all, differentiable](const GradientCall& call) {
    std::vector<c10::IValue> arguments(call.inputs.begin(), call.inputs.end());
    if (with_results) arguments.insert(arguments.end(), call.outputs.begin(), call.outputs.end());
    for (const auto& g : call.gradients) arguments.emplace_back(g.contiguous());
    const auto given = backward.call(std::move(arguments));
    std::vector<at::Tensor> out;
    size_t next = 0;
    for (const bool d : differentiable) {
      out.push_back(d ? given.at(next) : at::Tensor());
      next += d || all;
    }
    return out;
  };
}

}  // namespace
}  // namespace kernels

UserOp register_kernel(const std::string& op, const std::vector<Path>& files, KernelOptions options) {
  using namespace kernels;
  if (!options.gradient_files.empty() && options.gradient)
    throw ArgumentError(op + " was given two gradients", {}, "Leave out one of them.");
  auto forward = read_kernels(op, files);
  const auto handle = handle_of(op, forward[0].module);
  check_new(handle, options.gradient);
  auto custom = std::make_unique<KernelOp>(handle, std::move(forward));
  if (!options.gradient_files.empty()) {
    const auto module = hlo::ModuleText::parse(read_file(files[0]));
    const auto first = hlo::ModuleText::parse(read_file(options.gradient_files[0]));
    const auto name = c10::toString(handle.operator_name()) + "_backward";
    options.gradient = by_files(UserOp(name), module, first);
    check_new(handle, options.gradient);
    (void)register_kernel(name, options.gradient_files);
  }
  return install(handle, std::move(custom), std::move(options.gradient));
}

}  // namespace tpubridge
