// Which fields each class of torch's optimizers has; the rest follows from that.
#include "tpubridge/train/optimizer_state.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <set>

#include "tpubridge/base/text.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/train/checkpoint_store.h"

namespace tpubridge::train {
namespace {

using namespace torch::optim;
using nlohmann::json;

class Writer final : public StateVisitor {
 public:
  explicit Writer(OptimizerRecord& out) : out_(out) {}
  void number(const std::string& name, double& value) override { out_.numbers[name] = value; }
  void count(const std::string& name, int64_t& value) override { out_.numbers[name] = value; }
  void flag(const std::string& name, bool& value) override { out_.numbers[name] = value; }
  bool present(const std::string& name, bool there) override {
    out_.numbers[name] = there;
    return there;
  }
  void tensor(const std::string& name, at::Tensor& value, const at::Tensor&) override {
    if (present(name, value.defined())) out_.tensors.push_back(host_tensor(name, value));
  }

 private:
  OptimizerRecord& out_;
};

class Reader final : public StateVisitor {
 public:
  Reader(const OptimizerRecord& from, const Path& file, bool commit)
      : from_(from), file_(file), commit_(commit) {
    for (const HostTensor& t : from.tensors) stored_[t.name] = &t;
  }
  void number(const std::string& name, double& value) override {
    const json& j = find(name);
    if (!j.is_number()) fail(name, "is no number");
    if (commit_) value = j.get<double>();
  }
  void count(const std::string& name, int64_t& value) override {
    const json& j = find(name);
    if (!j.is_number_integer()) fail(name, "is no whole number");
    // One that is larger than an int64_t must not come round as a negative one.
    const bool counted = j.is_number_unsigned() ? j.get<uint64_t>() <= static_cast<uint64_t>(kMaxStep)
                                                : j.get<int64_t>() >= 0 && j.get<int64_t>() <= kMaxStep;
    if (!counted) fail(name, "is no number of steps: " + j.dump());
    if (commit_) value = j.get<int64_t>();
  }
  void flag(const std::string& name, bool& value) override {
    const bool stored = present(name, value);
    if (commit_) value = stored;
  }
  bool present(const std::string& name, bool) override {
    const json& j = find(name);
    if (!j.is_boolean()) fail(name, "is neither true nor false");
    return j.get<bool>();
  }
  void tensor(const std::string& name, at::Tensor& value, const at::Tensor& like) override {
    if (!present(name, value.defined())) {
      if (commit_) value = at::Tensor();
      return;
    }
    const auto it = stored_.find(name);
    if (it == stored_.end()) fail(name, "is missing");
    used_.insert(name);
    const Shape& have = it->second->shape;
    const at::Tensor& want = value.defined() ? value : like;
    if (device::dtype_of(want.scalar_type()) != have.dtype || want.sizes() != at::IntArrayRef(have.dims))
      fail(name, "is " + have.str() + ", but belongs to a tensor of sizes " +
                     dims_str(std::vector<int64_t>(want.sizes().vec())) + " and type " +
                     at::toString(want.scalar_type()));
    if (!commit_) return;
    at::NoGradGuard no_grad;
    if (!value.defined()) value = at::empty(have.dims, like.options().requires_grad(false));
    value.copy_(torch_tensor(*it->second));
  }
  void finish() const {
    for (const auto& [name, t] : stored_)
      if (!used_.contains(name)) fail(name, "belongs to nothing in this optimizer");
  }
  [[noreturn]] void fail(const std::string& name, const std::string& reason) const {
    throw checkpoint_error("load", file_, "the optimizer's " + quote(name) + " " + reason,
                           {{"file", file_.filename().string()}, {"tensor", name}},
                           "Build the optimizer as it was when the checkpoint was made.",
                           Code::invalid_argument);
  }

 private:
  const json& find(const std::string& name) const {
    const auto it = from_.numbers.find(name);
    if (it == from_.numbers.end()) fail(name, "is missing");
    return *it;
  }
  const OptimizerRecord& from_;
  const Path& file_;
  bool commit_;
  std::map<std::string, const HostTensor*> stored_;
  std::set<std::string> used_;
};

// What is known of one class of torch.
struct Class {
  const char* name;
  void (*options)(OptimizerOptions&, const std::string&, StateVisitor&);
  std::unique_ptr<OptimizerParamState> (*make)();
  void (*state)(OptimizerParamState&, const std::string&, const at::Tensor&, StateVisitor&);
};

template <class O>
void adam_options(OptimizerOptions& base, const std::string& at, StateVisitor& v) {
  auto& o = static_cast<O&>(base);
  v.number(at + "lr", o.lr());
  v.number(at + "beta1", std::get<0>(o.betas()));
  v.number(at + "beta2", std::get<1>(o.betas()));
  v.number(at + "eps", o.eps());
  v.number(at + "weight_decay", o.weight_decay());
  v.flag(at + "amsgrad", o.amsgrad());
}
template <class S>
void adam_state(OptimizerParamState& base, const std::string& at, const at::Tensor& p, StateVisitor& v) {
  auto& s = static_cast<S&>(base);
  v.count(at + "step", s.step());
  v.tensor(at + "exp_avg", s.exp_avg(), p);
  v.tensor(at + "exp_avg_sq", s.exp_avg_sq(), p);
  v.tensor(at + "max_exp_avg_sq", s.max_exp_avg_sq(), p);
}
void sgd_options(OptimizerOptions& base, const std::string& at, StateVisitor& v) {
  auto& o = static_cast<SGDOptions&>(base);
  v.number(at + "lr", o.lr());
  v.number(at + "momentum", o.momentum());
  v.number(at + "dampening", o.dampening());
  v.number(at + "weight_decay", o.weight_decay());
  v.flag(at + "nesterov", o.nesterov());
}
void sgd_state(OptimizerParamState& base, const std::string& at, const at::Tensor& p, StateVisitor& v) {
  v.tensor(at + "momentum_buffer", static_cast<SGDParamState&>(base).momentum_buffer(), p);
}
void rmsprop_options(OptimizerOptions& base, const std::string& at, StateVisitor& v) {
  auto& o = static_cast<RMSpropOptions&>(base);
  v.number(at + "lr", o.lr());
  v.number(at + "alpha", o.alpha());
  v.number(at + "eps", o.eps());
  v.number(at + "weight_decay", o.weight_decay());
  v.number(at + "momentum", o.momentum());
  v.flag(at + "centered", o.centered());
}
void rmsprop_state(OptimizerParamState& base, const std::string& at, const at::Tensor& p, StateVisitor& v) {
  auto& s = static_cast<RMSpropParamState&>(base);
  v.count(at + "step", s.step());
  v.tensor(at + "square_avg", s.square_avg(), p);
  v.tensor(at + "momentum_buffer", s.momentum_buffer(), p);
  v.tensor(at + "grad_avg", s.grad_avg(), p);
}
void adagrad_options(OptimizerOptions& base, const std::string& at, StateVisitor& v) {
  auto& o = static_cast<AdagradOptions&>(base);
  v.number(at + "lr", o.lr());
  v.number(at + "lr_decay", o.lr_decay());
  v.number(at + "weight_decay", o.weight_decay());
  v.number(at + "initial_accumulator_value", o.initial_accumulator_value());
  v.number(at + "eps", o.eps());
}
void adagrad_state(OptimizerParamState& base, const std::string& at, const at::Tensor& p, StateVisitor& v) {
  auto& s = static_cast<AdagradParamState&>(base);
  v.count(at + "step", s.step());
  v.tensor(at + "sum", s.sum(), p);
}
template <class S>
std::unique_ptr<OptimizerParamState> make() {
  return std::make_unique<S>();
}

Class class_of(Optimizer& o) {
  if (dynamic_cast<AdamW*>(&o))
    return {"AdamW", adam_options<AdamWOptions>, make<AdamWParamState>, adam_state<AdamWParamState>};
  if (dynamic_cast<Adam*>(&o))
    return {"Adam", adam_options<AdamOptions>, make<AdamParamState>, adam_state<AdamParamState>};
  if (dynamic_cast<SGD*>(&o)) return {"SGD", sgd_options, make<SGDParamState>, sgd_state};
  if (dynamic_cast<RMSprop*>(&o)) return {"RMSprop", rmsprop_options, make<RMSpropParamState>, rmsprop_state};
  if (dynamic_cast<Adagrad*>(&o)) return {"Adagrad", adagrad_options, make<AdagradParamState>, adagrad_state};
  throw ArgumentError("a checkpoint cannot keep an optimizer of this class",
                      {{"optimizer", typeid(o).name()}},
                      "Give the class the second base tpubridge::CheckpointedState.", Code::unsupported);
}

// Those of tpubridge::optim have torch's options and give their tensors by name.
Class class_of(optim::Fused& o) {
  if (dynamic_cast<optim::AdamW*>(&o)) return {"tpubridge::optim::AdamW", adam_options<AdamWOptions>, {}, {}};
  if (dynamic_cast<optim::Adam*>(&o)) return {"tpubridge::optim::Adam", adam_options<AdamOptions>, {}, {}};
  return {"tpubridge::optim::SGD", sgd_options, {}, {}};
}

std::string type_of(Optimizer& o) {
  if (const auto* own = dynamic_cast<CheckpointedState*>(&o)) return own->state_type();
  auto* fused = dynamic_cast<optim::Fused*>(&o);
  return fused ? class_of(*fused).name : class_of(o).name;
}

void visit_options(Optimizer& o, const Class& c, StateVisitor& v) {
  int64_t index = 0;
  for (auto& group : o.param_groups()) c.options(group.options(), "group" + std::to_string(index++) + ".", v);
}

// A parameter without a state yet has one flag and no more.
void visit(Optimizer& o, StateVisitor& v, bool commit) {
  if (auto* own = dynamic_cast<CheckpointedState*>(&o)) return own->visit_state(v);
  if (auto* fused = dynamic_cast<optim::Fused*>(&o)) return visit_options(o, class_of(*fused), v);
  const Class c = class_of(o);
  visit_options(o, c, v);
  int64_t index = 0;
  for (auto& group : o.param_groups()) {
    for (auto& p : group.params()) {
      const std::string at = "param" + std::to_string(index++) + ".";
      const auto it = o.state().find(p.unsafeGetTensorImpl());
      if (!v.present(at + "has_state", it != o.state().end())) {
        if (commit && it != o.state().end()) o.state().erase(it);
        continue;
      }
      std::unique_ptr<OptimizerParamState> fresh;
      if (it == o.state().end()) fresh = c.make();
      c.state(fresh ? *fresh : *it->second, at, p, v);
      if (commit && fresh) o.state()[p.unsafeGetTensorImpl()] = std::move(fresh);
    }
  }
}

// It checks by itself before it changes anything.
void load_fused(optim::Fused& fused, const OptimizerRecord& record, const Path& file) {
  optim::NamedTensors tensors;
  for (const HostTensor& t : record.tensors) tensors.emplace_back(t.name, torch_tensor(t));
  try {
    fused.load_named_state(tensors);
  } catch (const ArgumentError& e) {
    throw checkpoint_error("load", file, e.message(), e.details(), e.hint(), Code::invalid_argument);
  }
}

}  // namespace

OptimizerRecord save_optimizer(Optimizer& optimizer) {
  OptimizerRecord out{json::object(), {}};
  Writer writer(out);
  visit(optimizer, writer, false);
  if (const auto* fused = dynamic_cast<optim::Fused*>(&optimizer))
    for (const auto& [name, tensor] : fused->named_state()) out.tensors.push_back(host_tensor(name, tensor));
  out.numbers["type"] = type_of(optimizer);
  int64_t parameters = 0;
  for (auto& group : optimizer.param_groups()) parameters += static_cast<int64_t>(group.params().size());
  out.numbers["parameters"] = parameters;
  return out;
}

void load_optimizer(Optimizer& optimizer, const OptimizerRecord& record, const Path& file, bool commit) {
  Reader reader(record, file, commit);
  const json type = record.numbers.value("type", json());
  if (type != type_of(optimizer))
    reader.fail("type", "is " + type.dump() + ", not " + quote(type_of(optimizer)));
  int64_t parameters = 0;
  for (auto& group : optimizer.param_groups()) parameters += static_cast<int64_t>(group.params().size());
  if (record.numbers.value("parameters", json()) != parameters)
    reader.fail("parameters", "are " + record.numbers.value("parameters", json()).dump() + ", not " +
                                  std::to_string(parameters));
  auto* fused = dynamic_cast<optim::Fused*>(&optimizer);
  if (fused && commit) load_fused(*fused, record, file);
  visit(optimizer, reader, commit);
  if (!fused) reader.finish();
}

}  // namespace tpubridge::train
