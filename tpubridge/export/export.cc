#include "tpubridge/export/export.h"

#include <torch/nn/module.h>

#include <set>

#include "tpubridge/base/text.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/export/refuse.h"
#include "tpubridge/lower/exported.h"
#include "tpubridge/pjrt/ffi.h"
#include "tpubridge/step/tracer.h"

namespace tpubridge::exporting {
namespace {

using device::Storage;
using device::storage_of;
using step::Recorded;
using step::Source;
using trace::Leaf;
using trace::Value;

// Nothing is compiled: the program goes elsewhere.
class NoRunner final : public step::Runner {
 public:
  [[nodiscard]] int devices() const override { return 1; }
  void begin(const std::vector<at::Tensor>&) override {}
  [[nodiscard]] bool splits(size_t) const override { return false; }
  [[nodiscard]] exec::Ready program(const trace::Graph&, const std::vector<bool>&) override { return {}; }
  [[nodiscard]] std::vector<pjrt::Buffer> run(const exec::Compiled&, const std::vector<Input>&,
                                              const std::vector<std::vector<const pjrt::Buffer*>>&,
                                              const std::vector<int64_t>&) override {
    return {};
  }
  void keep(const std::vector<Kept>&) override {}
};

void check_names(const std::vector<std::string>& names, std::string_view what) {
  std::set<std::string> seen;
  for (const auto& name : names) {
    if (name.empty()) throw ArgumentError("an " + std::string(what) + " of an export has no name");
    if (!seen.insert(name).second)
      throw ArgumentError("two " + std::string(what) + "s of an export are named " + quote(name),
                          {{"name", name}}, "Give each a name of its own.", Code::invalid_argument);
  }
}

// A tensor of its own, dense and on the device: a parameter of the program is what it is, whole.
at::Tensor placed(const ExportInput& input) {
  if (!input.example.defined())
    throw ArgumentError("the example of input " + quote(input.name) + " is undefined");
  at::Tensor example = input.example.detach().resolve_conj().resolve_neg();
  if (!device::is_tpu(example)) example = example.contiguous();  // so that nothing need run on the device
  return example.to(c10::Device(c10::DeviceType::PrivateUse1, 0)).clone(at::MemoryFormat::Contiguous);
}

// The same of a result, in the trace.
at::Tensor given(const at::Tensor& t) {
  if (!t.defined()) throw ArgumentError("a function that is exported gives an undefined tensor");
  const c10::Device there(c10::DeviceType::PrivateUse1, 0);
  const at::Tensor whole = t.detach().to(there).resolve_conj().resolve_neg();
  return device::dense_tensor(device::read(whole), whole.scalar_type(), there);
}

struct Wanted {
  Leaf leaf;
  const Source* source;
};

class Exporter {
 public:
  Exporter(const std::vector<ExportInput>& inputs, const ExportOptions& options)
      : options_(options), names_(options.modules) {
    for (const auto& input : inputs) arguments_.push_back(placed(input));
    for (size_t i = 0; i < inputs.size(); ++i)
      out_.inputs.push_back({inputs[i].name, device::shape_of(arguments_[i])});
  }

  ExportedProgram run(const ExportFunction& function) {
    const StepOptions step{.modules = options_.modules, .name = options_.name};
    NoRunner runner;
    step::Tracer tracer(step, &runner);
    const auto traced = [&] {
      std::vector<at::Tensor> results;
      for (const auto& t : function(arguments_)) results.push_back(given(t));
      return results;
    };
    auto call = record(tracer, traced);
    const exec::Lock lock(exec::mutex());  // as long as the graph is used
    const step::Ended ended = tracer.finish(*call, arguments_, /*only_compile=*/true);
    try {
      check_stateless(ended.recorded, options_.name, names_);
      write(ended, call->results);
    } catch (...) {
      call->results.clear();
      call->undo();
      throw;
    }
    call->results.clear();
    call->undo();
    return std::move(out_);
  }

 private:
  // Where the function throws, everything is as it was before.
  std::unique_ptr<step::TracedCall> record(step::Tracer& tracer, const step::Tracer::Function& traced) const {
    try {
      return tracer.record(arguments_, traced, /*notes_zeros=*/false);
    } catch (const UnsupportedError& e) {  // a value on the host
      throw UnsupportedError("cannot export '" + options_.name + "': " + e.message(), e.details(), e.hint(),
                             e.code());
    }
  }

  void write(const step::Ended& ended, const std::vector<at::Tensor>& results) {
    const Recorded& r = ended.recorded;
    lower::ExportForm form;
    std::vector<Wanted> wanted;
    for (size_t i = 0; i < r.leaves; ++i) wanted.push_back({ended.graph.leaves[i], &r.sources[i]});
    for (const auto& t : results) add_result(t, ended, form, wanted);
    name_results(form, results);
    for (const Wanted& w : wanted) add_parameter(w, form);
    for (const char* platform : {"any", "cpu", "cuda", "tpu"}) {
      std::string text = lower::exported_program(ended.graph, form, lower::platform_named(platform));
      if (ffi::is_called_by(text))
        throw UnsupportedError(
            "cannot export '" + options_.name + "': it calls C++ functions of this process",
            {{"custom call", std::string(ffi::kTarget)}}, "Give these ops a lowering (docs/kernels.md).",
            Code::unsupported);
      out_.texts.emplace_back(platform, std::move(text));
    }
    out_.text = out_.texts[0].second;
  }

  // A result is computed by the graph, or an input or a weight that is handed through.
  static void add_result(const at::Tensor& t, const step::Ended& ended, lower::ExportForm& form,
                         std::vector<Wanted>& wanted) {
    const Storage& s = storage_of(t);
    const Value& v = s.slot.value();
    form.results.push_back(v);
    if (!v->is_leaf()) return;
    const auto same = [&](const Wanted& w) { return w.leaf.node == v.node() && w.leaf.index == v.index(); };
    if (std::ranges::any_of(wanted, same)) return;
    const auto& targets = ended.recorded.targets;
    const auto at = std::ranges::find(targets, &s, &step::Target::identity);
    const Leaf leaf{v.node(), v.index()};
    form.more.push_back(leaf);
    wanted.push_back({leaf, at == targets.end() ? nullptr : &ended.recorded.sources[at->from]});
  }

  void name_results(lower::ExportForm& form, const std::vector<at::Tensor>& results) {
    if (!options_.outputs.empty() && options_.outputs.size() != results.size())
      throw ArgumentError("'" + options_.name + "' gives " + std::to_string(results.size()) +
                          " tensors, but " + std::to_string(options_.outputs.size()) + " names are given");
    for (size_t i = 0; i < results.size(); ++i) {
      form.result_names.push_back(options_.outputs.empty() ? "out" + std::to_string(i) : options_.outputs[i]);
      out_.outputs.push_back({form.result_names.back(), device::shape_of(results[i])});
    }
    check_names(form.result_names, "output");
  }

  void add_parameter(const Wanted& w, lower::ExportForm& form) {
    if (w.source && w.source->kind == Source::Kind::argument) {
      out_.parameters.push_back({false, w.source->argument});
      form.parameters.push_back({out_.inputs[w.source->argument].name});
      return;
    }
    const Shape& shape = w.leaf.shape();
    const auto bytes = static_cast<size_t>(shape.bytes());
    const auto data = aligned_bytes(bytes);
    exec::to_host(Value(const_cast<trace::Node*>(w.leaf.node), w.leaf.index), data.get(), bytes);
    std::string name = names_.of(w.source ? w.source->identity : nullptr);
    if (name.empty()) {
      const bool captured = w.source && w.source->kind == Source::Kind::captured;
      name =
          captured ? "captured." + std::to_string(captured_++) : "constant." + std::to_string(constants_++);
    }
    held_.push_back({name, shape, data});
    if (options_.weights_as_constants) {
      form.parameters.push_back({name, held_.back().bytes()});
      return;
    }
    out_.parameters.push_back({true, out_.weights.size()});
    out_.weights.push_back(held_.back());
    form.parameters.push_back({name});
  }

  const ExportOptions& options_;
  const WeightNames names_;
  std::vector<at::Tensor> arguments_;
  std::vector<HostTensor> held_;
  size_t captured_ = 0, constants_ = 0;
  ExportedProgram out_;
};

}  // namespace
}  // namespace tpubridge::exporting

namespace tpubridge {

ExportedProgram export_program(const std::vector<ExportInput>& inputs, const ExportFunction& function,
                               const ExportOptions& options) {
  std::vector<std::string> names;
  for (const auto& input : inputs) names.push_back(input.name);
  exporting::check_names(names, "input");
  const at::NoGradGuard no_grad;
  return exporting::Exporter(inputs, options).run(function);
}

}  // namespace tpubridge
