// config.json of language models.
#include "tests/fuzz/target.h"
#include "tpubridge/models/decoder_config.h"

namespace tpubridge::fuzz {
namespace {

void read_model_config(std::string_view bytes) {
  const DecoderConfig c = decoder_config(JsonReader::of_text(bytes, "fuzz"));
  require(c.hidden > 0 && c.heads > 0 && c.layers > 0 && c.positions > 0, "a size of nothing");
  require(c.windows.size() == static_cast<size_t>(c.layers), "not one window for each layer");
  require(c.heads % c.kv_heads == 0, "heads that cannot share keys");
  require(c.attention_scale > 0 && c.norm_epsilon > 0, "a scale of nothing");
}
const Adds model_config_target{"model_config", read_model_config};

}  // namespace
}  // namespace tpubridge::fuzz
