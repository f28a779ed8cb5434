// See token_index_internal.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <fmt/format.h>

#include "engine/base/printable.h"
#include "engine/model/tokenizer/token_index_internal.h"

namespace hone::model {
namespace {

constexpr size_t kBatch = 16;  // the tables are larger than the caches: so many look-ups are under way at once
constexpr uint32_t kId = (1u << 24) - 1;
constexpr size_t kMaxTokens = size_t{1} << 24, kMaxTokenBytes = size_t{64} << 10, kMaxSplitBytes = 512;

uint64_t seed() {
  static const uint64_t of_process = [] {
    std::random_device device;
    return (uint64_t{device()} << 32) ^ device();
  }();
  return of_process;
}

__extension__ using Wide = unsigned __int128;

uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t kOdd1 = 0x9e3779b97f4a7c15u, kOdd2 = 0xd6e8feb86659fd93u;

template <typename T>
uint64_t load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

Status check_token(const Token& token, size_t id) {
  if (token.text.size() > kMaxTokenBytes)
    return invalid_argument(
        fmt::format("token {} has {} bytes of text, the limit is {}", id, token.text.size(), kMaxTokenBytes));
  if (token.kind > TokenKind::kByte)
    return invalid_argument(fmt::format("token {} is of kind {}, which there is not", id, int{+uint8_t(token.kind)}));
  const bool split =
      token.kind == TokenKind::kControl || token.kind == TokenKind::kUserDefined || token.kind == TokenKind::kUnknown;
  if (split && token.text.size() > kMaxSplitBytes)
    return invalid_argument(fmt::format("token {} is split off text and has {} bytes, the limit is {}", id,
                                        token.text.size(), kMaxSplitBytes));
  if (!std::isfinite(token.score))
    return invalid_argument(fmt::format("token {} has a score that is no finite number", id));
  return {};
}

}  // namespace

uint64_t hash_of(std::string_view text) {
  const char* p = text.data();
  size_t n = text.size();
  uint64_t h = seed() ^ (n * kOdd1);
  for (; n >= 8; p += 8, n -= 8) h = mix(h ^ load<uint64_t>(p), kOdd2);
  uint64_t tail = 0;
  if (n >= 4) {
    tail = load<uint32_t>(p) << 32 | load<uint32_t>(p + n - 4);
  } else if (n > 0) {
    tail = load<uint8_t>(p) << 16 | load<uint8_t>(p + n / 2) << 8 | load<uint8_t>(p + n - 1);
  }
  return mix(h ^ tail ^ kOdd1, kOdd2);
}

Result<TokenIndex> TokenIndex::create(const std::vector<Token>& tokens) {
  if (tokens.empty()) return invalid_argument("the vocabulary has no tokens");
  if (tokens.size() > kMaxTokens)
    return invalid_argument(fmt::format("the vocabulary has {} tokens, the limit is {}", tokens.size(), kMaxTokens));
  TokenIndex index;
  index.tokens_ = &tokens;
  int bits = 4;
  while ((size_t{1} << bits) < tokens.size() + tokens.size() / 2) ++bits;
  index.slots_.resize(size_t{1} << bits);
  index.shift_ = 64 - bits;
  std::array<uint64_t, kBatch> hashes;
  for (size_t begin = 0; begin < tokens.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, tokens.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      HONE_RETURN_IF_ERROR(check_token(tokens[begin + i], begin + i));
      index.prefetch(hashes[i] = hash_of(tokens[begin + i].text));
    }
    for (size_t i = 0; i < count; ++i) HONE_RETURN_IF_ERROR(index.insert(begin + i, hashes[i]));
  }
  return index;
}

Status TokenIndex::insert(size_t id, uint64_t hash) {
  const Token& token = (*tokens_)[id];
  if (token.text.empty()) return {};  // no text is this token
  longest_ = std::max(longest_, token.text.size());
  const size_t at = place(token.text, hash);
  if (slots_[at] != 0) {
    if (token.kind == TokenKind::kUnused) return {};
    const size_t other = id_of(slots_[at]);
    if ((*tokens_)[other].kind != TokenKind::kUnused)
      return invalid_argument(fmt::format("tokens {} and {} are both '{}'", other, id, printable(token.text, 60)));
  }
  slots_[at] = hash << 32 | (id + 1);
  return {};
}

size_t TokenIndex::place(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash >> shift_;
  for (; slots_[at] != 0; at = (at + 1) & mask)
    if (slots_[at] >> 32 == (hash & 0xffffffff) && (*tokens_)[id_of(slots_[at])].text == text) break;
  return at;
}

void TokenIndex::prefetch_text(uint64_t hash) const {
  const uint64_t slot = slots_[hash >> shift_];
  if (slot != 0) __builtin_prefetch(&(*tokens_)[id_of(slot)]);
}

namespace {

// A merge on its way into the table: its two tokens and the one that they make.
struct Wanted {
  std::array<std::string_view, 3> texts;
  std::string whole;
  std::array<uint64_t, 3> hashes = {};
  std::array<int32_t, 3> ids = {};
};

Status read_merge(std::string_view merge, size_t rank, Wanted& out) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos)
    return invalid_argument(
        fmt::format("merge {} is '{}', not two tokens and a space between them", rank, printable(merge, 60)));
  out.whole.assign(merge.substr(0, space)).append(merge.substr(space + 1));
  out.texts = {merge.substr(0, space), merge.substr(space + 1), out.whole};
  for (size_t k = 0; k < 3; ++k) out.hashes[k] = hash_of(out.texts[k]);
  return {};
}

}  // namespace

// In four steps of a batch, each of which touches memory that the one before has asked for.
Result<MergeIndex> MergeIndex::create(const Vocabulary& vocabulary, const TokenIndex& index) {
  const std::vector<std::string>& merges = vocabulary.merges;
  if (merges.size() > kMaxTokens)
    return invalid_argument(fmt::format("the vocabulary has {} merges, the limit is {}", merges.size(), kMaxTokens));
  MergeIndex out;
  out.slots_.resize(merges.size() + merges.size() / 3 + 1);
  std::array<Wanted, kBatch> batch;
  for (size_t begin = 0; begin < merges.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, merges.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      HONE_RETURN_IF_ERROR(read_merge(merges[begin + i], begin + i, batch[i]));
      for (const uint64_t hash : batch[i].hashes) index.prefetch(hash);
    }
    for (size_t i = 0; i < count; ++i)
      for (const uint64_t hash : batch[i].hashes) index.prefetch_text(hash);
    for (size_t i = 0; i < count; ++i) {
      Wanted& w = batch[i];
      for (size_t k = 0; k < 3; ++k) {
        w.ids[k] = index.find(w.texts[k], w.hashes[k]);
        if (w.ids[k] < 0)
          return invalid_argument(fmt::format("merge {} is '{}', but '{}' is no token", begin + i,
                                              printable(merges[begin + i], 60), printable(w.texts[k], 60)));
      }
      __builtin_prefetch(&out.slots_[out.home(w.ids[0], w.ids[1])], 1);
    }
    for (size_t i = 0; i < count; ++i) {
      const auto& ids = batch[i].ids;
      if (std::all_of(ids.begin(), ids.end(),
                      [&](int32_t id) { return mergeable(vocabulary.tokens[size_t(id)].kind); }))
        out.insert(ids[0], ids[1], {static_cast<uint32_t>(begin + i), ids[2]});
    }
  }
  return out;
}

size_t MergeIndex::home(int32_t left, int32_t right) const {
  const uint64_t hash =
      mix((uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right)) ^ seed(), kOdd2);
  return static_cast<size_t>((static_cast<Wide>(hash) * slots_.size()) >> 64);
}

// A pair that comes twice keeps its first rank.
void MergeIndex::insert(int32_t left, int32_t right, Merge merge) {
  const size_t at = place(left, right);
  if (!slots_[at].free()) return;
  slots_[at] = {.left = static_cast<uint32_t>(left) | (merge.rank & 0xff) << 24,
                .right = static_cast<uint32_t>(right) | (merge.rank >> 8 & 0xff) << 24,
                .made = static_cast<uint32_t>(merge.id) | (merge.rank >> 16 & 0xff) << 24};
}

size_t MergeIndex::place(int32_t left, int32_t right) const {
  size_t at = home(left, right);
  while (!slots_[at].free() && ((slots_[at].left & kId) != static_cast<uint32_t>(left) ||
                                (slots_[at].right & kId) != static_cast<uint32_t>(right)))
    at = at + 1 == slots_.size() ? 0 : at + 1;
  return at;
}

bool MergeIndex::find(int32_t left, int32_t right, Merge& merge) const {
  if (left < 0 || right < 0) return false;
  const Slot& slot = slots_[place(left, right)];
  if (slot.free()) return false;
  merge = {.rank = slot.left >> 24 | (slot.right >> 24) << 8 | (slot.made >> 24) << 16,
           .id = static_cast<int32_t>(slot.made & kId)};
  return true;
}

}  // namespace hone::model
