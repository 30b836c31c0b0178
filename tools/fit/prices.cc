#include "tools/fit/prices.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/aot/generations.h"
#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

[[noreturn]] void bad_price(const Path& file, const std::string& why, const std::string& hint = {}) {
  throw ConfigurationError(fmt::format("{}: {}", file.string(), why), {{"file", file.string()}}, hint,
                           Code::invalid_argument);
}

bool is_date(const std::string& text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  for (const size_t i : {0, 1, 2, 3, 5, 6, 8, 9})
    if (text[i] < '0' || text[i] > '9') return false;
  return true;
}

Price price_of(const Path& file, const std::string& name, const nlohmann::json& value, const Price& common) {
  Price out = common;
  if (value.is_object()) {
    const JsonReader own(value, file.string());
    own.only({"price", "source", "date"});
    out.chip_hour = own.number("price");
    out.source = own.text("source", out.source);
    out.date = own.text("date", out.date);
  } else if (value.is_number()) {
    out.chip_hour = value.get<double>();
  } else {
    bad_price(file, fmt::format("the price of {} is neither a number nor an object", name));
  }
  if (!std::isfinite(out.chip_hour) || out.chip_hour <= 0 || out.chip_hour > 1e6)
    bad_price(file, fmt::format("the price of {} is no price: {}", name, out.chip_hour),
              "Leave out what is not known.");
  if (out.source.empty())
    bad_price(file, fmt::format("the price of {} has no source", name), "Say where it is from: \"source\".");
  if (!is_date(out.date))
    bad_price(file, fmt::format("the price of {} has no date like 2026-11-18: {}", name, quote(out.date)),
              "Prices change: say of when it is (\"date\").");
  return out;
}

}  // namespace

const Price* Prices::of(std::string_view generation) const {
  const auto at = chips.find(generation);
  return at == chips.end() ? nullptr : &at->second;
}

Prices read_prices(const Path& file) {
  const JsonReader all = JsonReader::of_file(file);
  all.only({"date", "currency", "source", "chip_hour"});
  Prices out;
  out.currency = all.text("currency", "USD");
  if (out.currency.empty() || out.currency.size() > 8) bad_price(file, "the currency has no name like USD");
  const Price common{0, all.text("source", ""), all.text("date", "")};
  const JsonReader chips = all.object("chip_hour");
  for (const std::string& name : chips.keys()) {
    std::string known;
    for (const auto& g : aot::generations()) known += (known.empty() ? "" : ", ") + std::string(g.name);
    if (!aot::find_generation(name) || aot::find_generation(name)->name != name)
      bad_price(file, fmt::format("there is no TPU {}", quote(name)), "Known are " + known + ".");
    const nlohmann::json& value = chips.json().at(name);
    if (!value.is_null()) out.chips[name] = price_of(file, name, value, common);
  }
  return out;
}

}  // namespace tpubridge::tools
