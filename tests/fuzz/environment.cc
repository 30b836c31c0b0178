// The value of each environment variable, and the names of TPU slices that a user may write in one.
#include "tests/fuzz/target.h"
#include "tpubridge/aot/generations.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/env.h"

namespace tpubridge::fuzz {
namespace {

void read_variable(const env::Variable& v, std::string_view value) {
  try {
    if (v.type == env::Type::flag) (void)env::parse_flag(v, value);
    if (v.type == env::Type::choice) (void)env::parse_choice(v, value);
    if (v.type == env::Type::integer)
      require(std::to_string(env::parse_integer(v, value)).size() <= value.size() + 1, "digits from nowhere");
  } catch (const TPUConfigurationError&) {  // not allowed: told
  }
}

void read_environment(std::string_view bytes) {
  for (const env::Variable& v : env::all()) read_variable(v, bytes);
  (void)aot::find_generation(bytes);
  const aot::Slice slice = aot::parse_slice(bytes);
  require(slice.generation && slice.chips() > 0, "a slice without chips");
  require(aot::parse_slice(slice.name()).dims == slice.dims, "a slice whose name is another slice's");
}
const Adds environment_target{"environment", read_environment};

}  // namespace
}  // namespace tpubridge::fuzz
