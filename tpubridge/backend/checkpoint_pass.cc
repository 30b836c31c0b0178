// Checkpoints around the parts of a Sequential: what it calls is exchanged, what it registered stays.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <cmath>

#include "tpubridge/backend/optimizer_passes.h"
#include "tpubridge/step/checkpoint_blocks.h"

namespace tpubridge::passes {
namespace {

using torch::nn::AnyModule;
using torch::nn::Module;
using torch::nn::SequentialImpl;

// Called in the place of a part. The first of a run calls all of the run, the others hand through.
struct Checkpointed : Module {
  Checkpointed(AnyModule part, std::vector<AnyModule> parts) : own(std::move(part)), run(std::move(parts)) {}
  torch::Tensor forward(torch::Tensor x) {
    if (copied) return own.forward(std::move(x));
    if (run.empty()) return x;
    return checkpoint([this](torch::Tensor h) {
      for (auto& part : run) h = part.forward(std::move(h));
      return h;
    })(std::move(x));
  }
  // In a copy of the model it stands for the copied part, with all that is registered in it, and without a
  // checkpoint: the other parts of a run are copied elsewhere.
  std::shared_ptr<Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    auto out = std::make_shared<Checkpointed>(own.clone(device), std::vector<AnyModule>());
    const auto part = out->own.ptr();
    out->copied = true;
    for (const auto& p : part->named_parameters(false)) out->register_parameter(p.key(), p.value());
    for (const auto& b : part->named_buffers(false)) out->register_buffer(b.key(), b.value());
    for (const auto& m : part->named_children()) out->register_module(m.key(), m.value());
    return out;
  }
  void train(bool on = true) override {
    Module::train(on);
    if (copied) own.ptr()->train(on);
  }
  AnyModule own;
  std::vector<AnyModule> run;
  bool copied = false;
};

bool has_batch_norm(const Module& m) {
  for (const auto& part : m.modules())
    if (part->as<torch::nn::BatchNorm1dImpl>() || part->as<torch::nn::BatchNorm2dImpl>() ||
        part->as<torch::nn::BatchNorm3dImpl>())
      return true;
  return false;
}

struct Run {
  size_t begin, end;
};

// Each part that has parts by itself; of a flat one, runs as long as there are runs. What comes last is
// needed again at once: nothing is saved there.
std::vector<Run> runs_of(SequentialImpl& s) {
  const size_t n = s.size();
  std::vector<Run> out;
  size_t i = 0;
  for (const auto& child : s.children()) {
    if (!child->children().empty()) out.push_back({i, i + 1});
    ++i;
  }
  if (!out.empty() || n < 4) return out;
  const auto length = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  for (size_t begin = 0; begin + length < n; begin += length) out.push_back({begin, begin + length});
  return out;
}

void undo(SequentialImpl& s) {
  for (auto& part : s)
    if (part.type_info() == typeid(Checkpointed) && !part.get<Checkpointed>().copied)
      part = AnyModule(part.get<Checkpointed>().own);
}

void checkpoint_run(SequentialImpl& s, const Run& run) {
  std::vector<AnyModule> parts(s.begin() + static_cast<int64_t>(run.begin),
                               s.begin() + static_cast<int64_t>(run.end));
  for (size_t i = run.begin; i < run.end; ++i) {
    auto& place = *(s.begin() + static_cast<int64_t>(i));
    place =
        AnyModule(std::make_shared<Checkpointed>(place, i == run.begin ? parts : std::vector<AnyModule>()));
  }
}

void checkpoint_parts(SequentialImpl& s, const std::string& name, Findings& out) {
  const auto children = s.children();
  int done = 0, left = 0;
  for (const Run& run : runs_of(s)) {
    bool fits = true;
    for (size_t i = run.begin; i < run.end; ++i) fits &= !has_batch_norm(*children[i]);
    if (fits) checkpoint_run(s, run);
    ++(fits ? done : left);
  }
  const std::string pass = "gradient_checkpointing";
  if (done > 0) out.push_back({pass, name, std::to_string(done) + " checkpoints"});
  if (left > 0)
    out.push_back({pass, name,
                   std::to_string(left) + " parts are not checkpointed: running statistics of their batch "
                                          "norms would move twice"});
}

// The outermost Sequentials below `m`; the inside of a checkpoint is left alone.
void walk(Module& m, const std::string& name, bool on, bool inside, Findings& out) {
  if (auto* blocks = dynamic_cast<CheckpointBlocks*>(&m)) {
    blocks->gradient_checkpointing = on && !inside;
    if (on && !inside) out.push_back({"gradient_checkpointing", name, "its blocks are checkpointed"});
    inside = true;
  }
  if (auto* s = m.as<torch::nn::Sequential>()) {
    undo(*s);
    if (on && !inside) checkpoint_parts(*s, name, out);
    inside = true;
  }
  for (const auto& child : m.named_children())
    walk(*child.value(), name == "itself" ? child.key() : name + "." + child.key(), on, inside, out);
}

}  // namespace

Findings set_checkpointing(Module& model, bool on) {
  Findings out;
  walk(model, "itself", on, false, out);
  return out;
}

}  // namespace tpubridge::passes
