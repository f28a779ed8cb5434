// Keys tokenizer.ggml.* of a GGUF file -> Vocabulary. What a file leaves out has the value that llama.cpp gives it, as
// that is what the file was tried with.
#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/files/formats_internal.h"
#include "engine/model/files/stops_internal.h"

namespace hone::model {
namespace {

constexpr uint64_t kMostTokens = 1 << 24;

Status read_tokens(const GgufFile& file, std::vector<Token>& tokens) {
  HONE_ASSIGN_OR_RETURN(const auto texts, file.texts("tokenizer.ggml.tokens"));
  if (!texts) return invalid_argument("metadata \"tokenizer.ggml.tokens\" is missing");
  HONE_ASSIGN_OR_RETURN(const auto scores, file.floats("tokenizer.ggml.scores"));
  HONE_ASSIGN_OR_RETURN(const auto kinds, file.integers("tokenizer.ggml.token_type"));
  const size_t count = texts->size();
  if (count > kMostTokens) return unsupported(fmt::format("{} tokens, more than {}", count, kMostTokens));
  if (scores && scores->size() != count)
    return data_loss(fmt::format("{} tokens, but {} of tokenizer.ggml.scores", count, scores->size()));
  if (kinds && kinds->size() != count)
    return data_loss(fmt::format("{} tokens, but {} of tokenizer.ggml.token_type", count, kinds->size()));
  tokens.resize(count);
  for (size_t i = 0; i < count; ++i) {
    tokens[i].text = (*texts)[i];
    if (scores) tokens[i].score = (*scores)[i];
    const int32_t kind = kinds ? (*kinds)[i] : 1;
    if (kind < 0 || kind > 6) return data_loss(fmt::format("token {} has the type {}, it must be 0 to 6", i, kind));
    tokens[i].kind = kind == 0 ? TokenKind::kNormal : static_cast<TokenKind>(kind - 1);  // 0: not said
  }
  return {};
}

// -1 in the file is none, as no key is.
Status read_id(const GgufFile& file, std::string_view name, size_t tokens, int32_t fallback, int32_t& id) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  HONE_ASSIGN_OR_RETURN(const auto read, file.integer(key));
  id = !read && static_cast<size_t>(fallback + 1) <= tokens ? fallback : -1;
  if (!read || *read == -1) return {};
  if (*read < 0 || *read >= static_cast<int64_t>(tokens))
    return data_loss(fmt::format("metadata \"{}\" is {}, there are {} tokens", key, *read, tokens));
  id = static_cast<int32_t>(*read);
  return {};
}

Status read_flag(const GgufFile& file, std::string_view key, bool& flag) {
  HONE_ASSIGN_OR_RETURN(const auto read, file.flag(fmt::format("tokenizer.ggml.{}", key)));
  flag = read.value_or(flag);
  return {};
}

Status read_byte_level(const GgufFile& file, Vocabulary& v) {
  HONE_ASSIGN_OR_RETURN(const auto pre, file.text("tokenizer.ggml.pre"));
  v.kind = TokenizerKind::kByteLevel;
  v.pre_tokenizer = pre.value_or("default");
  v.add_bos = pre_tokenizer_adds_bos(v.pre_tokenizer);
  HONE_ASSIGN_OR_RETURN(const auto merges, file.texts("tokenizer.ggml.merges"));
  if (!merges) return invalid_argument("metadata \"tokenizer.ggml.merges\" is missing");
  v.merges.assign(merges->begin(), merges->end());
  return {};
}

}  // namespace

Result<std::optional<Vocabulary>> vocabulary_of_gguf(const GgufFile& file) {
  HONE_ASSIGN_OR_RETURN(const auto model, file.text("tokenizer.ggml.model"));
  if (!model || *model == "none" || *model == "no_vocab") return std::optional<Vocabulary>();
  Vocabulary v;
  const bool pieces = *model == "llama";
  if (pieces) {
    v.add_bos = v.add_space_prefix = true;
  } else if (*model == "gpt2") {
    HONE_RETURN_IF_ERROR(read_byte_level(file, v));
  } else {
    return unsupported(fmt::format("tokenizer \"{}\"; llama (SentencePiece BPE) and gpt2 (byte-level BPE) are read",
                                   printable(*model)));
  }
  HONE_RETURN_IF_ERROR(read_tokens(file, v.tokens));
  const size_t tokens = v.tokens.size();
  HONE_RETURN_IF_ERROR(read_id(file, "bos", tokens, pieces ? 1 : -1, v.bos));
  HONE_RETURN_IF_ERROR(read_id(file, "eos", tokens, pieces ? 2 : -1, v.eos));
  HONE_RETURN_IF_ERROR(read_id(file, "unknown", tokens, pieces ? 0 : -1, v.unknown));
  HONE_RETURN_IF_ERROR(read_flag(file, "add_bos_token", v.add_bos));
  HONE_RETURN_IF_ERROR(read_flag(file, "add_eos_token", v.add_eos));
  if (pieces) HONE_RETURN_IF_ERROR(read_flag(file, "add_space_prefix", v.add_space_prefix));
  std::vector<int32_t> stops = {v.eos};
  for (const char* name : {"eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    int32_t id = -1;
    HONE_RETURN_IF_ERROR(read_id(file, name, tokens, -1, id));
    stops.push_back(id);
  }
  add_stops(v, stops);
  return std::optional(std::move(v));
}

}  // namespace hone::model
