// See lifetimes_internal.h.
#include "jit/asmjit/lifetimes_internal.h"

#include <algorithm>

namespace hone::jit {

Lifetimes::Lifetimes() { push_region(); }

int Lifetimes::push_region() {
  regions_.emplace_back();
  open_.push_back(static_cast<int>(regions_.size()) - 1);
  return open_.back();
}

void Lifetimes::use(int element) { open().items.push_back({Kind::kUse, element}); }
void Lifetimes::define(int element) { open().items.push_back({Kind::kDefine, element}); }

int Lifetimes::begin_part(bool certain) {
  open().items.push_back({Kind::kPart, static_cast<int>(regions_.size())});
  const int region = push_region();
  open().certain = certain;
  return region;
}
void Lifetimes::end_part() { open_.pop_back(); }

void Lifetimes::begin_branches() {
  open().items.push_back({Kind::kBranches, static_cast<int>(branches_.size())});
  open_branches_.push_back(static_cast<int>(branches_.size()));
  branches_.emplace_back();
}
void Lifetimes::begin_branch() {
  const int region = push_region();
  branches_[static_cast<size_t>(open_branches_.back())].push_back(region);
}
void Lifetimes::end_branch() { open_.pop_back(); }
void Lifetimes::end_branches() { open_branches_.pop_back(); }

std::vector<Lifetimes::Eviction> Lifetimes::plan(int budget) {
  for (const Region& r : regions_)
    for (const Item& item : r.items)
      if ((item.kind == Kind::kUse || item.kind == Kind::kDefine) && static_cast<size_t>(item.id) >= kMaxElements)
        return {};
  summarise(0);
  std::vector<Eviction> out;
  if (regions_.front().touched.count() > static_cast<size_t>(budget)) decide(0, {}, static_cast<size_t>(budget), out);
  return out;
}

void Lifetimes::summarise(int region) {
  Region& r = regions_[static_cast<size_t>(region)];
  for (auto item = r.items.rbegin(); item != r.items.rend(); ++item) {
    const auto id = static_cast<size_t>(item->id);
    switch (item->kind) {
      case Kind::kUse:
        r.exposed.set(id);
        r.touched.set(id);
        break;
      case Kind::kDefine:
        r.exposed.reset(id);
        r.defined.set(id);
        r.touched.set(id);
        break;
      case Kind::kPart: {
        summarise(item->id);
        const Region& part = regions_[id];
        if (part.certain) {
          r.exposed &= ~part.defined;
          r.defined |= part.defined;
        }
        r.exposed |= part.exposed;
        r.touched |= part.touched;
        break;
      }
      case Kind::kBranches: {
        Set exposed, defined;
        defined.set();
        for (int branch : branches_[id]) {
          summarise(branch);
          const Region& b = regions_[static_cast<size_t>(branch)];
          exposed |= b.exposed;
          defined &= b.defined;
          r.touched |= b.touched;
        }
        r.exposed = exposed | (r.exposed & ~defined);
        r.defined |= defined;
        break;
      }
    }
  }
}

// Outer parts first: what is stored around an outer part need not be stored around those inside it.
Lifetimes::Set Lifetimes::decide(int region, Set live, size_t budget, std::vector<Eviction>& out) const {
  const Region& r = regions_[static_cast<size_t>(region)];
  std::vector<size_t> following;  // evictions that begin at the part behind this one
  for (auto item = r.items.rbegin(); item != r.items.rend(); ++item) {
    const auto id = static_cast<size_t>(item->id);
    switch (item->kind) {
      case Kind::kUse:
        live.set(id);
        break;
      case Kind::kDefine:
        live.reset(id);
        break;
      case Kind::kPart: {
        const Region& part = regions_[id];
        const Set idle = live & ~part.touched;
        Set inside = live | part.exposed;  // at its end, where it may start again
        size_t wanted = part.touched.count() + idle.count();
        std::vector<size_t> here;
        for (size_t e = 0; e < kMaxElements && wanted > budget; ++e) {
          if (!idle[e]) continue;
          --wanted;
          inside.reset(e);
          const auto same = [&](size_t i) { return out[i].element == static_cast<int>(e); };
          const auto at = std::find_if(following.begin(), following.end(), same);
          here.push_back(at != following.end() ? *at : out.size());
          if (at == following.end()) out.push_back({item->id, item->id, static_cast<int>(e)});
          out[here.back()].first = item->id;
        }
        following = here;
        decide(item->id, inside, budget, out);
        if (part.certain) live &= ~part.defined;
        live |= part.exposed;
        break;
      }
      case Kind::kBranches: {
        Set before;
        for (int branch : branches_[id]) before |= decide(branch, live, budget, out);
        live = before;
        following.clear();
        break;
      }
    }
  }
  return live;
}

}  // namespace hone::jit
