// Keys and values of some sequences, where attention reads them.
//
//   contiguous   of each sequence K [kv_heads][rows][d], or per head [ceil(rows / 16)][d][16]; V likewise by rows.
//                `rows` doubles when they are full, up to the capacity, and shrinks for nobody
//   paged        K [pages][kv_heads][page][d] and so on, taken at once; and a table of pages for each sequence
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/attention_spec_internal.h"
#include "engine/base/aligned_buffer.h"
#include "engine/state_internal.h"
#include "hone/attention.hpp"

namespace hone {

class KvCache::Impl {
 public:
  static Result<KvCache> create(std::shared_ptr<Engine::State> state, const AttentionForm& form,
                                const KvCacheSpec& spec);

  Status append(int64_t sequence, const KvRows& rows);
  Status truncate(int64_t sequence, int64_t length);
  int64_t length(int64_t sequence) const { return holds(sequence) ? sequences_[index(sequence)].length : 0; }
  int64_t bytes() const { return bytes_; }
  int64_t free_pages() const;
  bool blocked() const { return form_.problem.k == attention::KeyLayout::kBlocked; }

  // Whether an attention of this problem can read it.
  Status check_fits(const attention::AttentionProblem& problem) const;
  // How many keys a call sees that asks for `wanted` of them, 0: all. Error: no such sequence, more than there are.
  Result<int64_t> keys(int64_t sequence, int64_t wanted) const;
  void set_operands(int64_t sequence, attention::Sequence& operands) const;

 private:
  // Blocks (pages, or one that is a sequence) of all heads.
  struct Room {
    int64_t rows = 0;                        // that a head has in a block
    int64_t key_head = 0, value_head = 0;    // elements from head to head
    int64_t key_block = 0, value_block = 0;  // elements from block to block
    AlignedBuffer keys, values;
  };
  struct Cached {
    int64_t length = 0;
    Room own;                    // without pages
    int64_t pages = 0;           // in use, from the front of the table
    std::vector<int32_t> table;  // as many entries as a full sequence needs
  };
  struct Append;

  Impl(std::shared_ptr<Engine::State> state, const AttentionForm& form, const KvCacheSpec& spec);
  Status allocate();
  // A room without memory: its sizes, checked.
  Result<Room> measure(int64_t rows, int64_t blocks) const;
  Result<Room> make_room(int64_t rows, int64_t blocks);
  bool paged() const { return form_.problem.page > 0; }
  const Room& room_of(const Cached& cached) const { return paged() ? pool_ : cached.own; }
  Status grow(Cached& cached, int64_t length);
  bool holds(int64_t sequence) const { return sequence >= 0 && sequence < spec_.sequences; }
  // Elements from row to row of what is appended.
  int64_t key_row() const { return form_.append_ldk > 0 ? form_.append_ldk : form_.problem.d; }
  int64_t value_row() const { return form_.append_ldv > 0 ? form_.append_ldv : form_.problem.value_dim(); }
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  Status check_sequence(int64_t sequence) const;
  Status check_rows(const Cached& cached, const KvRows& rows) const;
  Status take_pages(Cached& cached, int64_t length);
  void give_pages(Cached& cached, int64_t length);
  void append_head(const Append& append, int64_t head) const;

  const std::shared_ptr<Engine::State> state_;
  const AttentionForm form_;
  KvCacheSpec spec_;
  Room pool_;  // of all pages
  std::vector<Cached> sequences_;
  std::atomic<int64_t> bytes_ = 0;
  mutable std::mutex mutex_;   // of free_
  std::vector<int32_t> free_;  // pages, the next one last
};

}  // namespace hone
