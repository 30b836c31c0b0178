// The key of a call: every fact that its shapes, element types and constants come from, and its operands.
#include <cstring>

#include "tpubridge/device/call.h"
#include "tpubridge/device/call_walk.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

// Each argument begins with a word that says what it is, so no two different calls give the same words.
enum Tag : uint64_t { none, absent, tensor, host_tensor, number, constant, list, text, other };

struct KeySink {
  CallKey& key;
  c10::Device device;
  bool wide;  // some operand is f64: numbers keep all their digits

  void put(Tag tag, uint64_t more = 0) { key.words.push_back(tag | (more << 8)); }
  void none() { put(Tag::none); }
  void absent() { put(Tag::absent); }
  void generator(const at::Generator& g) {
    key.generator = g;
    put(Tag::none);
  }
  void ignored(const c10::IValue& v) { put(Tag::other, v.isInt() ? static_cast<uint64_t>(v.toInt()) : 0); }

  void promotes(const at::Tensor&) {}  // what a tensor's own words say
  void promotes(const at::Scalar&) {}

  void geometry(const at::Tensor& t) {
    const auto sizes = t.sizes(), strides = t.strides();
    put(Tag::tensor, static_cast<uint64_t>(t.scalar_type()) | (sizes.size() << 16));
    for (int64_t d : sizes) key.words.push_back(static_cast<uint64_t>(d));
    for (int64_t d : strides) key.words.push_back(static_cast<uint64_t>(d));
  }
  void tensor(const at::Tensor& t) {
    geometry(t);
    key.operands.push_back(read_held(t));
  }
  void host_number(const at::Tensor& t) {
    const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
    put(Tag::host_tensor, static_cast<uint64_t>(t.scalar_type()) | (wrapped ? 1u << 16 : 0));
    const OwnOps own;
    if (lift(t.item(), wide || (t.scalar_type() == at::kDouble && !wrapped))) {
      if (Recording* r = recording()) r->feed(key.operands.back(), t);
    } else {
      key.operands.push_back(exec::to_device(t.const_data_ptr(), shape_of(t), {}, device.index()));
    }
  }
  void number(const at::Scalar& s) {
    put(Tag::number, static_cast<uint64_t>(s.type()) | (wide ? 1u << 16 : 0));
    lift(s, wide);
    if (Recording* r = recording()) r->number_made(key.operands.back());
  }
  // A number becomes an input of the program; false for complex ones.
  bool lift(const at::Scalar& s, bool all_digits) {
    trace::Number n;
    if (s.isFloatingPoint()) {
      n.dtype = all_digits ? DType::f64 : DType::f32;
      n.real = s.toDouble();
    } else if (s.isIntegral(/*includeBool=*/true)) {
      n.dtype = DType::s64;
      n.integer = s.toLong();
    } else {
      return false;
    }
    key.operands.push_back(trace::Node::number(n, device.index()));
    return true;
  }

  void begin_list(size_t n) { put(Tag::list, n); }
  void end_list() {}

  void constant(int64_t v) {
    put(Tag::constant, 1);
    key.words.push_back(static_cast<uint64_t>(v));
  }
  void constant(bool v) { put(Tag::constant, v ? 3 : 2); }
  void constant(DType v) { put(Tag::constant, 4 + (static_cast<uint64_t>(v) << 8)); }
  void constant(double v) {
    put(Tag::constant, 5);
    bits_of(v);
  }
  void constant(c10::IntArrayRef v) {
    put(Tag::constant, 6 + (v.size() << 8));
    for (int64_t d : v) key.words.push_back(static_cast<uint64_t>(d));
  }
  void constant(const std::vector<double>& v) {
    put(Tag::constant, 7 + (v.size() << 8));
    for (double d : v) bits_of(d);
  }
  void constant(const std::string& v) {
    put(Tag::text, v.size());
    for (char c : v) key.words.push_back(static_cast<unsigned char>(c));
  }
  void bits_of(double v) {
    uint64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    key.words.push_back(bits);
  }
};

}  // namespace

bool read_call(const OpInfo& info, c10::Device device, c10::ArrayRef<c10::IValue> args, CallKey& key) {
  bool wide = false;
  each_tensor(info, args, [&](const at::Tensor& t) {
    wide |= (t.scalar_type() == at::kDouble || t.scalar_type() == at::kComplexDouble) && is_tpu(t);
  });
  KeySink sink{key, device, wide};
  // Settings of the process that shapes or types come from.
  sink.put(Tag::other, static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  if (info.row->flags & lower::precise) sink.put(Tag::other, static_cast<uint64_t>(float32_precision()));
  if (!CallWalk<KeySink>(info, device, sink).run(args)) return false;
  for (size_t i = info.row_args; i < args.size(); ++i) {  // out= tensors: their shapes may decide
    if (args[i].isTensor() && args[i].toTensor().defined())
      sink.geometry(args[i].toTensor());
    else
      sink.none();
  }
  return true;
}

}  // namespace tpubridge::device
