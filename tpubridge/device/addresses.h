// Addresses of tensors. There are none: memory of the device has no place on the host, and who asks for it is
// told so. But programs in Python take them as names (torch.save, safetensors and others ask which tensors
// share memory).
#pragma once

namespace tpubridge::device {

// From now on every storage gets a number of its own in the place of an address. No process has memory there:
// C++ that reads or writes it ends with a signal, as with a GPU's addresses.
void give_addresses();

}  // namespace tpubridge::device
