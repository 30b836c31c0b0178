#include "tpubridge/text/decoder.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tpubridge/text/normalizer.h"
#include "tpubridge/text/pre_tokenizer.h"
#include "tpubridge/text/split.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

using Tokens = std::vector<std::string>;

std::string joined(const Tokens& tokens) {
  std::string out;
  for (const std::string& t : tokens) out += t;
  return out;
}

// A token with a character that stands for no byte is itself.
Tokens byte_level_text(const Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    std::string own;
    bool all = true;
    for (size_t at = 0; at < token.size() && all;) {
      const CodePoint c = code_point(token, at);
      const int b = char_to_byte(c.value);
      all = b >= 0;
      own += static_cast<char>(b);
      at += c.size;
    }
    bytes += all ? own : token;
  }
  return {lossy(bytes)};
}

int byte_of(const std::string& token) {  // "<0x41>", or -1
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = -1;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  return error == std::errc() && end == token.data() + 5 ? value : -1;
}

Tokens bytes_joined(const Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (first_invalid(bytes) == std::string::npos) {
      if (!bytes.empty()) out.push_back(bytes);
    } else {
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    const int b = byte_of(token);
    if (b >= 0) {
      bytes += static_cast<char>(b);
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  text = replaced(text, finds_text(std::string(what)), with);
}

// English as it is written, without the spaces that cutting it has made.
void clean_up(std::string& text) {
  constexpr std::string_view kPairs[][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& pair : kPairs) replace_all(text, pair[0], pair[1]);
}

Decode word_piece(const JsonReader& from) {
  return [prefix = from.text("prefix", "##"), clean = from.flag("cleanup", true)](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& t = tokens[i];
      if (i > 0) t = t.starts_with(prefix) ? t.substr(prefix.size()) : " " + t;
      if (clean) clean_up(t);
    }
    return tokens;
  };
}

Decode metaspace_text(const JsonReader& from) {
  const bool drop = metaspace_prepend(from) != Prepend::never;
  return [sign = finds_text(from.text("replacement", "▁")), drop](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], sign, i == 0 && drop ? "" : " ");
    return tokens;
  };
}

Decode strip(const JsonReader& from) {
  const std::string content = from.text("content");
  const int64_t start = from.integer("start", 0), stop = from.integer("stop", 0);
  return [=](Tokens tokens) {
    for (std::string& t : tokens) {
      size_t begin = 0, end = t.size();
      const auto size = content.size();
      for (int64_t i = 0; i < start && size > 0 && std::string_view(t).substr(begin).starts_with(content);
           ++i)
        begin += size;
      for (int64_t i = 0; i < stop && size > 0 && end >= begin + size &&
                          std::string_view(t).substr(0, end).ends_with(content);
           ++i)
        end -= size;
      t = t.substr(begin, end - begin);
    }
    return tokens;
  };
}

Decode bpe_text(const JsonReader& from) {
  return [suffix = finds_text(from.text("suffix", "</w>"))](Tokens tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    return tokens;
  };
}

Decode all_of(const JsonReader& from) {
  std::vector<Decode> all;
  for (const JsonReader& one : from.objects("decoders")) all.push_back(read_decoder(one));
  return [all = std::move(all)](Tokens tokens) {
    for (const Decode& one : all) tokens = one(std::move(tokens));
    return tokens;
  };
}

}  // namespace

Decode read_decoder(const JsonReader& from) {
  const std::string kind = from.text("type");
  if (kind == "Sequence") return all_of(from);
  if (kind == "ByteLevel") return byte_level_text;
  if (kind == "ByteFallback") return bytes_joined;
  if (kind == "WordPiece") return word_piece(from);
  if (kind == "Metaspace") return metaspace_text(from);
  if (kind == "Strip") return strip(from);
  if (kind == "BPEDecoder") return bpe_text(from);
  if (kind == "Fuse") return [](const Tokens& tokens) { return Tokens{joined(tokens)}; };
  if (kind == "Replace")
    return [find = finds_pattern(from.object("pattern"), "decoder Replace"),
            with = from.text("content")](Tokens tokens) {
      for (std::string& t : tokens) t = replaced(t, find, with);
      return tokens;
    };
  unknown_kind("decoder", kind,
               "ByteLevel, WordPiece, Metaspace, ByteFallback, Fuse, Strip, Replace, BPEDecoder, Sequence");
}

}  // namespace tpubridge::text
