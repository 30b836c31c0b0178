// The errors of the backend's API, beside those of errors.h. Each can be caught as TPUBackendError, and has a
// page in docs/errors.md. The functions make them with the facts that each carries.
#pragma once

#include "tpubridge/base/errors.h"

namespace tpubridge {

// A configuration or a model failed its validation, in strict mode.
TPUBRIDGE_ERROR(TPUValidationError, public virtual TPUBackendError);
[[nodiscard]] TPUValidationError validation_error(const std::string& validation_type,
                                                  const std::string& error, Details more = {},
                                                  std::string hint = {});

// A collective over several devices failed, or was given what it cannot take.
TPUBRIDGE_ERROR(TPUDistributedError, public virtual TPUBackendError);
[[nodiscard]] TPUDistributedError distributed_error(const std::string& operation, const std::string& error,
                                                    std::string hint = {});

// A model cannot be brought to the device.
TPUBRIDGE_ERROR(TPUModelPreparationError, public virtual TPUBackendError);
[[nodiscard]] TPUModelPreparationError model_preparation_error(const std::string& model,
                                                               const std::string& error, Details more = {},
                                                               std::string hint = {});

// A memory pool cannot do what it was asked: sizes that make no sense; in strict mode also a pool that is not
// there, a tensor that is not its own, or one that was returned already.
TPUBRIDGE_ERROR(MemoryPoolError, public virtual Error);
TPUBRIDGE_ERROR(TPUMemoryPoolError, public virtual MemoryPoolError, public virtual TPUMemoryError);
[[nodiscard]] TPUMemoryPoolError memory_pool_error(const std::string& pool_id, const std::string& operation,
                                                   const std::string& error, std::string hint = {});

}  // namespace tpubridge
