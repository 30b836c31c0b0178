#include "tpubridge/device/counted.h"

#include <ATen/ExpandUtils.h>

#include <map>
#include <mutex>
#include <set>

#include "tpubridge/device/arguments.h"
#include "tpubridge/device/check_indices.h"
#include "tpubridge/device/fallback.h"
#include "tpubridge/device/kernels.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/resize.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/hlo/sized_text.h"

namespace tpubridge::device {
namespace {

using at::Tensor;
using Sizes = std::vector<int64_t>;

std::atomic<size_t>& most_sizes() {
  static std::atomic<size_t> most{16};
  return most;
}

bool has_program(const std::string& op, const Tensor& x) {
  static auto* seen = new std::map<std::string, std::set<Sizes>>;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  auto& sizes = (*seen)[op + c10::toString(x.scalar_type())];
  if (sizes.count(x.sizes().vec())) return true;
  if (sizes.size() >= most_sizes()) return false;
  sizes.insert(x.sizes().vec());
  return true;
}

// Whether an op takes the call to the device.
bool takes(const std::string& op, const Tensor& x) {
  return is_tpu(x) && !x.is_conj() && !x.is_neg() && has_program(op, x);
}

// Numbers that the size of a result hangs on, read on the host.
Sizes read_sizes(const std::string& op, const Tensor& numbers) {
  Tensor host = at::empty({numbers.numel()}, at::kLong);
  copy_to_host(numbers.view({-1}), host, "the size of what " + op + " gives");
  if (Recording* r = recording()) r->note_trouble("the size of what " + op + " gives hangs on values");
  exec::count_synchronising("aten::" + op);
  const auto* first = host.const_data_ptr<int64_t>();
  return {first, first + host.numel()};
}

// The first rows of what is longer.
Tensor first_of(const Tensor& wide, int64_t count) {
  if (wide.size(0) == count) return wide;
  trace::Value part;
  if (!exec::any_grid()) {
    Shape shape = shape_of(wide);
    shape.dims[0] = count;
    part = exec::compute_part(read(wide), shape);
  }
  if (!part) return wide.narrow(0, 0, count).clone();
  return dense_tensor(std::move(part), wide.scalar_type(), wide.device());
}

Shape long_row(int64_t n) { return {DType::s64, {n}}; }

std::vector<Tensor> recorded(const char* row, Arguments args, std::vector<Shape> shapes, c10::Device device) {
  exec::Lock lock(exec::mutex());
  std::vector<Tensor> out;
  for (auto& v : std::move(args).record(lower::find(row), std::move(shapes)))
    out.push_back(dense_tensor(std::move(v), at::kLong, device));
  after_op(device.index());
  return out;
}

struct Found {
  Tensor places;  // as many as the bucket has
  int64_t count = 0;
};
Found find_true(const std::string& op, const Tensor& mask) {
  Arguments args(mask.device());
  args.tensor(mask);
  const auto made = recorded("tpubridge::true_places", std::move(args),
                             {long_row(hlo::bucket_of(mask.numel())), {DType::s64, {}}}, mask.device());
  const int64_t count = read_sizes(op, made[1])[0];
  return {made[0].narrow(0, 0, hlo::bucket_of(count)), count};
}

Tensor empty_long(c10::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().dtype(at::kLong));
}

Tensor nonzero_of(const std::string& op, const Tensor& x) {
  const int64_t rank = x.dim();
  if (x.numel() == 0) return empty_long({0, rank}, x);
  if (rank == 0) return empty_long({read_sizes(op, x.ne(0).to(at::kLong))[0], 0}, x);
  const Found found = find_true(op, x);
  if (found.count == 0) return empty_long({0, rank}, x);
  Arguments args(x.device());
  args.tensor(found.places);
  args.constant(x.sizes().vec());
  const auto made = recorded("tpubridge::coordinates", std::move(args),
                             {{DType::s64, {found.places.size(0), rank}}}, x.device());
  return first_of(made[0], found.count);
}

Tensor nonzero(const Tensor& x) {
  if (!takes("nonzero", x)) return at::native::call_fallback_fn<&fall_back, at::_ops::nonzero>::call(x);
  return nonzero_of("nonzero", x);
}

// Whole rows of x [n, …] that a mask [n] chooses.
Tensor chosen(const std::string& op, const Tensor& rows, const Tensor& mask) {
  if (rows.numel() == 0) {  // of rows of nothing the count alone
    Sizes sizes = rows.sizes().vec();
    sizes[0] = mask.numel() == 0 ? 0 : read_sizes(op, mask.sum())[0];
    return at::empty(sizes, rows.options());
  }
  const Found found = find_true(op, mask);
  if (found.count == 0) return at::empty_like(rows.narrow(0, 0, 0));
  return first_of(rows.index_select(0, found.places), found.count);
}

Tensor masked_select(const Tensor& self, const Tensor& mask) {
  const bool fits = is_tpu(self) && self.device() == mask.device() && mask.scalar_type() == at::kBool &&
                    at::are_expandable(self.sizes(), mask.sizes());
  if (!fits || !takes("masked_select", self) || !has_program("masked_select", mask))
    return at::native::call_fallback_fn<&fall_back, at::_ops::masked_select>::call(self, mask);
  const auto both = at::broadcast_tensors({self, mask});
  return chosen("masked_select", both[0].reshape({-1}), both[1].reshape({-1}));
}

// torch's own gathers from the gradient, whose size is another each time: a program for each. This writes to
// the places of what was chosen, of which there are as many as the gradient has.
Tensor masked_select_backward(const Tensor& grad, const Tensor& input, const Tensor& mask) {
  const auto sizes = at::infer_size(input.sizes(), mask.sizes());
  const Tensor zeros = at::zeros(sizes, input.options()), all = mask.expand(sizes).reshape({-1});
  if (grad.numel() == 0) return zeros;  // it chose nothing
  if (!is_tpu(grad) || !is_tpu(mask) || grad.numel() > all.numel()) return zeros.masked_scatter(mask, grad);
  Arguments args(mask.device());
  args.tensor(all);
  const auto made = recorded("tpubridge::true_places", std::move(args),
                             {long_row(hlo::bucket_of(all.numel())), {DType::s64, {}}}, mask.device());
  const c10::List<std::optional<Tensor>> places({made[0].narrow(0, 0, grad.numel())});
  return zeros.view({-1}).index_put(places, grad.reshape({-1})).view(sizes);
}

using Three = std::tuple<Tensor, Tensor, Tensor>;

// Runs of equal elements or rows; `first`: where the first of each lies in what was given, as one cut to the
// count.
struct Runs {
  Tensor first, inverse, lengths;
  int64_t count = 0;
};
Runs runs_of(const std::string& op, const char* row, const Tensor& x, bool sorts) {
  const int64_t n = x.size(0), size = hlo::bucket_of(n);
  Arguments args(x.device());
  args.tensor(x);
  args.constant(sorts);
  const auto made = recorded(row, std::move(args),
                             {long_row(size), long_row(n), long_row(size), {DType::s64, {}}}, x.device());
  const int64_t count = read_sizes(op, made[3])[0], bucket = hlo::bucket_of(count);
  return {made[0].narrow(0, 0, bucket), made[1], made[2].narrow(0, 0, bucket), count};
}

bool has_order(const Tensor& x) { return !x.is_complex() && x.numel() > 0; }

Three unique_of(const std::string& op, const Tensor& self, bool sorts, bool inverse, bool counts) {
  const Tensor flat = self.reshape({-1});
  const Runs r = runs_of(op, "tpubridge::equal_runs", flat, sorts);
  return {first_of(flat.index_select(0, r.first), r.count),
          inverse ? r.inverse.view(self.sizes()) : empty_long({0}, self),
          counts ? first_of(r.lengths.clone(), r.count) : empty_long({0}, self)};
}

// torch gives all three here, asked for or not.
Three unique_along(const std::string& op, const Tensor& self, int64_t dim, bool sorts) {
  const Tensor first = self.movedim(dim, 0), flat = first.reshape({first.size(0), -1});
  const Runs r = runs_of(op, "tpubridge::equal_rows", flat, sorts);
  const Tensor rows = first_of(first.index_select(0, r.first), r.count);
  return {rows.movedim(0, dim).contiguous(), r.inverse, first_of(r.lengths.clone(), r.count)};
}

bool is_axis(const Tensor& x, int64_t dim) { return dim >= -x.dim() && dim < x.dim(); }

Three unique2(const Tensor& self, bool sorts, bool inverse, bool counts) {
  if (!has_order(self) || !takes("_unique2", self))
    return at::native::call_fallback_fn<&fall_back, at::_ops::_unique2>::call(self, sorts, inverse, counts);
  return unique_of("_unique2", self, true, inverse, counts);
}
std::tuple<Tensor, Tensor> unique(const Tensor& self, bool sorts, bool inverse) {
  if (!has_order(self) || !takes("_unique", self))
    return at::native::call_fallback_fn<&fall_back, at::_ops::_unique>::call(self, sorts, inverse);
  const auto [values, places, counts] = unique_of("_unique", self, true, inverse, false);
  return {values, places};
}
Three unique_dim(const Tensor& self, int64_t dim, bool sorts, bool inverse, bool counts) {
  if (!has_order(self) || !is_axis(self, dim) || !takes("unique_dim", self))
    return at::native::call_fallback_fn<&fall_back, at::_ops::unique_dim>::call(self, dim, sorts, inverse,
                                                                                counts);
  return unique_along("unique_dim", self, dim, true);
}
Three unique_dim_consecutive(const Tensor& self, int64_t dim, bool inverse, bool counts) {
  if (!has_order(self) || !is_axis(self, dim) || !takes("unique_dim_consecutive", self))
    return at::native::call_fallback_fn<&fall_back, at::_ops::unique_dim_consecutive>::call(self, dim,
                                                                                            inverse, counts);
  return unique_along("unique_dim_consecutive", self, dim, false);
}
Three unique_consecutive(const Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
  // As torch has it: along the one dimension there is, by its name, is along none.
  if (dim && (*dim != 0 || self.dim() != 1)) return at::unique_dim_consecutive(self, *dim, inverse, counts);
  if (!has_order(self) || !takes("unique_consecutive", self))
    return at::native::call_fallback_fn<&fall_back, at::_ops::unique_consecutive>::call(self, inverse, counts,
                                                                                        dim);
  return unique_of("unique_consecutive", self, false, inverse, counts);
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<c10::SymInt> size) {
  const auto type = repeats.scalar_type();
  const bool fits = is_tpu(repeats) && repeats.dim() == 1 && (type == at::kLong || type == at::kInt);
  const auto otherwise = [&] {
    return at::native::call_fallback_fn_symint<&fall_back, at::_ops::repeat_interleave_Tensor>::call(repeats,
                                                                                                     size);
  };
  if (!fits || repeats.numel() == 0 || !has_program("repeat_interleave.Tensor", repeats)) return otherwise();
  int64_t count = size ? size->expect_int() : -1, bucket = count;
  if (!size) {
    const auto facts =
        read_sizes("repeat_interleave", at::stack({repeats.min(), repeats.sum().to(type)}).to(at::kLong));
    if (facts[0] < 0) return otherwise();
    count = facts[1], bucket = hlo::bucket_of(count);
  }
  if (count < 0) return otherwise();
  if (size && checks_indices()) {  // a wrong size is an index out of range: torch has the words
    const auto facts =
        read_sizes("repeat_interleave", at::stack({repeats.min(), repeats.sum().to(type)}).to(at::kLong));
    if (facts[0] < 0 || facts[1] != count) return otherwise();
  }
  if (count == 0) return at::empty({0}, repeats.options());
  Arguments args(repeats.device());
  args.tensor(repeats);
  const auto made =
      recorded("tpubridge::repeated_places", std::move(args), {long_row(bucket)}, repeats.device());
  return first_of(made[0].to(type), count);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, c10::SymInt minlength) {
  const int64_t least = minlength.expect_int();
  const bool weighs = weights && weights->defined();
  const bool fits =
      self.dim() == 1 && self.numel() > 0 && least >= 0 && c10::isIntegralType(self.scalar_type(), false) &&
      (!weighs ||
       (weights->sizes() == self.sizes() && weights->device() == self.device() && !weights->is_complex()));
  const auto otherwise = [&] {
    return at::native::call_fallback_fn_symint<&fall_back, at::_ops::bincount>::call(self, weights,
                                                                                     minlength);
  };
  if (!fits || !takes("bincount", self)) return otherwise();
  const Tensor places = self.to(at::kLong);
  const auto facts = read_sizes("bincount", at::stack({places.min(), places.max()}));
  if (facts[0] < 0) return otherwise();
  const int64_t count = std::max(facts[1] + 1, least), size = count == least ? count : hlo::bucket_of(count);
  const auto type = !weighs ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  const auto options = self.options().dtype(type);
  const Tensor each = weighs ? weights->to(type) : at::ones({1}, options).expand_as(places);
  return first_of(at::zeros({size}, options).scatter_add(0, places, each), count);
}

}  // namespace

size_t set_counted_sizes(size_t most) { return most_sizes().exchange(most); }

Masks replace_masks(const IndexRule& rule, torch::jit::Stack& stack, size_t args) {
  if (rule.form != IndexRule::Form::list) return Masks::none;
  const size_t first = stack.size() - args;
  const Tensor source = stack[first + rule.source].toTensor();
  std::vector<Tensor> indices;
  for (const auto& item : stack[first + rule.index].toListRef())
    indices.push_back(item.isNone() ? Tensor() : item.toTensor());
  const auto is_mask = [](const Tensor& t) {
    return t.defined() && (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte);
  };
  if (std::none_of(indices.begin(), indices.end(), is_mask)) return Masks::none;
  int64_t dim = 0;
  for (Tensor& t : indices) {  // each mask has the sizes of the dimensions that it stands for
    const int64_t rank = is_mask(t) ? t.dim() : 1;
    if (dim + rank > source.dim()) return Masks::none;
    if (is_mask(t)) {
      if (!is_tpu(t) ||
          t.sizes() != source.sizes().slice(static_cast<size_t>(dim), static_cast<size_t>(rank)) ||
          !takes("index by a mask", t))
        return Masks::none;
      if (t.scalar_type() == at::kByte) {
        TORCH_WARN_ONCE(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
        t = t.ne(0);
      }
    }
    dim += rank;
  }
  if (rule.op == "index.Tensor" && args == 2 && indices.size() == 1 && indices[0].dim() > 0) {
    Sizes rows = source.sizes().slice(static_cast<size_t>(indices[0].dim())).vec();
    rows.insert(rows.begin(), indices[0].numel());
    Tensor out = chosen("index", source.reshape(rows), indices[0].reshape({-1}));
    torch::jit::drop(stack, args);
    stack.emplace_back(std::move(out));
    return Masks::done;
  }
  c10::List<std::optional<Tensor>> places;
  for (const Tensor& t : indices) {
    if (!is_mask(t)) {
      places.push_back(t.defined() ? std::optional<Tensor>(t) : std::nullopt);
      continue;
    }
    if (t.dim() == 0) return Masks::none;
    const Tensor found = nonzero_of("index", t);
    for (int64_t d = 0; d < t.dim(); ++d) places.push_back(found.select(1, d));
  }
  stack[first + rule.index] = std::move(places);
  return Masks::places;
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("masked_select_backward", TORCH_FN(masked_select_backward));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(nonzero));
  m.impl("masked_select", TORCH_FN(masked_select));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("_unique", TORCH_FN(unique));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
  m.impl("bincount", TORCH_FN(bincount));
}

}  // namespace tpubridge::device
