// Inside of kernels/: an op of the user's own as a row, and its place in torch's dispatcher.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/device/torch.h"
#include "tpubridge/kernels/kernels.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::kernels {

// Lives as long as the process: traces and programs point to its row.
class CustomOp : public lower::Custom {
 public:
  CustomOp(const c10::OperatorHandle& op, unsigned flags);
  [[nodiscard]] const lower::Row& row() const { return row_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  void check(const lower::Call&) const override {}

 protected:
  [[nodiscard]] const std::vector<std::string>& arguments() const { return arguments_; }
  [[nodiscard]] size_t results() const { return results_; }
  // Runs code of the user's own; what it throws names the op and says what was being done.
  template <class F>
  auto told(const char* doing, F run) const {
    try {
      return run();
    } catch (Error& e) {
      if (e.detail("op").empty()) e.add({{"op", name_}});
      throw;
    } catch (const std::exception& e) {
      throw ProgramError(std::string(doing) + " of " + name_ + " failed: " + e.what(), {{"op", name_}});
    }
  }
  void check_results(const std::vector<Shape>& got, const char* what) const;  // their number

 private:
  std::string name_;
  std::vector<std::string> arguments_;
  size_t results_;
  lower::Row row_;
};

// The op of this name or schema, defined where it is not there. Throws ArgumentError.
[[nodiscard]] c10::OperatorHandle find_or_define(const std::string& name_or_schema);
// Throws where the op cannot be traced, or the device has it already. Before anything is changed.
void check_new(const c10::OperatorHandle& op, const Gradient& gradient);
// The device's kernel, and its gradient.
UserOp install(const c10::OperatorHandle& op, std::unique_ptr<CustomOp> custom, Gradient gradient);
// A kernel of torch's for the gradient. Without one, asking for a gradient is an error that names the op.
void install_gradient(const c10::OperatorHandle& op, Gradient gradient);

void keep(torch::Library library);  // registrations last as long as the process

// What of a plugin is a reason for a call not to work: "cpu", "cuda", "tpu".
[[nodiscard]] std::string platform();

}  // namespace tpubridge::kernels
