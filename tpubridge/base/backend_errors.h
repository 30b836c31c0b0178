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

// The cache of compiled programs on disk could not do what was asked of it: a file is damaged, or cannot be
// read or written. Never thrown for a look-up that happens by itself.
TPUBRIDGE_ERROR(TPUCacheError, public virtual FileError, public virtual TPUBackendError);
[[nodiscard]] TPUCacheError cache_error(const std::string& operation, const std::string& error,
                                        Details more = {}, std::string hint = {},
                                        Code code = Code::data_loss);

// A checkpoint cannot be written, is damaged, or does not fit. The details begin with operation and path;
// without a hint a "load" tells where to find an older one.
TPUBRIDGE_ERROR(TPUCheckpointError, public virtual TPUBackendError);
[[nodiscard]] TPUCheckpointError checkpoint_error(const std::string& operation, const std::string& path,
                                                  const std::string& error, Details more = {},
                                                  std::string hint = {}, Code code = Code::data_loss);

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

// A pass of an optimizer failed.
TPUBRIDGE_ERROR(OptimizationError, public virtual Error);
TPUBRIDGE_ERROR(TPUOptimizationError, public virtual OptimizationError, public virtual TPUBackendError);
[[nodiscard]] TPUOptimizationError optimization_error(const std::string& type, const std::string& error,
                                                      Details more = {}, std::string hint = {});

// What a strict mode throws is a warning in the log otherwise: `event problem="Class: message"`.
void warn_instead(std::string_view event, const Error& error);
template <class E>
void raise_or_warn(const E& error, bool strict, std::string_view event) {
  if (strict) throw error;
  warn_instead(event, error);
}

}  // namespace tpubridge
