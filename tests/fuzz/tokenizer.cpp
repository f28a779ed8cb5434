// A vocabulary and a text for it. The first line says which kind of vocabulary ("bytes", "pieces" or "merged"), with
// words for its options; then a token a line as "KIND SCORE TEXT" up to an empty line, merges up to an empty line,
// patterns up to an empty line, and the text.
#include <charconv>

#include "engine/model/tokenizer/chat.h"
#include "engine/model/tokenizer/normal_form_internal.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/model/tokenizer/utf8_internal.h"
#include "tests/fuzz/fuzz_target.h"

using namespace hone;
using namespace hone::model;

namespace {

std::string_view take_word(std::string_view& line) {
  const size_t end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

Vocabulary vocabulary_of(std::string_view& text) {
  Vocabulary v;
  std::string_view options = fuzz::take_line(text);
  v.kind = options.starts_with("bytes")    ? TokenizerKind::kByteLevel
           : options.starts_with("pieces") ? TokenizerKind::kSentencePiece
                                           : TokenizerKind::kMergedPieces;
  const auto has = [options](std::string_view word) { return options.find(word) != std::string_view::npos; };
  v.add_space_prefix = has("space");
  v.space_prefix_once = has("once");
  v.space_prefix_if_none = has("none");
  v.whole_words_first = has("whole");
  v.form_c = has("form");
  v.add_bos = has("bos");
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2", "smollm", "default", "tekken"})
    if (has(name)) v.pre_tokenizer = name;
  while (true) {
    std::string_view line = fuzz::take_line(text);
    if (line.empty()) break;
    Token token;
    const std::string_view kind = take_word(line), score = take_word(line);
    if (!kind.empty()) token.kind = static_cast<TokenKind>((kind[0] - '0') & 7);
    std::from_chars(score.data(), score.data() + score.size(), token.score);
    token.text = line;
    if (token.kind == TokenKind::kUnknown) v.unknown = static_cast<int32_t>(v.tokens.size());
    if (line == "<s>") v.bos = static_cast<int32_t>(v.tokens.size());
    v.tokens.push_back(token);
  }
  for (std::string_view line; !(line = fuzz::take_line(text)).empty();) v.merges.emplace_back(line);
  for (std::string_view line; !(line = fuzz::take_line(text)).empty();) v.patterns.emplace_back(line);
  return v;
}

// What can be told from ids: in SentencePiece's way of writing spaces, and in form C where the vocabulary has it so.
// Stretches between special tokens are normalized each for itself, and all of them once more are as the text at once.
std::string said(std::string text, const Vocabulary& v) {
  const bool pieces = v.kind != TokenizerKind::kByteLevel;
  for (size_t at; pieces && (at = text.find(kPieceSpace)) != std::string::npos;) text.replace(at, 3, " ");
  if (!v.form_c && v.pre_tokenizer != "qwen2") return text;
  std::string form_c;
  append_form_c(text, form_c);
  return form_c;
}

void encode(const Tokenizer& t, std::string_view text, bool special) {
  const Result<std::vector<int32_t>> ids = t.encode(text, {.parse_special = special});
  if (!ids.ok()) {
    fuzz::require_message(ids.status());
    return;
  }
  const Vocabulary& v = t.vocabulary();
  Detokenizer out(t);
  std::string bytes, streamed;
  bool lossless = true;
  for (size_t i = 0; i < ids->size(); ++i) {
    const int32_t id = (*ids)[i];
    HONE_FUZZ_REQUIRE(id >= 0 && static_cast<size_t>(id) < v.tokens.size());
    const TokenKind kind = v.tokens[static_cast<size_t>(id)].kind;
    const bool is_bos = i == 0 && v.add_bos && id == v.bos;
    HONE_FUZZ_REQUIRE(special || is_bos || kind != TokenKind::kControl);
    lossless = lossless && !is_bos && kind != TokenKind::kUnknown && kind != TokenKind::kControl;
    bytes += t.bytes(id);
    streamed += out.push(id);
    HONE_FUZZ_REQUIRE(valid_prefix(streamed) == streamed.size());
  }
  streamed += out.finish();
  HONE_FUZZ_REQUIRE(valid_prefix(streamed) == streamed.size());
  HONE_FUZZ_REQUIRE(streamed == t.decode(*ids));
  const bool pieces = v.kind != TokenizerKind::kByteLevel;
  if (lossless && !(pieces && v.add_space_prefix)) HONE_FUZZ_REQUIRE(said(bytes, v) == said(std::string(text), v));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const Vocabulary v = vocabulary_of(text);
  const Status valid = validate(v);
  const Result<Tokenizer> t = Tokenizer::create(v);
  HONE_FUZZ_REQUIRE(valid.ok() || !t.ok());
  if (!t.ok()) {
    fuzz::require_message(t.status());
    return 0;
  }
  encode(*t, text, false);
  encode(*t, text, true);
  const std::vector<ChatPiece> pieces = {{std::string(text.substr(0, text.size() / 2)), true},
                                         {std::string(text.substr(text.size() / 2)), false}};
  const Result<std::vector<int32_t>> chat = encode_chat(*t, pieces);
  if (!chat.ok()) fuzz::require_message(chat.status());
  (void)recognise_chat_template(text);
  return 0;
}
