// The plan of a call that was not seen before: constants, shapes, the promoted type.
#include <c10/util/strides.h>

#include "tpubridge/device/call.h"
#include "tpubridge/device/call_walk.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::device {
namespace {

using trace::Arg;
using trace::Ref;

struct ArgSink {
  std::vector<Arg> args;
  std::vector<Ref> refs;
  int operands = 0;
  bool in_list = false;
  at::native::ResultTypeState types;

  template <class T>
  void put(T v) {
    args.emplace_back(std::in_place_type<T>, std::move(v));
  }
  void ref(Ref r) {
    if (in_list)
      refs.push_back(r);
    else
      put(r);
  }
  void none() { put(std::monostate()); }
  void absent() { ref(Ref{}); }
  void generator(const at::Generator&) { none(); }
  void ignored(const c10::IValue&) { none(); }
  template <class T>
  void promotes(const T& v) {
    types = at::native::update_result_type_state(v, types);
  }
  void tensor(const at::Tensor&) { ref(Ref{operands++}); }
  void host_number(const at::Tensor&) { ref(Ref{operands++}); }
  void number(const at::Scalar&) { ref(Ref{operands++}); }
  void begin_list(size_t n) {
    in_list = true;
    refs.clear();
    refs.reserve(n);
  }
  void end_list() {
    in_list = false;
    put(refs);
  }
  void constant(c10::IntArrayRef v) { put(v.vec()); }
  template <class T>
  void constant(T v) {
    put(std::move(v));
  }
};

c10::ScalarType scalar_type(DType t) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i)
    if (dtype_of(static_cast<c10::ScalarType>(i)) == t) return static_cast<c10::ScalarType>(i);
  TORCH_CHECK(false, "torch has no element type ", std::string(name(t)));
}

// What the row says; nothing where it refuses the call. A row that throws refuses too: the CPU's kernel has
// torch's words for what is wrong.
std::vector<Shape> shapes_of_row(const OpInfo& info, const std::vector<Arg>& args, const CallKey& key) {
  std::vector<const Shape*> shapes;
  for (const auto& o : key.operands) shapes.push_back(&o.shape());
  try {
    return info.row->shape(lower::Call(args, std::move(shapes)));
  } catch (const std::exception&) {
    return {};
  }
}

void check_call(const lower::Custom& custom, const std::vector<Arg>& args, const CallKey& key) {
  std::vector<const Shape*> shapes;
  for (const auto& o : key.operands) shapes.push_back(&o.shape());
  custom.check(lower::Call(args, std::move(shapes)));
}

// Of an op of the user's own: what is wrong with the call is told.
std::vector<Shape> shapes_of_custom(const lower::Custom& custom, const std::vector<Arg>& args,
                                    const CallKey& key) {
  std::vector<const Shape*> shapes;
  for (const auto& o : key.operands) shapes.push_back(&o.shape());
  return custom.shapes(lower::Call(args, std::move(shapes)));
}

std::vector<Meta> metas_of(std::vector<Shape> shapes, DType common) {
  std::vector<Meta> out;
  for (auto& s : shapes) {
    if (s.dtype == DType::token) s.dtype = common;
    const bool absent = s.dims == lower::absent_dims();
    auto g = trace::contiguous(absent ? lower::Dims{0} : s.dims);
    out.push_back({g.sizes, g.strides, scalar_type(s.dtype), absent});
  }
  return out;
}

// Results of the rank of an argument that has its channels last have them last too.
void keep_format(std::vector<Meta>& metas, const OpInfo& info, c10::ArrayRef<c10::IValue> args) {
  int64_t rank = 0;
  each_tensor(info, args, [&](const at::Tensor& t) {
    const auto format = t.suggest_memory_format();
    if (format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d)
      rank = t.dim();
  });
  for (auto& m : metas) {
    if (rank == 0 || static_cast<int64_t>(m.sizes.size()) != rank) continue;
    const auto strides =
        rank == 4 ? c10::get_channels_last_strides_2d(m.sizes) : c10::get_channels_last_strides_3d(m.sizes);
    m.strides.assign(strides.begin(), strides.end());
  }
}

}  // namespace

Plan make_plan(const c10::OperatorHandle& op, const OpInfo& info, c10::Device device,
               c10::ArrayRef<c10::IValue> args, const CallKey& key) {
  ArgSink sink;
  CallWalk<ArgSink>(info, device, sink).run(args);
  const bool promotes = info.row->flags & (lower::promote | lower::promote_scalars);
  auto common = [&](DType otherwise) {
    return promotes ? dtype_of(at::native::result_type(sink.types)).value_or(otherwise) : otherwise;
  };
  const lower::Custom* custom = info.row->custom;
  if (custom) check_call(*custom, sink.args, key);
  std::vector<Meta> metas;
  if (custom && !has_meta(op))
    metas = metas_of(shapes_of_custom(*custom, sink.args, key), DType::f32);
  else if (info.row->shape)
    metas = metas_of(shapes_of_row(info, sink.args, key), common(DType::f32));
  else
    metas = infer(op, info, args);
  Plan plan;
  if (metas.empty()) return plan;
  if (info.row->flags & lower::keep_format) keep_format(metas, info, args);
  std::vector<Shape> shapes;
  for (const auto& m : metas) {
    const auto dtype = dtype_of(m.dtype);
    TORCH_CHECK(dtype, op.operator_name(), ": the result would be of ", m.dtype, ", which XLA does not have");
    shapes.push_back({*dtype, m.sizes});
    plan.elements += shapes.back().elements();
    plan.outputs.push_back(
        {m.sizes, m.strides, m.dtype,
         std::make_shared<const trace::Geometry>(trace::Geometry{m.sizes, m.strides, 0}),
         at::detail::computeStorageNbytes(m.sizes, m.strides, c10::elementSize(m.dtype)), m.absent,
         c10::IntArrayRef(m.strides) == c10::IntArrayRef(c10::contiguous_strides(m.sizes))});
  }
  if (info.row->flags & lower::random) {  // seed and offset, added by whoever records the call
    sink.put(Ref{sink.operands++});
    sink.put(Ref{sink.operands++});
  }
  if (info.row->flags & lower::precise) sink.put(float32_precision());
  const DType type = common(shapes[0].dtype);
  plan.spec = std::make_shared<const trace::Spec>(info.row, std::move(sink.args), std::move(shapes), type);
  std::vector<Shape> operands;
  for (const auto& o : key.operands) operands.push_back(o.shape());
  operands.resize(static_cast<size_t>(sink.operands), Shape{DType::s64, {}});  // seed and offset
  if (custom)
    lower::check_custom(plan.spec, operands);
  else if (!lower::can_lower(plan.spec, operands))
    plan.outputs.clear();
  return plan;
}

// torch's setting as a number of hlo::Precision.
int64_t float32_precision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST:
      return static_cast<int64_t>(hlo::Precision::highest);
    case at::Float32MatmulPrecision::HIGH:
      return static_cast<int64_t>(hlo::Precision::high);
    default:
      return static_cast<int64_t>(hlo::Precision::default_);
  }
}

}  // namespace tpubridge::device
