#include "tpubridge/base/backend_errors.h"

#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

// The facts first, then what the caller knows besides.
Details joined(Details facts, Details more) {
  facts.insert(facts.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return facts;
}

}  // namespace

TPUValidationError validation_error(const std::string& validation_type, const std::string& error,
                                    Details more, std::string hint) {
  return TPUValidationError("TPU validation (" + validation_type + ") failed: " + error,
                            joined({{"validation_type", validation_type}}, std::move(more)), std::move(hint),
                            Code::failed_precondition);
}

TPUDistributedError distributed_error(const std::string& operation, const std::string& error,
                                      std::string hint) {
  return TPUDistributedError("TPU distributed " + operation + " failed: " + error, {{"operation", operation}},
                             std::move(hint), Code::failed_precondition);
}

TPUCacheError cache_error(const std::string& operation, const std::string& error, Details more,
                          std::string hint, Code code) {
  return TPUCacheError("TPU cache " + operation + " failed: " + error,
                       joined({{"operation", operation}}, std::move(more)), std::move(hint), code);
}

TPUCheckpointError checkpoint_error(const std::string& operation, const std::string& path,
                                    const std::string& error, Details more, std::string hint, Code code) {
  if (hint.empty() && operation == "load")
    hint = "Use an older checkpoint; CheckpointStore::newest_good() finds one.";
  return TPUCheckpointError("TPU checkpoint " + operation + " failed for '" + path + "': " + error,
                            joined({{"operation", operation}, {"path", path}}, std::move(more)),
                            std::move(hint), code);
}

TPUModelPreparationError model_preparation_error(const std::string& model, const std::string& error,
                                                 Details more, std::string hint) {
  return TPUModelPreparationError("TPU model preparation for '" + model + "' failed: " + error,
                                  joined({{"model", model}}, std::move(more)), std::move(hint),
                                  Code::failed_precondition);
}

TPUMemoryPoolError memory_pool_error(const std::string& pool_id, const std::string& operation,
                                     const std::string& error, std::string hint) {
  return TPUMemoryPoolError("Memory pool '" + pool_id + "' " + operation + " failed: " + error,
                            {{"pool_id", pool_id}, {"operation", operation}}, std::move(hint),
                            Code::invalid_argument);
}

TPUOptimizationError optimization_error(const std::string& type, const std::string& error, Details more,
                                        std::string hint) {
  return TPUOptimizationError("Optimization (" + type + ") failed: " + error,
                              joined({{"optimization_type", type}}, std::move(more)), std::move(hint),
                              Code::failed_precondition);
}

void warn_instead(std::string_view event, const Error& error) {
  log::warn(event, {{"problem", error.type_name() + ": " + error.message()}});
}

}  // namespace tpubridge
