#include "tpubridge/text/post_processor.h"

#include <nlohmann/json.hpp>

#include "tpubridge/base/text.h"
#include "tpubridge/text/split.h"

namespace tpubridge::text {
namespace {

[[noreturn]] void bad_template(const std::string& why) {
  throw ConfigurationError("the tokenizer's post_processor cannot be used: " + why);
}

// The id of ["[CLS]", 101].
int64_t id_in_pair(const JsonReader& from, const std::string& key) {
  const auto& pair = from.json().find(key);
  if (pair == from.json().end() || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_integer())
    bad_template(key + " is no token with its id");
  return (*pair)[1].get<int64_t>();
}

PostProcess around(Ids before, Ids after) {
  return [=](const Ids& ids) {
    Ids out = before;
    out.insert(out.end(), ids.begin(), ids.end());
    out.insert(out.end(), after.begin(), after.end());
    return out;
  };
}

PostProcess template_of(const JsonReader& from) {
  const JsonReader specials = from.object("special_tokens");
  std::vector<Ids> parts;  // an empty one is the text
  for (const JsonReader& item : from.objects("single")) {
    if (!item.has("SpecialToken")) {
      if (!item.has("Sequence")) bad_template("it has a part that is no Sequence and no SpecialToken");
      parts.emplace_back();
      continue;
    }
    const std::string name = item.object("SpecialToken").text("id");
    if (!specials.has(name))
      bad_template("it names the special token " + quote(name) + " and does not have it");
    parts.push_back(specials.object(name).integers("ids"));
    if (parts.back().empty()) parts.pop_back();
  }
  return [parts = std::move(parts)](const Ids& ids) {
    Ids out;
    for (const Ids& part : parts) {
      const Ids& from_here = part.empty() ? ids : part;
      out.insert(out.end(), from_here.begin(), from_here.end());
    }
    return out;
  };
}

}  // namespace

PostProcess read_post_processor(const JsonReader& from) {
  const std::string kind = from.text("type");
  if (kind == "ByteLevel") return [](Ids ids) { return ids; };  // places in the text alone
  if (kind == "TemplateProcessing") return template_of(from);
  if (kind == "BertProcessing" || kind == "RobertaProcessing")
    return around({id_in_pair(from, "cls")}, {id_in_pair(from, "sep")});
  if (kind == "Sequence") {
    std::vector<PostProcess> all;
    for (const JsonReader& one : from.objects("processors")) all.push_back(read_post_processor(one));
    return [all = std::move(all)](Ids ids) {
      for (const PostProcess& one : all) ids = one(std::move(ids));
      return ids;
    };
  }
  unknown_kind("post_processor", kind,
               "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
}

}  // namespace tpubridge::text
