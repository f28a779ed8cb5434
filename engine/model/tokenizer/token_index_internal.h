// Text -> id of the tokens of a vocabulary, and pair of ids -> what it merges to. Both are open-addressing tables that
// are built once a start: a vocabulary of 128000 tokens and 280000 merges must cost tens of milliseconds, and half of
// that would be the first touch of memory with std::unordered_map's nodes. The hash has a seed of the process, so that
// a file cannot be made whose tokens all collide.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/tokenizer/vocabulary.h"

namespace hone::model {

// Whether text may become the token by merging. Control, unknown, byte and user-defined tokens never come out of it:
// otherwise "<s>" typed by a user would be the token of that name.
inline bool mergeable(TokenKind kind) { return kind == TokenKind::kNormal || kind == TokenKind::kUnused; }

uint64_t hash_of(std::string_view text);

class TokenIndex {
 public:
  // Refers to the tokens, which must stay where they are. Errors: what vocabulary.h's validate() says of tokens.
  static Result<TokenIndex> create(const std::vector<Token>& tokens);
  int32_t find(std::string_view text) const { return find(text, hash_of(text)); }  // -1: none
  int32_t find(std::string_view text, uint64_t hash) const {
    return static_cast<int32_t>(slots_[place(text, hash)] & 0xffffffff) - 1;
  }
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash >> shift_]); }
  void prefetch_text(uint64_t hash) const;
  size_t longest() const { return longest_; }  // bytes of a token

 private:
  static size_t id_of(uint64_t slot) { return (slot & 0xffffffff) - 1; }
  Status insert(size_t id, uint64_t hash);
  size_t place(std::string_view text, uint64_t hash) const;  // the slot that has it, or a free one for it

  const std::vector<Token>* tokens_ = nullptr;
  std::vector<uint64_t> slots_;  // low half of the hash, then id + 1; 0: free
  int shift_ = 0;
  size_t longest_ = 0;
};

class MergeIndex {
 public:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  // Errors: what validate() says of merges. Merges that need or make a token that is not mergeable() are left out.
  static Result<MergeIndex> create(const Vocabulary& vocabulary, const TokenIndex& index);
  // Whether left and right merge.
  bool find(int32_t left, int32_t right, Merge& merge) const;

 private:
  // An id in 24 bits each and a byte of the rank above it, lowest first. A free one has all bits set, which no merge
  // has: it would make the token that it starts from.
  struct Slot {
    uint32_t left = ~0u, right = ~0u, made = ~0u;
    bool free() const { return (left & right & made) == ~0u; }
  };
  void insert(int32_t left, int32_t right, Merge merge);
  size_t home(int32_t left, int32_t right) const;
  size_t place(int32_t left, int32_t right) const;  // the slot that has the pair, or a free one for it

  std::vector<Slot> slots_ = std::vector<Slot>(1);
};

}  // namespace hone::model
