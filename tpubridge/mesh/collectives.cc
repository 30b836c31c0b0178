#include "tpubridge/mesh/collectives.h"

#include <functional>
#include <limits>
#include <set>
#include <sstream>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/api.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/hlo/collectives.h"
#include "tpubridge/hlo/hlo.h"

namespace tpubridge {
namespace {

using hlo::Value;
using Body = std::function<Value(Value)>;

std::string shown(const at::Tensor& t) {
  std::ostringstream out;
  out << t.scalar_type() << t.sizes() << " on " << t.device();
  return out.str();
}

void check(const char* operation, const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) throw distributed_error(operation, "there are no tensors");
  std::set<int> used;
  for (const at::Tensor& t : tensors) {
    if (!t.defined()) throw distributed_error(operation, "one of the tensors is undefined");
    if (!device::is_tpu(t))
      throw distributed_error(operation, "a tensor is not on the device: " + shown(t),
                              "Move each to a device of its own: t.to(torch::Device(\"tpu:0\")).");
    if (t.sizes() != tensors[0].sizes() || t.scalar_type() != tensors[0].scalar_type())
      throw distributed_error(operation, "tensors differ: " + shown(tensors[0]) + " and " + shown(t));
    if (!used.insert(t.device().index()).second)
      throw distributed_error(operation, "two tensors are on one device: " + shown(t),
                              "Give one tensor for each device.");
  }
}

// Runs `body` as one program on the devices of the tensors.
std::vector<at::Tensor> run(const char* operation, const std::vector<at::Tensor>& tensors, const Body& body) {
  if (device::Recording* r = device::recording()) (void)r->host_read(operation);
  const exec::Lock lock(exec::mutex());
  pjrt::CompileOptions options;
  options.num_replicas = static_cast<int>(tensors.size());
  std::vector<trace::Value> values;
  for (const at::Tensor& t : tensors) {
    values.push_back(device::read(t));
    exec::materialise(t.device().index(), {values.back()}, operation);
    options.devices.push_back(exec::device(t.device().index()).id());
  }
  hlo::Builder b({.replicas = options.num_replicas});
  const Value result = body(b.parameter(values[0].shape()));
  const Shape& shape = result.shape();
  const exec::Ready ready = exec::program_over(b.finish({result}), options, exec::this_mode(options));
  std::vector<std::vector<const pjrt::Buffer*>> arguments;
  for (const auto& v : values) arguments.push_back({&exec::buffer_of(*v.node(), v.index())});
  ready.count();
  auto outputs = exec::execute_all(*ready.program->program, arguments);
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int index = tensors[i].device().index();
    out.push_back(device::dense_tensor(exec::leaf_of(std::move(outputs[i][0]), shape, index),
                                       tensors[i].scalar_type(), tensors[i].device()));
  }
  return out;
}

// In torch NaN comes through maxima and minima; XLA's collective on CPUs loses it, so a second one carries
// it.
Value extreme(Value x, hlo::Reducer reducer) {
  const Value out = hlo::all_reduce(x, reducer);
  if (!is_float(x.dtype())) return out;
  const Value any = hlo::all_reduce(hlo::compare(x, x, hlo::Direction::ne), hlo::Reducer::or_);
  const Value nan = hlo::constant(x.builder(), x.shape(), std::numeric_limits<double>::quiet_NaN());
  return hlo::select(any, nan, out);
}

// What the plugin or the compiler says becomes an error of the collective; ours stay what they are.
template <class F>
auto told(const char* operation, F&& f) {
  try {
    return f();
  } catch (const TPUBackendError&) {
    throw;
  } catch (const exec::CompileForbidden&) {
    throw;
  } catch (const Error& e) {
    throw distributed_error(operation, e.what());
  }
}

}  // namespace

Reduce reduce_named(std::string_view name) {
  for (const auto& [known, op] : {std::pair{"sum", Reduce::sum}, std::pair{"mean", Reduce::mean},
                                  std::pair{"max", Reduce::max}, std::pair{"min", Reduce::min}})
    if (name == known) return op;
  throw distributed_error("all_reduce", "there is no reduction '" + std::string(name) + "'",
                          "There are sum, mean, max and min.");
}

std::vector<at::Tensor> all_reduce(const std::vector<at::Tensor>& tensors, Reduce op) {
  constexpr const char* kName = "all_reduce";
  check(kName, tensors);
  const at::ScalarType type = tensors[0].scalar_type();
  const bool floating = c10::isFloatingType(type) || c10::isComplexType(type);
  if (op == Reduce::mean && !floating)
    throw distributed_error(kName, "a mean of " + shown(tensors[0]) + " is not a whole number",
                            "Convert to a floating-point type first, or take the sum.");
  if (type == at::kBool && op == Reduce::sum)
    throw distributed_error(kName, "bool has no sum", "Convert to int64, or take the maximum.");
  return told(kName, [&] {
    return run(kName, tensors, [&](Value x) {
      if (op == Reduce::max) return extreme(x, hlo::Reducer::maximum);
      if (op == Reduce::min) return extreme(x, hlo::Reducer::minimum);
      const Value total = hlo::all_reduce(x, hlo::Reducer::add);
      if (op == Reduce::sum) return total;
      return hlo::divide(total, hlo::constant(x.builder(), x.shape(), static_cast<double>(tensors.size())));
    });
  });
}

std::vector<std::vector<at::Tensor>> all_gather(const std::vector<at::Tensor>& tensors) {
  constexpr const char* kName = "all_gather";
  check(kName, tensors);
  const auto whole = told(kName, [&] {
    return run(kName, tensors, [](Value x) {
      std::vector<int64_t> dims = x.dims();
      dims.insert(dims.begin(), 1);
      return hlo::all_gather(hlo::reshape(x, dims), 0);
    });
  });
  std::vector<std::vector<at::Tensor>> out;
  for (const at::Tensor& t : whole) out.push_back(t.unbind(0));
  return out;
}

void barrier() {
  std::vector<at::Tensor> tokens;
  for (int i = 0; i < exec::device_count(); ++i)
    tokens.push_back(at::zeros({}, at::TensorOptions(at::kInt).device(c10::DeviceType::PrivateUse1, i)));
  sync(all_reduce(tokens));
}

}  // namespace tpubridge
