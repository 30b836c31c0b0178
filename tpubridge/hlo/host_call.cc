#include "tpubridge/hlo/host_call.h"

#include "tpubridge/base/ffi_names.h"
#include "tpubridge/hlo/custom_call.h"

namespace tpubridge::hlo {
namespace {

std::vector<int64_t> row_major(const Shape& s) {
  std::vector<int64_t> out;
  for (int i = s.rank(); i-- > 0;) out.push_back(i);
  return out;
}

}  // namespace

Values host_call(Builder& b, std::string_view function, List<Value> operands, List<Shape> results,
                 Attributes constants) {
  CustomCall call{.target = std::string(ffi::kTarget), .api = CustomCall::Api::typed_ffi};
  for (const Value& v : operands) call.operand_layouts.push_back(row_major(v.shape()));
  for (const Shape& s : results) call.result_layouts.push_back(row_major(s));
  call.attributes = std::move(constants);
  call.attributes.emplace_back(std::string(ffi::kOpAttribute), std::string(function));
  return custom_call(b, operands, results, call);
}

}  // namespace tpubridge::hlo
