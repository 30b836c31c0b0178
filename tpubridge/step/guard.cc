#include "tpubridge/step/guard.h"

#include <ATen/autocast_mode.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <bit>

#include "tpubridge/device/check_indices.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/device/tensor_facts.h"

namespace tpubridge::step {
namespace {

void append(std::vector<uint64_t>& guard, const at::Tensor& t) {
  if (!t.defined()) {
    guard.push_back(~uint64_t{0});
    return;
  }
  const bool host = t.device().is_cpu();
  guard.push_back(static_cast<uint64_t>(t.scalar_type()));
  guard.push_back(static_cast<uint64_t>(t.device().type()));
  guard.push_back(static_cast<uint64_t>(t.device().index()));
  guard.push_back(t.key_set().raw_repr());
  guard.push_back((t.requires_grad() ? 1 : 0) | (t.is_leaf() ? 2 : 0) |
                  (device::hooks_of(*t.unsafeGetTensorImpl()) != 0 ? 4 : 0));
  // The elements of one of the host are copied, wherever they begin.
  guard.push_back(host ? 0 : static_cast<uint64_t>(t.storage_offset()));
  guard.push_back(host || !t.has_storage() ? 0 : t.storage().nbytes());
  guard.push_back(static_cast<uint64_t>(t.dim()));
  for (int64_t d : t.sizes()) guard.push_back(static_cast<uint64_t>(d));
  for (int64_t d : t.strides()) guard.push_back(static_cast<uint64_t>(d));
}

// What each word of a guard says, for people; `before` words stand before those of the arguments.
std::vector<std::string> labels(const std::vector<at::Tensor>& arguments, size_t others, size_t before) {
  std::vector<std::string> out;
  for (size_t i = 0; i < others; ++i) out.push_back("number " + std::to_string(i) + " among the arguments");
  out.resize(
      before,
      "a mode (grad, autocast, the current device, types of layers, train or eval, an optimizer's options)");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string which = "tensor " + std::to_string(i) + " among the arguments";
    const int64_t dims = arguments[i].defined() ? arguments[i].dim() : 0;
    out.push_back("element type of " + which);
    if (arguments[i].defined())
      for (const char* what : {"device", "device", "conjugate bit or layout", "requires_grad or hooks",
                               "place in its memory", "memory", "number of dimensions"})
        out.push_back(what + (" of " + which));
    for (int64_t d = 0; d < dims; ++d) out.push_back("size " + std::to_string(d) + " of " + which);
    for (int64_t d = 0; d < dims; ++d) out.push_back("stride " + std::to_string(d) + " of " + which);
    out.push_back("memory that is shared with " + which);
  }
  return out;
}

}  // namespace

void append_modes(Guard& g) {
  const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
  g.push_back(
      static_cast<uint64_t>(at::GradMode::is_enabled()) | (c10::InferenceMode::is_enabled() ? 2 : 0) |
      (autocast ? 4 : 0) | (at::globalContext().deterministicAlgorithms() ? 8 : 0) |
      (autocast ? static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kPrivateUse1)) << 8 : 0));
  g.push_back(static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()));
  g.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  g.push_back(compute_type_changes());
  // Where "tpu" is, and whether places are looked at.
  const auto current = c10::impl::getDeviceGuardImpl(at::kPrivateUse1)->getDevice().index();
  g.push_back(static_cast<uint64_t>(current) | (device::checks_indices() ? uint64_t{1} << 32 : 0));
}

void append_arguments(Guard& g, const std::vector<at::Tensor>& arguments) {
  c10::SmallVector<const c10::StorageImpl*, 8> seen;  // which arguments share a storage
  for (const auto& t : arguments) {
    append(g, t);
    const auto* s = t.defined() ? t.storage().unsafeGetStorageImpl() : nullptr;
    g.push_back(static_cast<uint64_t>(std::find(seen.begin(), seen.end(), s) - seen.begin()));
    seen.push_back(s);
  }
}

std::string changes(const Guard& a, const Guard& b, const std::vector<at::Tensor>& arguments, size_t others) {
  if (a.size() != b.size()) return "other arguments, or another number of dimensions";
  std::vector<uint64_t> of_arguments;
  for (const auto& t : arguments) {
    append(of_arguments, t);
    of_arguments.push_back(0);
  }
  const auto names = labels(arguments, others, b.size() - of_arguments.size());
  std::string text;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool stride = names[i].rfind("stride", 0) == 0;  // follows a size that changed
    if (a[i] == b[i] || (stride && !text.empty())) continue;
    text += (text.empty() ? "" : ", ") + names[i];
    if (names[i].rfind("size", 0) != 0) continue;
    text += " went from " + std::to_string(a[i]) + " to " + std::to_string(b[i]);
    if (b[i] > 0 && b[i] < (1u << 30)) text += " (pad to " + std::to_string(std::bit_ceil(b[i])) + ")";
  }
  return text;
}

}  // namespace tpubridge::step
