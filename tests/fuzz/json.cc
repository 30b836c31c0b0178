// JSON, and everything that a reader asks of an object.
#include "tpubridge/base/json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"

namespace tpubridge::fuzz {
namespace {

template <class F>
void asked(F&& f) {
  try {
    f();
  } catch (const ConfigurationError&) {  // it is something else: told
  }
}

void ask(const JsonReader& reader, int depth) {
  for (const std::string& key : reader.keys()) {
    asked([&] { (void)reader.text(key, ""); });
    asked([&] { (void)reader.integer(key); });
    asked([&] { (void)reader.number(key); });
    asked([&] { (void)reader.flag(key, false); });
    asked([&] { (void)reader.texts(key); });
    asked([&] { (void)reader.integers(key); });
    asked([&] { (void)reader.numbers(key); });
    asked([&] { reader.only({"steps", "mesh"}); });
    if (depth > 3) continue;
    asked([&] { ask(reader.object(key), depth + 1); });
    asked([&] {
      for (const auto& o : reader.objects(key)) ask(o, depth + 1);
    });
  }
}

void read_json(std::string_view bytes) {
  const nlohmann::json value = parse_json(bytes, "input");
  require(parse_json(value.dump(), "again") == value, "what was read, written and read again differs");
  ask(JsonReader::of_text(bytes, "input"), 0);
}
const Adds json_target{"json", read_json};

}  // namespace
}  // namespace tpubridge::fuzz
