// Quantised models in .safetensors files.
#include <torch/nn/module.h>

#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/quant/quantize.h"

namespace tpubridge {
namespace {

using device::Quantized;

constexpr const char *kNumbers = ".numbers", *kScales = ".scales", *kMark = "tpubridge.quantized";

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

NamedTensors state_of_model(const torch::nn::Module& model) {
  NamedTensors out;
  for (const auto& p : model.named_parameters()) out.emplace_back(p.key(), p.value());
  for (const auto& b : model.named_buffers()) out.emplace_back(b.key(), b.value());
  std::erase_if(out, [](const auto& t) { return !t.second.defined(); });
  return out;
}

HostTensor file_tensor(std::string name, const at::Tensor& t) {
  const auto dtype = device::dtype_of(t.scalar_type());
  if (!dtype || t.layout() != at::kStrided)
    throw ArgumentError("a tensor of this type cannot be saved",
                        {{"tensor", name}, {"type", c10::toString(t.scalar_type())}});
  const at::Tensor kept = t.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
  return make_tensor(std::move(name), {*dtype, kept.sizes().vec()},
                     {static_cast<const std::byte*>(kept.const_data_ptr()), kept.nbytes()});
}

at::Tensor from_file(const HostTensor& t, at::ScalarType type) {
  return at::from_blob(
             const_cast<std::byte*>(t.data.get()), t.shape.dims, [keep = t.data](void*) {},
             at::TensorOptions(type))
      .clone();
}

// Rows of bytes, two numbers each: as they are packed side by side, whatever the device has.
at::Tensor file_bytes(const at::Tensor& numbers) {
  const auto halves = numbers.to(at::kCPU).to(at::kInt).bitwise_and(15).chunk(2, -1);
  return (halves[0] + halves[1] * 16).to(at::kByte).reshape({numbers.size(0), -1});
}
at::Tensor of_file_bytes(const at::Tensor& bytes, int64_t group) {
  const at::Tensor wide = bytes.reshape({bytes.size(0), -1, group / 2}).to(at::kInt);
  const at::Tensor both = at::cat({wide.bitwise_and(15), wide.bitwise_right_shift(4)}, -1);
  return (both - both.gt(7).to(at::kInt) * 16).to(at::kChar);
}

class QuantizedReader {
 public:
  QuantizedReader(const torch::nn::Module& model, const Path& path)
      : path_(path), file_(path), state_(state_of_model(model)) {
    std::map<std::string, bool> wanted;
    for (const auto& [name, t] : state_) {
      for (const auto& [part, shape] : parts(name, t)) {
        wanted[part] = true;
        check(name, t, part, shape);
      }
    }
    for (const auto& name : file_.names())
      if (!wanted.contains(name))
        refuse("has a tensor that the model has not", name, "The file is of another model.");
  }

  void load() const {
    const at::NoGradGuard no_grad;
    for (auto [name, t] : state_) {
      const auto q = device::quantized_of(t);
      if (!q) {
        t.copy_(from_file(file_.read(name), t.scalar_type()));
        continue;
      }
      const at::Tensor scales = from_file(file_.read(name + kScales), t.scalar_type());
      const at::Tensor stored = from_file(file_.read(name + kNumbers), q->bits == 8 ? at::kChar : at::kByte);
      const at::Tensor numbers =
          q->bits == 8 ? stored.reshape({q->rows, -1, q->group}) : of_file_bytes(stored, q->group);
      const bool turned = t.size(0) != q->rows || t.stride(1) != 1;
      const auto packed = device::pack(numbers.to(t.device()), scales.to(t.device()), q->bits, q->packing);
      t.set_data(device::quantized_tensor(packed, t.scalar_type(), t.device(), turned));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& name, const std::string& hint) const {
    throw FileError("the file " + what + ": " + quote(name), {{"path", path_.string()}, {"tensor", name}},
                    hint);
  }

  [[nodiscard]] static std::vector<std::pair<std::string, Shape>> parts(const std::string& name,
                                                                        const at::Tensor& t) {
    const DType type = device::dtype_of(t.scalar_type()).value();
    const auto q = device::quantized_of(t);
    if (!q) return {{name, {type, t.sizes().vec()}}};
    const Shape numbers =
        q->bits == 8 ? Shape{DType::s8, {q->rows, q->size}} : Shape{DType::u8, {q->rows, q->size / 2}};
    return {{name + kNumbers, numbers}, {name + kScales, {type, {q->rows, q->size / q->group}}}};
  }

  void check(const std::string& name, const at::Tensor& t, const std::string& part, const Shape& want) const {
    const Shape* have = file_.shape(part);
    if (!have && device::quantized_of(t) && file_.shape(name))
      refuse("has the weight as it was before quantize()", name, "Load it before quantize().");
    if (!have && !device::quantized_of(t) && file_.shape(name + kNumbers))
      refuse("has a quantised weight where the model has a plain one", name,
             "Call quantize() in the same way first.");
    if (!have) refuse("lacks a tensor of the model", part, "The file is of another model.");
    if (*have != want)
      throw FileError(
          "a tensor of the file is not what the model has",
          {{"path", path_.string()}, {"tensor", part}, {"expected", want.str()}, {"found", have->str()}},
          "The model must be quantised with the same type and group, and be of the same sizes.");
  }

  Path path_;
  SafetensorsReader file_;
  NamedTensors state_;
};

}  // namespace

void save_quantized(const torch::nn::Module& model, const Path& path) {
  const at::NoGradGuard no_grad;
  std::vector<HostTensor> out;
  std::map<std::string, bool> names;
  const auto add = [&](std::string name, const at::Tensor& t) {
    if (!names.emplace(name, true).second)
      throw ArgumentError("two tensors of the model would have one name in the file", {{"tensor", name}},
                          "Rename the parameter.");
    out.push_back(file_tensor(std::move(name), t));
  };
  for (const auto& [name, t] : state_of_model(model)) {
    const auto q = device::quantized_of(t);
    if (!q) {
      add(name, t);
      continue;
    }
    const auto [numbers, scales] = device::unpack(*q, t.scalar_type(), t.device());
    add(name + kNumbers, q->bits == 8 ? numbers.reshape({q->rows, q->size}) : file_bytes(numbers));
    add(name + kScales, scales);
  }
  write_safetensors(path, out, {{kMark, "1"}});
}

void load_quantized(torch::nn::Module& model, const Path& path) { QuantizedReader(model, path).load(); }

}  // namespace tpubridge
