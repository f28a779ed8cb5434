// Appends keys to a cache of KeyLayout::kBlocked: one element after the other, as the elements of a row lie kKeyGroup
// apart there. A row of 128 takes 128 stores, which is little next to reading all keys before it.
#include "kernels/attention/lower_internal.h"

namespace hone::attention {

using ir::Affine;
using ir::Builder;

Result<ir::Kernel> lower_append_blocked(int64_t kv_heads, int64_t d, int64_t row_stride) {
  if (kv_heads < 1 || d < 1 || row_stride < d)
    return invalid_argument("append: kv_heads and d must be at least 1, and rows at least d apart");
  Builder b("attention_append_blocked");
  auto param = [&](const char* name) { return Affine::var(b.param(name)); };
  const Affine rows = param("rows"), at = param("at"), groups = param("groups"), from = param("ss"), to = param("sd");
  const ir::BufferId src = b.buffer(
      {.name = "src", .scope = ir::Scope::kIn, .extents = {kv_heads, rows, d}, .strides = {from, row_stride, 1}});
  const ir::BufferId dst = b.buffer({.name = "dst",
                                     .scope = ir::Scope::kOut,
                                     .extents = {kv_heads, groups, d, kKeyGroup},
                                     .strides = {to, d * kKeyGroup, kKeyGroup, 1}});
  const ir::RegRef x = Builder::at(b.reg("x", {.lanes = 1}));
  b.parallel("g", 0, kv_heads, 1, [&](const Affine& g) {
    const Affine fits = b.let_min("fits", {rows, groups * kKeyGroup - at});
    b.serial("r", 0, fits, 1, [&](const Affine& r) {
      const Affine group = b.let_floor_div("group", at + r, kKeyGroup);
      b.serial("p", 0, d, 1, [&](const Affine& p) {
        b.load(x, {src, {g, r, p}});
        b.store({dst, {g, group, p, at + r - group * kKeyGroup}}, x);
      });
    });
  });
  return b.finish();
}

}  // namespace hone::attention
