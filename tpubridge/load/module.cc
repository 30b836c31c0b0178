#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "tpubridge/base/text.h"
#include "tpubridge/load/module_impl.h"

namespace tpubridge {
namespace {

using at::Tensor;
using c10::IValue;
using exported::InputKind;
using exported::OutputKind;

// Memory of the file as a tensor; the archive stays mapped as long as it lives. What lies crooked is copied.
Tensor mapped_tensor(const std::shared_ptr<exported::Archive>& archive, const exported::Payload& payload) {
  const auto bytes = archive->bytes(payload);
  const auto& meta = payload.meta;
  const auto type = exported::torch_dtype(meta.dtype);
  if (!type) throw FileError(payload.entry + ": its element type is not known");
  std::vector<int64_t> sizes, strides;
  for (const auto& size : meta.sizes) sizes.push_back(size.number);
  for (const auto& stride : meta.strides) strides.push_back(stride.number);
  const auto options = at::TensorOptions().dtype(*type);
  if (std::ranges::find(sizes, 0) != sizes.end()) return at::empty(sizes, options);
  const auto item = static_cast<int64_t>(at::elementSize(*type));
  auto* const data = const_cast<std::byte*>(bytes.data()) + meta.offset.number * item;  // copy-on-write
  const bool crooked = reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(item) != 0;
  if (!crooked)
    return at::from_blob(
        data, sizes, strides, [archive](void*) {}, options);
  const std::vector<std::byte> copy(bytes.begin() + meta.offset.number * item, bytes.end());
  return at::from_blob(const_cast<std::byte*>(copy.data()), sizes, strides, options).clone();
}

// "layers.0.weight": modules on the way are made where they are not there yet.
struct Slot {
  torch::nn::Module* module;
  std::string name;
};
Slot slot_of(torch::nn::Module& root, const std::string& path, const std::string& file) {
  torch::nn::Module* at = &root;
  const auto bad = [&] {
    throw FileError(file + ": " + quote(path) + " is no name that a module's tensor can have",
                    {{"name", path}});
  };
  size_t begin = 0, depth = 0;
  for (size_t dot; (dot = path.find('.', begin)) != path.npos; begin = dot + 1) {
    const std::string part = path.substr(begin, dot - begin);
    if (part.empty() || ++depth > 100 || at->named_parameters(false).contains(part) ||
        at->named_buffers(false).contains(part))
      bad();
    const auto children = at->named_children();
    if (const auto* child = children.find(part))
      at = child->get();
    else
      at = at->register_module(part, std::make_shared<torch::nn::Module>(part)).get();
  }
  const std::string name = path.substr(begin);
  if (name.empty() || at->named_parameters(false).contains(name) || at->named_buffers(false).contains(name) ||
      at->named_children().contains(name))
    bad();
  return {at, name};
}

bool same_place(const exported::Payload& a, const exported::Payload& b) {
  const auto numbers = [](const std::vector<exported::SizeExpr>& v) {
    std::vector<int64_t> out;
    for (const auto& e : v) out.push_back(e.number);
    return out;
  };
  return a.entry == b.entry && a.meta.offset.number == b.meta.offset.number && a.meta.dtype == b.meta.dtype &&
         numbers(a.meta.sizes) == numbers(b.meta.sizes) && numbers(a.meta.strides) == numbers(b.meta.strides);
}

Tensor output_tensor(const IValue& v, const std::string& name) {
  if (!v.isTensor())
    throw ArgumentError("the output " + quote(name) + " is no tensor", {{"name", name}},
                        "Ask for value(name).");
  return v.toTensor();
}

}  // namespace

LoadedModule::Impl::Impl(const Path& path)
    : archive(std::make_shared<exported::Archive>(exported::open_archive(path))),
      graph(archive->program.graph, path.string()),
      arguments(archive->program),
      outputs(archive->program.out_tree.names()),
      state(archive->program.inputs.size()) {
  for (auto& name : outputs)
    if (name.empty()) name = "out";
}

at::Device LoadedModule::Impl::device_of(const std::vector<IValue>& leaves) const {
  for (const auto& t : state)
    if (t.defined()) return t.device();
  if (device) return *device;
  for (const auto& leaf : leaves)
    if (leaf.isTensor() && leaf.toTensor().defined()) return leaf.toTensor().device();
  return at::kCPU;
}

void LoadedModule::Impl::move_all(const torch::nn::Module& module,
                                  const std::function<Tensor(const Tensor&)>& move) const {
  const at::NoGradGuard no_grad;
  const auto change = [&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    const Tensor moved = move(tensor);
    if (!moved.is_same(tensor)) tensor.set_data(moved);
  };
  for (const auto& p : module.named_parameters()) change(p.value());
  for (const auto& b : module.named_buffers()) change(b.value());
  for (size_t i = 0; i < state.size(); ++i)
    if (program().inputs[i].kind == InputKind::constant) change(state[i]);
}

LoadedModule::LoadedModule(const Path& path)
    : torch::nn::Module(path.filename().string()), impl_(std::make_unique<Impl>(path)) {
  const auto& program = impl_->program();
  std::vector<std::pair<const exported::Payload*, Tensor>> known;
  std::set<const void*> registered;  // an optimizer must see a parameter once
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& spec = program.inputs[i];
    if (spec.kind == InputKind::user || spec.kind == InputKind::fixed) continue;
    const bool in_weights =
        spec.kind == InputKind::parameter || (spec.kind == InputKind::buffer && spec.persistent);
    const auto& payload = (in_weights ? program.weights : program.constants).at(spec.target);
    // What shares its memory in Python is one tensor here: tied weights, caches under several names.
    const auto tied =
        std::ranges::find_if(known, [&](const auto& k) { return same_place(*k.first, payload); });
    Tensor& tensor = impl_->state[i];
    tensor = tied == known.end() ? mapped_tensor(impl_->archive, payload) : tied->second;
    known.emplace_back(&payload, tensor);
    if (spec.kind == InputKind::buffer) {
      const Slot slot = slot_of(*this, spec.target, path.string());
      slot.module->register_buffer(slot.name, tensor);
    } else if (spec.kind == InputKind::parameter && registered.insert(tensor.unsafeGetTensorImpl()).second) {
      const Slot slot = slot_of(*this, spec.target, path.string());
      const bool grad = payload.meta.requires_grad && (tensor.is_floating_point() || tensor.is_complex());
      slot.module->register_parameter(slot.name, tensor, grad);
    }
  }
  torch::nn::Module::train(impl_->graph.trains());
}
LoadedModule::~LoadedModule() = default;

const std::vector<std::string>& LoadedModule::input_names() const { return impl_->arguments.names(); }
const std::vector<std::string>& LoadedModule::output_names() const { return impl_->outputs; }

void LoadedModule::train(bool on) {
  torch::nn::Module::train(on);
  impl_->mode = on ? exported::Mode::train : exported::Mode::eval;
}
void LoadedModule::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  impl_->device = device;
  impl_->move_all(*this, [&](const Tensor& t) {
    return t.is_floating_point() ? t.to(device, dtype, non_blocking) : t.to(device, non_blocking);
  });
}
void LoadedModule::to(torch::Dtype dtype, bool non_blocking) {
  impl_->move_all(*this,
                  [&](const Tensor& t) { return t.is_floating_point() ? t.to(dtype, non_blocking) : t; });
}
void LoadedModule::to(torch::Device device, bool non_blocking) {
  impl_->device = device;
  impl_->move_all(*this, [&](const Tensor& t) { return t.to(device, non_blocking); });
}

Outputs LoadedModule::call(const std::vector<IValue>& places, const Named& named) {
  const auto& program = impl_->program();
  const std::vector<IValue> leaves = impl_->arguments.flatten(places, named);
  exported::check_inputs(program, impl_->arguments.names(), leaves);
  std::vector<IValue> inputs;
  std::map<std::string, Tensor> by_name, targets;  // what outputs may be written back to
  size_t leaf = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& spec = program.inputs[i];
    if (spec.kind == InputKind::user || spec.kind == InputKind::fixed) {
      inputs.push_back(leaves[leaf++]);
      if (program.graph.inputs[i].kind == exported::ArgKind::value && inputs.back().isTensor())
        by_name[program.graph.names[static_cast<size_t>(program.graph.inputs[i].slot)]] =
            inputs.back().toTensor();
      continue;
    }
    // A buffer that the last call wrote begins anew: gradients do not reach over calls, nor does memory.
    if (spec.kind != InputKind::parameter && impl_->state[i].grad_fn()) impl_->state[i].detach_();
    inputs.emplace_back(impl_->state[i]);
    targets[spec.target] = impl_->state[i];
  }
  const exported::Context context{impl_->device_of(leaves), impl_->mode};
  std::vector<IValue> given = impl_->graph.run(context, std::move(inputs)), results;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& spec = program.outputs[i];
    if (spec.kind == OutputKind::user) {
      results.push_back(std::move(given[i]));
      continue;
    }
    const at::NoGradGuard no_grad;
    auto& into = spec.kind == OutputKind::input ? by_name[spec.target] : targets[spec.target];
    if (!into.defined() || !given[i].isTensor())
      throw ProgramError("an output that is written back to " + spec.target + " is no tensor");
    into.copy_(given[i].toTensor().detach());
  }
  size_t next = 0;
  IValue tree = exported::tree_value(program.out_tree, results, next);
  return {impl_->outputs, std::move(results), std::move(tree)};
}

Tensor LoadedModule::first_tensor(const Outputs& outputs) const {
  const auto tensors = std::ranges::count_if(outputs.values(), [](const IValue& v) { return v.isTensor(); });
  if (tensors != 1)
    throw ArgumentError(
        "forward() is for models that give one tensor; this one gives " + std::to_string(tensors), {},
        "Use call(), whose results have names: " + outputs.names().front() + ", …");
  return std::ranges::find_if(outputs.values(), [](const IValue& v) { return v.isTensor(); })->toTensor();
}

const IValue& Outputs::value(const std::string& name) const {
  const auto at = std::ranges::find(names_, name);
  if (at != names_.end()) return values_[static_cast<size_t>(at - names_.begin())];
  const std::vector<std::string_view> views(names_.begin(), names_.end());
  throw ArgumentError("the model gives no " + quote(name) + "; it gives " + join(views), {{"name", name}});
}
Tensor Outputs::operator[](const std::string& name) const { return output_tensor(value(name), name); }
Tensor Outputs::operator[](size_t place) const {
  if (place >= values_.size())
    throw ArgumentError("the model gives " + std::to_string(values_.size()) + " values; number " +
                        std::to_string(place) + " is asked for");
  return output_tensor(values_[place], names_[place]);  // names may be equal: {"a.b"} and {"a": {"b"}}
}

std::shared_ptr<LoadedModule> load(const Path& path) { return std::make_shared<LoadedModule>(path); }

}  // namespace tpubridge
