#include "tpubridge/text/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tpubridge/text/added_tokens.h"
#include "tpubridge/text/decoder.h"
#include "tpubridge/text/model.h"
#include "tpubridge/text/normalizer.h"
#include "tpubridge/text/post_processor.h"
#include "tpubridge/text/pre_tokenizer.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge {

struct Tokenizer::Impl {
  std::unique_ptr<text::Model> model;
  text::Normalize normalize;
  text::PreTokenize pre_tokenize;
  text::PostProcess post_process;
  text::Decode decode;
  text::AddedTokens added;
  int64_t size = 0;

  explicit Impl(const JsonReader& from) : model(text::read_model(from.object("model"))) {
    if (from.has("normalizer")) normalize = text::read_normalizer(from.object("normalizer"));
    if (from.has("pre_tokenizer")) pre_tokenize = text::read_pre_tokenizer(from.object("pre_tokenizer"));
    if (from.has("post_processor")) post_process = text::read_post_processor(from.object("post_processor"));
    if (from.has("decoder")) decode = text::read_decoder(from.object("decoder"));
    if (from.has("added_tokens"))
      added = text::AddedTokens(from.objects("added_tokens"), model->vocabulary(), normalize);
    size = static_cast<int64_t>(model->vocabulary().size());
    if (!added.all().empty()) size = std::max(size, added.all().rbegin()->first + 1);
  }

  // Text in which no added token stands.
  void encode_plain(std::string text, bool first, text::Ids& out) const {
    std::vector<text::Piece> pieces{{std::move(text), first}};
    if (pre_tokenize) pre_tokenize(pieces);
    for (const text::Piece& piece : pieces)
      if (!piece.text.empty()) model->encode(piece.text, out);
  }

  [[nodiscard]] const std::string* token(int64_t id) const {
    const std::string* found = added.token(id);
    return found ? found : model->vocabulary().token(id);
  }
};

Tokenizer Tokenizer::of_file(const Path& path) {
  std::error_code ignored;
  const Path file = std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  try {
    return Tokenizer(std::make_shared<const Impl>(JsonReader::of_file(file)));
  } catch (Error& e) {
    if (e.detail("path").empty()) e.add({{"path", file.string()}});
    throw;
  }
}

Tokenizer Tokenizer::of_text(std::string_view json, std::string_view source) {
  return Tokenizer(std::make_shared<const Impl>(JsonReader::of_text(json, source)));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, bool special) const {
  if (const size_t at = text::first_invalid(text); at != std::string_view::npos)
    throw ArgumentError("the text is not UTF-8", {{"offset", std::to_string(at)}},
                        "Convert it first: tokenizers know Unicode alone.");
  text::Ids out;
  for (auto& part : impl_->added.split(text, false)) {
    if (part.id >= 0) {
      out.push_back(part.id);
      continue;
    }
    std::string normalized = impl_->normalize ? impl_->normalize(std::move(part.text)) : std::move(part.text);
    for (auto& inner : impl_->added.split(normalized, true)) {
      if (inner.id >= 0)
        out.push_back(inner.id);
      else
        impl_->encode_plain(std::move(inner.text), part.from == 0 && inner.from == 0, out);
    }
  }
  return special && impl_->post_process ? impl_->post_process(std::move(out)) : out;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    const std::string* token = impl_->token(id);
    if (token && !(skip_special && impl_->added.special(*token))) tokens.push_back(*token);
  }
  std::string out;
  if (!impl_->decode) {
    for (const std::string& t : tokens) out += (out.empty() ? "" : " ") + t;
    return out;
  }
  for (const std::string& t : impl_->decode(std::move(tokens))) out += t;
  return out;
}

std::optional<int64_t> Tokenizer::id(const std::string& token) const {
  const auto added = impl_->added.find(token);
  return added ? added : impl_->model->vocabulary().find(token);
}

std::optional<std::string> Tokenizer::token(int64_t id) const {
  const std::string* found = impl_->token(id);
  return found ? std::optional(*found) : std::nullopt;
}

int64_t Tokenizer::size() const { return impl_->size; }

}  // namespace tpubridge
