// Making of a client.
#pragma once

#include "objects.h"
#include "settings.h"

namespace fake {

[[nodiscard]] std::shared_ptr<Client> make_client(const PJRT_Client_Create_Args& a, const Settings& settings);

void rethrow(PJRT_Error* ours);                        // an error of ours that a callback gave back
[[nodiscard]] Failure take_failure(PJRT_Error* ours);  // and frees it

}  // namespace fake
