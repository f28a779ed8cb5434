// See tokenizer_json.h. What such a file does to a text is a chain of parts: normalizer, pre-tokenizer, model. Each
// part that is known sets something of the vocabulary; any other, and any option of a part that would change ids, is
// refused by name, as a tokenizer that is nearly the model's makes it talk nonsense without an error.
#include "engine/model/tokenizer/tokenizer_json.h"

#include <optional>

#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/json.h"
#include "engine/model/tokenizer/pre_tokenizer_internal.h"
#include "engine/model/tokenizer/utf8_internal.h"

namespace hone::model {
namespace {

// Gemma's, of 262 144 tokens, has 33 MB.
constexpr size_t kMostBytes = 64 << 20;

Status wrong(std::string_view what) { return invalid_argument(std::string(what)); }
Status unknown(std::string_view what) { return unsupported(std::string(what)); }

std::string text_at(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}
bool flag_at(const Json& object, const char* name, bool otherwise) {
  const Json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}
std::string name_of(const std::string& type) { return type.empty() ? "without a type" : printable(type, 60); }
std::optional<size_t> id_of(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= (1u << 24)) return std::nullopt;
  return value.get<size_t>();
}

// What the parts say, before it is known which kind of tokenizer they make.
struct Reader {
  Vocabulary out;
  bool bytes = false;            // a ByteLevel part
  bool spaces_replaced = false;  // a space becomes U+2581

  // One part, or a Sequence of them, nested no deeper than the parser lets it be.
  template <typename Part>
  Status each(const Json& part, const char* members, Part visit) {
    if (part.is_null()) return {};
    if (text_at(part, "type") != "Sequence") return visit(part, text_at(part, "type"));
    const Json& parts = member(part, members);
    if (!parts.is_array()) return wrong(fmt::format("a Sequence without {}", members));
    for (const Json& one : parts) HONE_RETURN_IF_ERROR(each(one, members, visit));
    return {};
  }

  Status normalizer(const Json& part, const std::string& type) {
    if (type == "NFC") {
      out.form_c = true;
      return {};
    }
    if (type == "Prepend") {
      const std::string text = text_at(part, "prepend");
      if (text != kPieceSpace)
        return unknown(fmt::format("the normalizer Prepend of '{}' is not known, only of U+2581", printable(text, 40)));
      out.add_space_prefix = true;
      return {};
    }
    if (type == "Replace") return replace(part);
    return unknown(fmt::format("the normalizer {} is not known", name_of(type)));
  }

  Status replace(const Json& part) {
    const Json& pattern = member(part, "pattern");
    const std::string literal = text_at(pattern, "String"), content = text_at(part, "content");
    if (literal != " " || content != kPieceSpace) {
      const bool regex = member(pattern, "Regex").is_string();
      return unknown(fmt::format("the normalizer Replace of {}'{}' by '{}' is not known, only of ' ' by U+2581",
                                 regex ? "the regex " : "", printable(regex ? text_at(pattern, "Regex") : literal, 40),
                                 printable(content, 40)));
    }
    spaces_replaced = true;
    return {};
  }

  Status pre_tokenizer(const Json& part, const std::string& type) {
    if (bytes) return unknown(fmt::format("the pre-tokenizer {} comes after ByteLevel", printable(type, 60)));
    if (type == "Split") return split(part);
    if (type == "Digits") {
      out.patterns.emplace_back(flag_at(part, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
      return {};
    }
    if (type == "ByteLevel") {
      if (flag_at(part, "add_prefix_space", true))
        return unknown("the pre-tokenizer ByteLevel with add_prefix_space is not known");
      if (flag_at(part, "use_regex", true)) out.patterns.emplace_back(kGpt2Pattern);
      bytes = true;
      return {};
    }
    if (type == "Metaspace") return metaspace(part);
    return unknown(fmt::format("the pre-tokenizer {} is not known", name_of(type)));
  }

  Status split(const Json& part) {
    const std::string behavior = text_at(part, "behavior");
    if (behavior != "Isolated" || flag_at(part, "invert", false))
      return unknown(fmt::format("the pre-tokenizer Split with behavior {}{} is not known", printable(behavior, 60),
                                 flag_at(part, "invert", false) ? " and invert" : ""));
    const Json& pattern = member(part, "pattern");
    if (member(pattern, "Regex").is_string()) {
      out.patterns.push_back(text_at(pattern, "Regex"));
      return {};
    }
    const std::string literal = text_at(pattern, "String");
    if (literal.empty()) return wrong("a Split without a pattern");
    std::string escaped;
    for (const char c : literal) {
      if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) escaped += '\\';
      escaped += c;
    }
    out.patterns.push_back(escaped);
    return {};
  }

  // A space in front of the text unless it begins with one; older files say add_prefix_space for prepend_scheme
  // "always".
  Status metaspace(const Json& part) {
    if (text_at(part, "replacement") != kPieceSpace)
      return unknown("the pre-tokenizer Metaspace with another replacement");
    if (flag_at(part, "split", true)) return unknown("the pre-tokenizer Metaspace with split is not known");
    std::string scheme = text_at(part, "prepend_scheme");
    if (scheme.empty()) scheme = flag_at(part, "add_prefix_space", true) ? "always" : "never";
    if (scheme != "always" && scheme != "first" && scheme != "never")
      return unknown(fmt::format("the pre-tokenizer Metaspace with prepend_scheme {}", printable(scheme, 60)));
    spaces_replaced = true;
    out.add_space_prefix = out.space_prefix_if_none = scheme != "never";
    out.space_prefix_once = scheme == "first";
    return {};
  }

  Status model(const Json& model) {
    if (!model.is_object()) return unknown("it has no \"model\": not a tokenizer.json");
    const std::string type = text_at(model, "type");
    if (type != "BPE" && !(type.empty() && member(model, "merges").is_array()))
      return unknown(fmt::format("a model {} is not known, only BPE is",
                                 type.empty() ? "without a type and merges" : printable(type, 60)));
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_at(model, name).empty()) return unknown(fmt::format("BPE with {} is not known", name));
    out.whole_words_first = flag_at(model, "ignore_merges", false);
    HONE_RETURN_IF_ERROR(tokens(member(model, "vocab")));
    return merges(member(model, "merges"));
  }

  // Ids have few holes; a number that makes a table of nothing is refused.
  Status place(size_t id, std::string_view text, TokenKind kind) {
    if (id >= out.tokens.size()) out.tokens.resize(id + 1, {.text = {}, .kind = TokenKind::kUnused});
    Token& token = out.tokens[id];
    if (!token.text.empty() && token.text != text)
      return wrong(fmt::format("token {} is both '{}' and '{}'", id, printable(token.text, 40), printable(text, 40)));
    token.text = text;
    token.kind = kind;
    return {};
  }

  Status tokens(const Json& vocab) {
    if (!vocab.is_object()) return wrong("model.vocab is no object");
    most_ids = 2 * vocab.size() + 65536;
    out.tokens.reserve(vocab.size());
    for (const auto& [text, value] : vocab.items()) {
      const std::optional<size_t> id = id_of(value);
      if (!id || *id >= most_ids)
        return wrong(fmt::format("the id of '{}' in model.vocab is no number that {} tokens need", printable(text, 40),
                                 vocab.size()));
      HONE_RETURN_IF_ERROR(place(*id, text, TokenKind::kNormal));
    }
    return {};
  }

  Status merges(const Json& list) {
    if (!list.is_array()) return wrong("model.merges is no list");
    out.merges.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const Json& one = list[i];
      if (one.is_string()) {
        out.merges.push_back(one.get<std::string>());
        continue;
      }
      if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_string())
        return wrong(fmt::format("merge {} is neither \"a b\" nor [\"a\", \"b\"]", i));
      const std::string left = one[0].get<std::string>(), right = one[1].get<std::string>();
      if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
        return unknown(fmt::format("merge {} has a token with a space in it", i));
      out.merges.push_back(left + " " + right);
    }
    return {};
  }

  Status added_tokens(const Json& list) {
    if (list.is_null()) return {};
    if (!list.is_array()) return wrong("added_tokens is no list");
    for (const Json& one : list) {
      const std::string text = text_at(one, "content");
      const std::optional<size_t> id = id_of(member(one, "id"));
      if (!id || *id >= most_ids + list.size() || text.empty())
        return wrong(fmt::format("the added token '{}' has no id or no content", printable(text, 40)));
      for (const char* name : {"lstrip", "rstrip", "single_word"})
        if (flag_at(one, name, false))
          return unknown(fmt::format("the added token '{}' with {} is not known", printable(text, 40), name));
      const bool special = flag_at(one, "special", false);
      HONE_RETURN_IF_ERROR(place(*id, text, special ? TokenKind::kControl : TokenKind::kUserDefined));
    }
    return {};
  }

  int32_t find(std::string_view text) const {
    if (!text.empty())
      for (size_t id = 0; id < out.tokens.size(); ++id)
        if (out.tokens[id].text == text) return static_cast<int32_t>(id);
    return -1;
  }

  size_t most_ids = 0;
};

// A token by its name: "<s>", or an object that has it as content.
std::string token_at(const Json& config, const char* name) {
  const Json& value = member(config, name);
  return value.is_object() ? text_at(value, "content") : text_at(config, name);
}

// Whether the post-processor puts this token in front of a text, or at its end.
bool puts(const Json& part, const std::string& token, bool in_front) {
  const Json& parts = member(part, "processors");
  if (parts.is_array())
    for (const Json& one : parts)
      if (puts(one, token, in_front)) return true;
  const Json& single = member(part, "single");
  if (token.empty() || !single.is_array() || single.empty()) return false;
  const Json& said = in_front ? single.front() : single.back();
  return text_at(member(said, "SpecialToken"), "id") == token;
}

Status finish(Reader& reader, const Json& file, const Json& config) {
  Vocabulary& v = reader.out;
  if (reader.bytes == reader.spaces_replaced)
    return unknown(reader.bytes ? "both ByteLevel and U+2581 for spaces"
                                : "neither ByteLevel nor U+2581 for spaces: another kind of tokenizer");
  v.kind = reader.bytes ? TokenizerKind::kByteLevel : TokenizerKind::kMergedPieces;
  const Json& model = member(file, "model");
  if (!reader.bytes) {
    if (!v.patterns.empty()) return unknown("U+2581 for spaces and a pre-tokenizer that splits");
    if (v.whole_words_first) return unknown("ignore_merges without ByteLevel");
    if (flag_at(model, "byte_fallback", false))
      for (Token& token : v.tokens)
        if (token.text.size() == 6 && token.text.starts_with("<0x") && token.kind == TokenKind::kNormal)
          token.kind = TokenKind::kByte;
  } else if (v.add_space_prefix) {
    return unknown("both ByteLevel and the normalizer Prepend");
  }
  v.unknown = reader.find(text_at(model, "unk_token"));
  if (v.unknown >= 0 && !reader.bytes) v.tokens[static_cast<size_t>(v.unknown)].kind = TokenKind::kUnknown;
  const std::string bos = token_at(config, "bos_token"), eos = token_at(config, "eos_token");
  v.bos = reader.find(bos);
  v.eos = reader.find(eos);
  if (v.eos >= 0) v.end_of_generation = {v.eos};
  const Json& post = member(file, "post_processor");
  v.add_bos = v.bos >= 0 && flag_at(config, "add_bos_token", puts(post, bos, true));
  v.add_eos = v.eos >= 0 && flag_at(config, "add_eos_token", puts(post, eos, false));
  return {};
}

}  // namespace

Result<Vocabulary> vocabulary_of_tokenizer_json(std::string_view json, const Json& tokenizer_config) {
  Result<Json> file = parse_json_object(json, kMostBytes);
  if (!file.ok()) return file.status();
  Reader reader;
  HONE_RETURN_IF_ERROR(reader.model(member(*file, "model")));
  HONE_RETURN_IF_ERROR(reader.added_tokens(member(*file, "added_tokens")));
  HONE_RETURN_IF_ERROR(
      reader.each(member(*file, "normalizer"), "normalizers",
                  [&](const Json& part, const std::string& type) { return reader.normalizer(part, type); }));
  HONE_RETURN_IF_ERROR(
      reader.each(member(*file, "pre_tokenizer"), "pretokenizers",
                  [&](const Json& part, const std::string& type) { return reader.pre_tokenizer(part, type); }));
  HONE_RETURN_IF_ERROR(finish(reader, *file, tokenizer_config));
  return std::move(reader.out);
}

}  // namespace hone::model
