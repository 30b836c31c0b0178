// Connects a KeyValueStore to the C callbacks of client creation. Internal to the folder.
#pragma once

#include "tpubridge/pjrt/api.h"

namespace tpubridge::pjrt {

class KeyValueStore;
void attach(KeyValueStore& store, PJRT_Client_Create_Args& args);

}  // namespace tpubridge::pjrt
