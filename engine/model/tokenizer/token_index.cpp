// See token_index_internal.h.
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
  for (size_t id = 0; id < tokens.size(); ++id) {
    const Token& token = tokens[id];
    HONE_RETURN_IF_ERROR(check_token(token, id));
    if (token.text.empty()) continue;  // no text is this token
    index.longest_ = std::max(index.longest_, token.text.size());
    const uint64_t hash = hash_of(token.text);
    const size_t at = index.place(token.text, hash);
    if (index.slots_[at] != 0) {
      const size_t other = (index.slots_[at] & 0xffffffff) - 1;
      if (token.kind == TokenKind::kUnused) continue;
      if (tokens[other].kind != TokenKind::kUnused)
        return invalid_argument(fmt::format("tokens {} and {} are both '{}'", other, id, printable(token.text, 60)));
    }
    index.slots_[at] = hash << 32 | (id + 1);
  }
  return index;
}

size_t TokenIndex::place(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = hash >> shift_;
  for (; slots_[at] != 0; at = (at + 1) & mask)
    if (slots_[at] >> 32 == (hash & 0xffffffff) && (*tokens_)[(slots_[at] & 0xffffffff) - 1].text == text) break;
  return at;
}

Result<MergeIndex> MergeIndex::create(const Vocabulary& vocabulary, const TokenIndex& index) {
  const std::vector<std::string>& merges = vocabulary.merges;
  if (merges.size() > kMaxTokens)
    return invalid_argument(fmt::format("the vocabulary has {} merges, the limit is {}", merges.size(), kMaxTokens));
  MergeIndex out;
  out.slots_.resize(merges.size() + merges.size() / 3 + 1);
  // The tables are larger than the caches: all look-ups of a batch are under way at once.
  constexpr size_t kBatch = 16;
  struct Wanted {
    std::string_view left, right;
    std::string whole;
    std::array<uint64_t, 3> hash;
  };
  std::array<Wanted, kBatch> batch;
  for (size_t begin = 0; begin < merges.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, merges.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const std::string_view merge = merges[begin + i];
      const size_t space = merge.find(' ', 1);
      if (space == std::string_view::npos)
        return invalid_argument(
            fmt::format("merge {} is '{}', not two tokens and a space between them", begin + i, printable(merge, 60)));
      Wanted& w = batch[i];
      w.left = merge.substr(0, space);
      w.right = merge.substr(space + 1);
      w.whole.assign(w.left).append(w.right);
      w.hash = {hash_of(w.left), hash_of(w.right), hash_of(w.whole)};
      for (const uint64_t hash : w.hash) index.prefetch(hash);
    }
    for (size_t i = 0; i < count; ++i) {
      const Wanted& w = batch[i];
      const std::array<int32_t, 3> ids = {index.find(w.left, w.hash[0]), index.find(w.right, w.hash[1]),
                                          index.find(w.whole, w.hash[2])};
      const std::array<std::string_view, 3> texts = {w.left, w.right, w.whole};
      bool may = true;
      for (size_t k = 0; k < 3; ++k) {
        if (ids[k] < 0)
          return invalid_argument(fmt::format("merge {} is '{}', but '{}' is no token", begin + i,
                                              printable(merges[begin + i], 60), printable(texts[k], 60)));
        may = may && mergeable(vocabulary.tokens[static_cast<size_t>(ids[k])].kind);
      }
      if (may) out.insert(ids[0], ids[1], {static_cast<uint32_t>(begin + i), ids[2]});
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
  Merge first;
  if (find(left, right, first)) return;
  size_t at = home(left, right);
  while (!slots_[at].free()) at = at + 1 == slots_.size() ? 0 : at + 1;
  slots_[at] = {.left = static_cast<uint32_t>(left) | (merge.rank & 0xff) << 24,
                .right = static_cast<uint32_t>(right) | (merge.rank >> 8 & 0xff) << 24,
                .made = static_cast<uint32_t>(merge.id) | (merge.rank >> 16 & 0xff) << 24};
}

bool MergeIndex::find(int32_t left, int32_t right, Merge& merge) const {
  constexpr uint32_t kId = (1u << 24) - 1;
  if (left < 0 || right < 0 || slots_.empty()) return false;
  for (size_t at = home(left, right); !slots_[at].free(); at = at + 1 == slots_.size() ? 0 : at + 1) {
    const Slot& slot = slots_[at];
    if ((slot.left & kId) != static_cast<uint32_t>(left) || (slot.right & kId) != static_cast<uint32_t>(right))
      continue;
    merge = {.rank = slot.left >> 24 | (slot.right >> 24) << 8 | (slot.made >> 24) << 16,
             .id = static_cast<int32_t>(slot.made & kId)};
    return true;
  }
  return false;
}

}  // namespace hone::model
