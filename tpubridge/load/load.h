// tpubridge::load: a model that Python exported (torch.export.save), as a module.
//
//   auto model = tpubridge::load("model.pt2");
//   model->to(torch::Device("tpu"));
//   torch::Tensor y = model->forward(x);                                  // one tensor out
//   auto out = model->call({ids}, {{"attention_mask", mask}});            // by place and by name
//   out["logits"];
//
// It is a torch::nn::Module: parameters and buffers have their Python names, autograd and optimizers work,
// and tpubridge::compile takes it. Weights are mapped from the file, which must not be shortened meanwhile;
// the file itself is never written. Nothing pickled is read. docs/from-export.md
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

// The results of a call, by name: keys of dicts and places in tuples, joined by dots ("logits", "cache.0").
// The name of a result that stands alone is "out".
class Outputs {
 public:
  Outputs(std::vector<std::string> names, std::vector<c10::IValue> values, c10::IValue tree)
      : names_(std::move(names)), values_(std::move(values)), tree_(std::move(tree)) {}

  [[nodiscard]] at::Tensor operator[](const std::string& name) const;  // throws where it is no tensor
  [[nodiscard]] at::Tensor operator[](size_t place) const;
  [[nodiscard]] const c10::IValue& value(const std::string& name) const;  // a tensor, a number or None
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<c10::IValue>& values() const { return values_; }
  [[nodiscard]] const c10::IValue& tree() const { return tree_; }  // tuples, lists and dicts as in Python
  [[nodiscard]] size_t size() const { return values_.size(); }

 private:
  std::vector<std::string> names_;
  std::vector<c10::IValue> values_;
  c10::IValue tree_;
};

class LoadedModule : public torch::nn::Module {
 public:
  using Named = std::map<std::string, c10::IValue>;

  explicit LoadedModule(const Path& path);
  ~LoadedModule() override;

  // Arguments by place (those that Python exported by name follow, in its order) and by name. A tuple, list
  // or dict is given as one (IValue), or leaf by leaf under its names ("past.0"). Sizes outside of what was
  // exported throw ArgumentError before anything runs.
  [[nodiscard]] Outputs call(const std::vector<c10::IValue>& places, const Named& named = {});

  // For models that give one tensor (or one and things that are none).
  template <class... T>
  at::Tensor forward(const T&... inputs) {
    return first_tensor(call({c10::IValue(inputs)...}));
  }

  [[nodiscard]] const std::vector<std::string>& input_names() const;
  [[nodiscard]] const std::vector<std::string>& output_names() const;

  // Until one of these is called, dropout and batch norm do what they did when the model was exported.
  void train(bool on = true) override;
  // As in Python, a type is for what is floating point: indices and flags keep theirs, and so does what is
  // complex.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  // The same export with the weights as they are now, for torch.export.load or tpubridge::load. Their types
  // must be those of the file.
  void save(const Path& path) const;

 private:
  [[nodiscard]] at::Tensor first_tensor(const Outputs& outputs) const;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws FileError for a file that is damaged or holds no export, UnsupportedError for a version or an op
// that is not known (with its node and the Python lines it comes from).
[[nodiscard]] std::shared_ptr<LoadedModule> load(const Path& path);

}  // namespace tpubridge
