// Checked mode: places out of range are an error when the op is called, as on the CPU.
//
// XLA takes the nearest place for a read and leaves a write out. To say more, the values of the indices must
// be known, so in checked mode each op that indexes first computes the least and the largest of them and
// waits: slow, exact, and at the call. Off, nothing is added to any program.
#pragma once

#include "tpubridge/device/ops.h"

namespace tpubridge::device {

// Where an op has its indices and what they index.
struct IndexRule {
  enum class Form { along, list, rows, targets };
  std::string_view op;          // the name of its row
  Form form;                    // along a dimension; one per dimension; rows of a table; classes
  size_t source = 0;            // the argument that is indexed
  size_t index = 1;             // the indices
  size_t dim = 1;               // the dimension (along); the entry to ignore (targets)
  bool source_is_size = false;  // argument `source` is the number of rows itself
  bool negative = false;        // along: places may count from the end
};

[[nodiscard]] const IndexRule* index_rule(std::string_view row);  // null for ops without indices

[[nodiscard]] bool checks_indices();
bool set_checks_indices(bool on);  // returns the old one

// Throws IndexError that names the op, the index and the size.
void check_indices(const c10::OperatorHandle& op, const IndexRule& rule, c10::ArrayRef<c10::IValue> args);

}  // namespace tpubridge::device
