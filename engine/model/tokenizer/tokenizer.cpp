// See tokenizer.h. Everything that encoding needs is made here once; bytes of tokens are kept as text, as a decoder
// asks for one at every step.
#include "engine/model/tokenizer/tokenizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/tokenizer/byte_alphabet_internal.h"
#include "engine/model/tokenizer/encoder_internal.h"
#include "engine/model/tokenizer/tokenizer_impl_internal.h"
#include "engine/model/tokenizer/utf8_internal.h"

namespace hone::model {
namespace {

Status check_ids(const Vocabulary& vocabulary) {
  const auto tokens = static_cast<int64_t>(vocabulary.tokens.size());
  const auto check = [tokens](std::string_view name, int32_t id, bool may_be_absent) -> Status {
    if ((id == -1 && may_be_absent) || (id >= 0 && id < tokens)) return {};
    return invalid_argument(fmt::format("the {} token is {}, but the vocabulary has {} tokens", name, id, tokens));
  };
  HONE_RETURN_IF_ERROR(check("bos", vocabulary.bos, true));
  HONE_RETURN_IF_ERROR(check("eos", vocabulary.eos, true));
  HONE_RETURN_IF_ERROR(check("unknown", vocabulary.unknown, true));
  for (const int32_t id : vocabulary.end_of_generation) HONE_RETURN_IF_ERROR(check("end of generation", id, false));
  return {};
}

// "<0x0A>": 10; -1 for other text.
int byte_of(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = digit(text[3]), low = digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool space_inside(std::string_view text) {
  while (text.starts_with(kPieceSpace)) text.remove_prefix(kPieceSpace.size());
  return text.find(kPieceSpace) != std::string_view::npos;
}

}  // namespace

Status validate(const Vocabulary& vocabulary) {
  HONE_ASSIGN_OR_RETURN(const TokenIndex index, TokenIndex::create(vocabulary.tokens));
  HONE_RETURN_IF_ERROR(check_ids(vocabulary));
  return MergeIndex::create(vocabulary, index).status();
}

Result<std::shared_ptr<const Tokenizer::Impl>> Tokenizer::Impl::create(Vocabulary vocabulary) {
  auto impl = std::make_shared<Impl>();
  impl->vocabulary = std::move(vocabulary);
  const Vocabulary& of = impl->vocabulary;
  HONE_ASSIGN_OR_RETURN(impl->index, TokenIndex::create(of.tokens));
  HONE_RETURN_IF_ERROR(check_ids(of));
  HONE_ASSIGN_OR_RETURN(impl->merges, MergeIndex::create(of, impl->index));
  impl->user_defined = SpecialTokens(of.tokens, false);
  impl->all_special = SpecialTokens(of.tokens, true);
  impl->form_c = of.form_c;
  if (impl->by_bytes()) {
    HONE_ASSIGN_OR_RETURN(impl->pre_tokenizer, PreTokenizer::create(of));
    impl->whole_words_first = of.whole_words_first || impl->pre_tokenizer.whole_words_first();
    impl->form_c = of.form_c || impl->pre_tokenizer.form_c();
  }
  HONE_RETURN_IF_ERROR(impl->find_bytes());
  return std::shared_ptr<const Impl>(std::move(impl));
}

Status Tokenizer::Impl::find_bytes() {
  const size_t count = vocabulary.tokens.size();
  byte_ids.fill(-1);
  ends.reserve(count + 1);
  ends.push_back(0);
  words_alone = !by_bytes();
  for (size_t id = 0; id < count; ++id) {
    const Token& one = vocabulary.tokens[id];
    if (by_bytes()) {
      if (!mergeable(one.kind) || !append_bytes_of(one.text, all_bytes)) all_bytes += one.text;
    } else if (one.kind == TokenKind::kByte) {
      const int byte = byte_of(one.text);
      if (byte < 0)
        return invalid_argument(
            fmt::format("token {} is that of a byte, but '{}' is not as <0x0A>", id, printable(one.text, 40)));
      all_bytes += static_cast<char>(byte);
      byte_ids[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
    } else if (mergeable(one.kind)) {
      words_alone = words_alone && !space_inside(one.text);
      std::string_view rest = one.text;
      for (size_t at; (at = rest.find(kPieceSpace)) != std::string_view::npos; rest.remove_prefix(at + 3))
        all_bytes.append(rest.substr(0, at)).append(" ");
      all_bytes += rest;
    } else {
      all_bytes += one.text;
    }
    if (all_bytes.size() > UINT32_MAX) return invalid_argument("the vocabulary's tokens have more than 4 GiB of text");
    ends.push_back(static_cast<uint32_t>(all_bytes.size()));
  }
  for (int b = 0; by_bytes() && b < 256; ++b) {
    const int32_t id = index.find(letter_of_byte(static_cast<uint8_t>(b)));
    if (id >= 0 && mergeable(token(id).kind)) byte_ids[static_cast<size_t>(b)] = id;
  }
  return {};
}

Result<Tokenizer> Tokenizer::create(Vocabulary vocabulary) {
  HONE_ASSIGN_OR_RETURN(auto impl, Impl::create(std::move(vocabulary)));
  return Tokenizer(std::move(impl));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const TextPart part = {.text = text, .parse_special = options.parse_special};
  return encode(std::span(&part, 1), options.add_bos);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextPart> parts, std::optional<bool> add_bos) const {
  const Vocabulary& of = vocabulary();
  const bool bos = add_bos.value_or(of.add_bos && of.bos >= 0);
  if (bos && of.bos < 0) return invalid_argument("the vocabulary has no bos token; do not ask for one");
  const bool eos = of.add_eos && of.eos >= 0 && add_bos.value_or(true);
  return Encoder(*impl_).encode(parts, bos, eos);
}

std::string_view Tokenizer::bytes(int32_t id, bool special) const {
  if (!impl_->in_range(id)) return {};
  const TokenKind kind = impl_->token(id).kind;
  if (!special && (kind == TokenKind::kControl || kind == TokenKind::kUnknown)) return {};
  return impl_->bytes(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  Detokenizer out(*this, special);
  std::string text;
  for (const int32_t id : ids) text += out.push(id);
  return text + out.finish();
}

const Vocabulary& Tokenizer::vocabulary() const { return impl_->vocabulary; }

std::optional<int32_t> Tokenizer::find(std::string_view text) const {
  const int32_t id = impl_->index.find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

bool Tokenizer::ends_generation(int32_t id) const {
  const std::vector<int32_t>& ends = vocabulary().end_of_generation;
  return (id >= 0 && id == vocabulary().eos) || std::find(ends.begin(), ends.end(), id) != ends.end();
}

Detokenizer::Detokenizer(Tokenizer tokenizer, bool special, bool from_start)
    : tokenizer_(std::move(tokenizer)), special_(special), first_(from_start) {}

std::string Detokenizer::push(int32_t id) {
  std::string_view bytes = tokenizer_.bytes(id, special_);
  if (bytes.empty()) return {};
  const Vocabulary& of = tokenizer_.vocabulary();
  if (first_ && of.kind != TokenizerKind::kByteLevel && of.add_space_prefix && bytes.front() == ' ')
    bytes.remove_prefix(1);
  first_ = false;
  held_ += bytes;
  return take_utf8(held_, false);
}

std::string Detokenizer::finish() { return take_utf8(held_, true); }

}  // namespace hone::model
