// See frame_internal.h. Two analyses over the flow graph, each a fixed point: first the values of tracked registers,
// which resolve addresses to places in the frame; then which stores reach which loads, byte by byte. Bytes that every
// access treats alike are one cell.
#include "jit/inspect/frame_internal.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

namespace hone::jit {

namespace {

// What is known of a register or of a slot.
struct Value {
  enum Kind : uint8_t { kUnknown, kFrame, kEntry } kind = kUnknown;
  int of = 0;          // kFrame: the part of the frame; kEntry: the register that held it at entry
  int64_t offset = 0;  // kFrame
  bool operator==(const Value&) const = default;
};

struct Place {
  int part = 0;
  int64_t begin = 0, end = 0;
  bool overlaps(const Place& o) const { return part == o.part && begin < o.end && o.begin < end; }
  auto operator<=>(const Place&) const = default;
};

struct State {
  std::array<Value, kTrackedRegisters> registers;
  std::map<Place, Value> slots;  // that hold something known
  bool operator==(const State&) const = default;
};

State state_at_entry() {
  State state;
  for (int r = 0; r < kTrackedRegisters; ++r) state.registers[r] = {.kind = Value::kEntry, .of = r};
  state.registers[kStackPointer] = {.kind = Value::kFrame};
  return state;
}

// What holds on both paths.
void meet(State& into, const State& other) {
  for (int r = 0; r < kTrackedRegisters; ++r)
    if (!(into.registers[r] == other.registers[r])) into.registers[r] = {};
  std::erase_if(into.slots, [&](const auto& slot) {
    const auto same = other.slots.find(slot.first);
    return same == other.slots.end() || !(same->second == slot.second);
  });
}

// An access of a frame with its place, if that is constant.
struct FrameAccess {
  int operation = 0;
  bool load = false, store = false, partial = false;
  bool saves = false;  // stores what the caller wants back, or an address of the frame
  Place place;
};

class Addresses {
 public:
  Addresses(std::vector<Operation>& operations, const FlowGraph& graph, Arch arch)
      : operations_(operations), graph_(graph), arch_(arch), in_(graph.blocks.size()) {}

  // In the order of the code, of code that can be reached.
  std::vector<FrameAccess> find() {
    solve();
    std::vector<FrameAccess> found;
    for (size_t b = 0; b < graph_.blocks.size(); ++b) {
      if (!in_[b]) continue;
      State state = *in_[b];
      for (int i = graph_.blocks[b].first; i < graph_.blocks[b].last; ++i) step(state, i, &found);
    }
    return found;
  }

 private:
  void solve() {
    in_[0] = state_at_entry();
    for (bool changed = true; changed;) {
      changed = false;
      for (int b : graph_.order) {
        State state = *in_[b];  // reverse post-order: some predecessor came before
        for (int i = graph_.blocks[b].first; i < graph_.blocks[b].last; ++i) step(state, i, nullptr);
        for (int next : graph_.blocks[b].next) {
          if (!in_[next]) {
            in_[next] = state;
            changed = true;
            continue;
          }
          State met = *in_[next];
          meet(met, state);
          if (met == *in_[next]) continue;
          in_[next] = std::move(met);
          changed = true;
        }
      }
    }
  }

  void step(State& state, int index, std::vector<FrameAccess>* found) {
    Operation& op = operations_[index];
    for (const Transfer& t : op.before) apply(state, t, index);
    std::vector<std::pair<Tracked, Value>> loaded;
    for (const Access& access : op.accesses) {
      const Value base = access.base == kNoRegister ? Value{} : state.registers[access.base];
      if (base.kind != Value::kFrame) continue;
      if (found != nullptr) op.instruction.classes.stack = true;
      if (access.indexed || access.bytes == 0) continue;
      const int64_t begin = base.offset + access.displacement;
      const Place place{base.of, begin, begin + access.bytes};
      const Value stored = access.store && access.data != kNoRegister ? state.registers[access.data] : Value{};
      if (found != nullptr)
        found->push_back({.operation = index,
                          .load = access.load,
                          .store = access.store,
                          .partial = access.partial,
                          .saves = access.store && wanted_back(stored),
                          .place = place});
      if (access.load && access.data != kNoRegister) {
        const auto slot = state.slots.find(place);
        loaded.emplace_back(access.data, slot == state.slots.end() ? Value{} : slot->second);
      }
      if (!access.store) continue;
      std::erase_if(state.slots, [&](const auto& slot) { return slot.first.overlaps(place); });
      if (stored.kind != Value::kUnknown && !access.partial) state.slots[place] = stored;
    }
    for (const Transfer& t : op.after) apply(state, t, index);
    for (const auto& [to, value] : loaded) state.registers[to] = value;
  }

  bool wanted_back(const Value& value) const {
    return value.kind == Value::kFrame ||
           (value.kind == Value::kEntry && callee_saved(arch_, static_cast<Tracked>(value.of)));
  }

  void apply(State& state, const Transfer& t, int index) const {
    Value value = t.from == kNoRegister ? Value{} : state.registers[t.from];
    const int part = index + 1;  // 0 is what the stack pointer of the entry addresses
    if (value.kind == Value::kFrame && t.align) value = {.kind = Value::kFrame, .of = part};
    if (value.kind == Value::kFrame) value.offset += t.add;
    if (value.kind == Value::kEntry && (t.add != 0 || t.align)) value = {};
    // A stack pointer that moved by an unknown amount is still one.
    if (value.kind == Value::kUnknown && t.to == kStackPointer) value = {.kind = Value::kFrame, .of = part};
    state.registers[t.to] = value;
  }

  std::vector<Operation>& operations_;
  const FlowGraph& graph_;
  const Arch arch_;
  std::vector<std::optional<State>> in_;
};

// Bytes of the frame that each access takes all of or none of.
std::vector<Place> cells_of(const std::vector<FrameAccess>& accesses) {
  std::map<int, std::vector<int64_t>> cuts;
  for (const FrameAccess& a : accesses) {
    cuts[a.place.part].push_back(a.place.begin);
    cuts[a.place.part].push_back(a.place.end);
  }
  std::vector<Place> cells;
  for (auto& [part, at] : cuts) {
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    for (size_t i = 0; i + 1 < at.size(); ++i) cells.push_back({part, at[i], at[i + 1]});
  }
  return cells;
}

class Reaching {
 public:
  Reaching(std::vector<Operation>& operations, const FlowGraph& graph, const std::vector<FrameAccess>& accesses)
      : operations_(operations), graph_(graph), accesses_(accesses), cells_(cells_of(accesses)) {
    defined_in_.resize(cells_.size());
    for (size_t c = 0; c < cells_.size(); ++c) define(kEntry, static_cast<int>(c));
    cells_accessed_.resize(accesses.size());
    for (size_t a = 0; a < accesses.size(); ++a) {
      for (auto c = std::lower_bound(cells_.begin(), cells_.end(), accesses[a].place, starts_before);
           c != cells_.end() && c->overlaps(accesses[a].place); ++c) {
        cells_accessed_[a].push_back(static_cast<int>(c - cells_.begin()));
        if (accesses[a].store) define(static_cast<int>(a), cells_accessed_[a].back());
      }
    }
  }

  void classify() {
    std::vector<std::vector<int>> in_block(graph_.blocks.size());
    for (size_t a = 0; a < accesses_.size(); ++a)
      in_block[static_cast<size_t>(graph_.block_of[static_cast<size_t>(accesses_[a].operation)])].push_back(
          static_cast<int>(a));
    std::vector<Bits> in(graph_.blocks.size(), Bits((definitions_.size() + 63) / 64, 0));
    for (size_t c = 0; c < cells_.size(); ++c)
      set(in[0], static_cast<int>(c), true);  // the entry's definitions come first
    for (bool changed = true; changed;) {
      changed = false;
      for (int b : graph_.order) {
        Bits out = in[b];
        for (int a : in_block[b]) store(out, a);
        for (int next : graph_.blocks[b].next) changed |= add(in[next], out);
      }
    }
    for (int b : graph_.order) {
      Bits reaching = in[b];
      for (int a : in_block[b]) {
        if (accesses_[a].load) load(reaching, a);
        store(reaching, a);
      }
    }
  }

 private:
  using Bits = std::vector<uint64_t>;  // by definition
  static constexpr int kEntry = -1;    // what the slot held before the function was entered

  static bool starts_before(const Place& cell, const Place& place) {
    return std::tie(cell.part, cell.begin) < std::tie(place.part, place.begin);
  }

  void define(int access, int cell) {
    defined_in_[cell].push_back(static_cast<int>(definitions_.size()));
    definitions_.push_back(access);
  }

  static bool has(const Bits& bits, int d) { return (bits[static_cast<size_t>(d / 64)] >> (d % 64)) & 1; }
  static void set(Bits& bits, int d, bool value) {
    uint64_t& word = bits[static_cast<size_t>(d / 64)];
    const uint64_t bit = uint64_t{1} << (d % 64);
    word = value ? word | bit : word & ~bit;
  }
  static bool add(Bits& into, const Bits& from) {
    bool changed = false;
    for (size_t i = 0; i < from.size(); ++i) {
      changed |= (from[i] & ~into[i]) != 0;
      into[i] |= from[i];
    }
    return changed;
  }

  void store(Bits& reaching, int a) const {
    if (!accesses_[a].store) return;
    for (int c : cells_accessed_[a])
      for (int d : defined_in_[c]) {
        if (definitions_[d] == a)
          set(reaching, d, true);
        else if (!accesses_[a].partial)
          set(reaching, d, false);
      }
  }

  void load(const Bits& reaching, int a) {
    bool stored = true, spilled = false;
    for (int c : cells_accessed_[a])
      for (int d : defined_in_[c]) {
        if (!has(reaching, d)) continue;
        const int from = definitions_[d];
        if (from == kEntry) {
          stored = false;
        } else if (!accesses_[from].saves) {
          operations_[accesses_[from].operation].instruction.classes.spill = true;
          spilled = true;
        }
      }
    if (stored && spilled) operations_[accesses_[a].operation].instruction.classes.reload = true;
  }

  std::vector<Operation>& operations_;
  const FlowGraph& graph_;
  const std::vector<FrameAccess>& accesses_;
  const std::vector<Place> cells_;
  std::vector<int> definitions_;                  // the access that stores, or kEntry
  std::vector<std::vector<int>> defined_in_;      // by cell: definitions
  std::vector<std::vector<int>> cells_accessed_;  // by access
};

}  // namespace

void find_spills(std::vector<Operation>& operations, const FlowGraph& graph, Arch arch) {
  if (operations.empty()) return;
  const std::vector<FrameAccess> accesses = Addresses(operations, graph, arch).find();
  Reaching(operations, graph, accesses).classify();
}

}  // namespace hone::jit
