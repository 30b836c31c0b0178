// A configuration in JSON.
#include "tpubridge/config/config.h"

#include "tests/fuzz/target.h"
#include "tpubridge/config/validation.h"

namespace tpubridge::fuzz {
namespace {

void read_config(std::string_view bytes) {
  try {
    const TPUConfig tpu = TPUConfig::from_json(bytes);
    require(TPUConfig::from_json(tpu.to_json()) == tpu, "a TPUConfig differs when it is read again");
    (void)validate_tpu_configuration(tpu);
  } catch (const Error&) {  // then it may be the other kind
  }
  const Config config = Config::from_json(bytes);
  require(Config::from_json(config.to_json()) == config, "a Config differs when it is read again");
  require(Config::from_json(config.to_json(Fields::chosen)) == config,
          "chosen fields say less than there is");
}
const Adds config_target{"config", read_config};

}  // namespace
}  // namespace tpubridge::fuzz
