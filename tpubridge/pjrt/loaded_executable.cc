// Running a program: the hot path. What costs here is paid by every step.
#include <fmt/format.h>

#include "tpubridge/base/scratch.h"
#include "tpubridge/pjrt/client_core.h"
#include "tpubridge/pjrt/executable.h"

namespace tpubridge::pjrt {
namespace {

[[noreturn]] void refuse(size_t index, const std::string& what, std::string hint = {}) {
  throw ArgumentError(fmt::format("argument {} {}", index, what), {{"argument", std::to_string(index)}},
                      std::move(hint));
}

void refuse_deleted(std::span<const std::span<const Buffer* const>> lists) {
  for (const auto& arguments : lists)
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i]->deleted())
        refuse(i, "was deleted or donated to an earlier program", "Use that program's output in its place");
}

}  // namespace

LoadedExecutable::LoadedExecutable(std::shared_ptr<const ClientCore> core, PJRT_LoadedExecutable* raw,
                                   std::optional<Signature> signature)
    : core_(std::move(core)), raw_(core_->api, raw) {
  const auto program = ask(core_->api, raw, &PJRT_Api::PJRT_LoadedExecutable_GetExecutable);
  info_ = Executable(core_->plugin, program.executable);
  const auto devices = ask(core_->api, raw, &PJRT_Api::PJRT_LoadedExecutable_AddressableDevices);
  for (size_t i = 0; i < devices.num_addressable_devices; ++i)
    devices_.push_back(core_->find(devices.addressable_devices[i]));
  set_signature(std::move(signature));
  for (const Shape& shape : info_.results()) results_.push_back(intern(shape));
}

void LoadedExecutable::set_signature(std::optional<Signature> signature) {
  signature_ = signature ? std::move(signature) : info_.signature();
  parameters_.clear();
  if (!signature_) return;
  for (const Shape& shape : signature_->parameters) parameters_.push_back(intern(shape));
}

void LoadedExecutable::check(std::span<const Buffer* const> arguments, const Device* device) const {
  if (signature_ && arguments.size() != signature_->parameters.size())
    throw ArgumentError(fmt::format("the program takes {} arguments, {} were given",
                                    signature_->parameters.size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Buffer* buffer = arguments[i];
    if (!buffer) refuse(i, "is null");
    if (!buffer->raw_) refuse(i, "was moved away");
    if (buffer->core_ != core_) refuse(i, "belongs to another client");
    if (buffer->device_ != device)
      refuse(
          i,
          fmt::format("is on device {}, the program runs on device {}", buffer->device_->id(), device->id()),
          "Copy it there first (Buffer::copy_to)");
    if (signature_ && buffer->shape_ != parameters_[i])
      refuse(i, fmt::format("is {}, the program takes {}", buffer->shape_->str(), parameters_[i]->str()));
  }
}

void LoadedExecutable::run(std::span<const std::span<const Buffer* const>> lists,
                           std::span<const Device* const> where, std::span<std::vector<Buffer>> outputs,
                           const ExecuteOptions& options) const {
  const size_t devices = lists.size(), count = lists[0].size(), results = results_.size();
  Scratch<PJRT_Buffer*> in(devices * count), out(devices * results);
  Scratch<PJRT_Buffer* const*, 8> in_lists(devices);
  Scratch<PJRT_Buffer**, 8> out_lists(devices);
  Scratch<PJRT_Event*, 8> events(devices);
  for (size_t d = 0; d < devices; ++d) {
    in_lists[d] = in.data() + d * count;
    out_lists[d] = out.data() + d * results;
    for (size_t i = 0; i < count; ++i) in[d * count + i] = lists[d][i]->raw();
    outputs[d].reserve(results);
  }
  PJRT_ExecuteOptions execute{};
  execute.struct_size = sizeof execute;
  execute.launch_id = options.launch_id;
  execute.non_donatable_input_indices = options.not_donatable.data();
  execute.num_non_donatable_input_indices = options.not_donatable.size();
  PJRT_LoadedExecutable_Execute_Args args{};
  args.executable = raw_.get();
  args.options = &execute;
  args.argument_lists = in_lists.data();
  args.num_devices = devices;
  args.num_args = count;
  args.output_lists = out_lists.data();
  args.device_complete_events = options.done ? events.data() : nullptr;
  args.execute_device = options.device ? options.device->raw() : nullptr;
  if (PJRT_Error* error = try_call(core_->api, &PJRT_Api::PJRT_LoadedExecutable_Execute, args)) [[unlikely]] {
    const auto exception = to_exception(core_->api, error, "PJRT_LoadedExecutable_Execute");
    try {
      refuse_deleted(lists);  // the plugin's own words for it do not name the argument
    } catch (Error& refused) {
      try {
        std::rethrow_exception(exception);
      } catch (const Error& e) {
        refused.add({{"plugin", e.message()}});
      }
      throw;
    }
    std::rethrow_exception(exception);
  }
  for (size_t d = 0; d < devices; ++d)
    for (size_t i = 0; i < results; ++i)
      outputs[d].emplace_back(core_, out[d * results + i], results_[i], where[d]);
  if (!options.done) return;
  options.done->clear();
  for (size_t d = 0; d < devices; ++d) options.done->emplace_back(core_, events[d]);
}

std::vector<Buffer> LoadedExecutable::execute(std::span<const Buffer* const> arguments,
                                              const ExecuteOptions& options) const {
  if (!options.device && devices_.size() != 1)
    throw ArgumentError(
        fmt::format("the program runs on {} devices of this process together", devices_.size()), {},
        devices_.empty() ? "Name a device for a portable program"
                         : "Call execute_all with one list a device");
  const Device* device = options.device ? options.device : devices_[0];
  check(arguments, device);
  std::vector<Buffer> out;
  run({&arguments, 1}, {&device, 1}, {&out, 1}, options);
  return out;
}

std::vector<std::vector<Buffer>> LoadedExecutable::execute_all(
    std::span<const std::vector<const Buffer*>> arguments, const ExecuteOptions& options) const {
  if (arguments.size() != devices_.size())  // a missing participant would hang the others until XLA aborts
    throw ArgumentError(
        fmt::format("the program runs on {} devices of this process, arguments for {} were given",
                    devices_.size(), arguments.size()));
  std::vector<std::span<const Buffer* const>> lists;
  for (size_t d = 0; d < arguments.size(); ++d) {
    if (arguments[d].size() != arguments[0].size())
      throw ArgumentError(fmt::format("device {} was given {} arguments, device 0 {}", d, arguments[d].size(),
                                      arguments[0].size()));
    check(arguments[d], devices_[d]);
    lists.emplace_back(arguments[d]);
  }
  std::vector<std::vector<Buffer>> out(lists.size());
  run(lists, devices_, out, options);
  return out;
}

}  // namespace tpubridge::pjrt
