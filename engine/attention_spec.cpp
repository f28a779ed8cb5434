// AttentionSpec and AttentionProblem say the same; the one is the caller's, the other the kernels'. This is the only
// place that knows both.
#include "engine/attention_spec_internal.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/guarded.h"
#include "kernels/attention/blocking.h"

namespace hone {
namespace {

using attention::AttentionProblem;

// All strides are those of [rows][heads][dim]. Blocked keys have none.
bool rows_first(const AttentionProblem& p) {
  const bool keys = p.k == attention::KeyLayout::kBlocked || p.row_stride_k() == p.kv_heads * p.d;
  return p.heads > 1 && keys && p.row_stride_q() == p.heads * p.d && p.row_stride_v() == p.kv_heads * p.value_dim() &&
         p.row_stride_o() == p.heads * p.value_dim();
}

Result<AttentionSpec> parse_spec(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(const std::vector<AttentionProblem> problems, attention::parse_problems(text));
  const AttentionProblem& p = problems.front();
  AttentionSpec spec{.heads = p.heads,
                     .kv_heads = p.kv_heads,
                     .head_dim = p.d,
                     .value_dim = p.dv,
                     .ldq = p.ldq,
                     .ldk = p.ldk,
                     .ldv = p.ldv,
                     .ldo = p.ldo,
                     .causal = p.causal,
                     .window = p.window,
                     .mask = static_cast<AttentionMask>(p.mask),
                     .softcap = p.softcap,
                     .scale = p.scale,
                     .lse = p.lse,
                     .page = p.page,
                     .cache = p.k == attention::KeyLayout::kBlocked,
                     .key_layout = KeyLayout::kChosen};
  if (spec.cache) spec.key_layout = KeyLayout::kBlocked;
  if (rows_first(p)) spec.layout = HeadLayout::kRowsFirst;
  if (spec.cache && p.ldv != 0 && spec.layout != HeadLayout::kRowsFirst)
    return invalid_argument(
        fmt::format("ldv={} with k=blocked: values of a KvCache are dense; leave it out, or say layout=bshd for rows "
                    "that are appended",
                    p.ldv));
  spec.batch = 0;
  for (const AttentionProblem& q : problems) {
    spec.batch = std::max(spec.batch, q.batch);
    const AttentionSpec::Shape shape{q.q, q.kv};
    const auto same = [&](const AttentionSpec::Shape& s) { return s.q == shape.q && s.kv == shape.kv; };
    if (std::none_of(spec.expected.begin(), spec.expected.end(), same)) spec.expected.push_back(shape);
  }
  if (spec.batch == 0) return invalid_argument("b=0: calls with no sequence need no plan; b must be at least 1");
  return spec;
}

static_assert(static_cast<int>(AttentionMask::kAdditive) == static_cast<int>(attention::MaskKind::kAdditive) &&
              static_cast<int>(AttentionMask::kBoolean) == static_cast<int>(attention::MaskKind::kBoolean));

Status check_enumerators(const AttentionSpec& spec) {
  if (spec.layout != HeadLayout::kHeadsFirst && spec.layout != HeadLayout::kRowsFirst)
    return invalid_argument(fmt::format("layout {} is not one of hone::HeadLayout", static_cast<int>(spec.layout)));
  if (spec.mask > AttentionMask::kBoolean)
    return invalid_argument(fmt::format("mask {} is not one of hone::AttentionMask", static_cast<int>(spec.mask)));
  if (spec.key_layout > KeyLayout::kBlocked)
    return invalid_argument(
        fmt::format("key_layout {} is not one of hone::KeyLayout", static_cast<int>(spec.key_layout)));
  if (!spec.cache && spec.key_layout == KeyLayout::kBlocked)
    return invalid_argument("key_layout is kBlocked but cache is false: only a KvCache has blocked keys");
  return {};
}

// A row of `heads` vectors of `dim`, where they lie side by side.
int64_t row_of(const AttentionSpec& spec, int64_t given, int64_t heads, int64_t dim) {
  return given != 0 || spec.layout == HeadLayout::kHeadsFirst ? given : heads * dim;
}

Status check_rows(const AttentionForm& form) {
  const AttentionProblem& p = form.problem;
  if (form.append_ldk != 0 && form.append_ldk < p.d)
    return invalid_argument(fmt::format("ldk={} is shorter than head_dim={}", form.append_ldk, p.d));
  if (form.append_ldv != 0 && form.append_ldv < p.value_dim())
    return invalid_argument(fmt::format("ldv={} is shorter than value_dim={}", form.append_ldv, p.value_dim()));
  return {};
}

}  // namespace

Result<AttentionSpec> AttentionSpec::parse(std::string_view problem) {
  return guarded([&] { return parse_spec(problem); });
}

Result<AttentionForm> form_of(const AttentionSpec& spec, KeyLayout keys) {
  HONE_RETURN_IF_ERROR(check_enumerators(spec));
  HONE_RETURN_IF_ERROR(attention::check_numerics(spec.numerics));
  const int64_t kv_heads = spec.kv_heads == 0 ? spec.heads : spec.kv_heads;
  AttentionForm form;
  form.layout = spec.layout;
  form.cache = spec.cache;
  AttentionProblem& p = form.problem;
  p = {.batch = spec.batch,
       .heads = spec.heads,
       .kv_heads = kv_heads,
       .q = 0,
       .kv = 0,
       .d = spec.head_dim,
       .dv = spec.value_dim,
       .page = spec.page,
       .causal = spec.causal,
       .window = spec.window,
       .mask = static_cast<attention::MaskKind>(spec.mask),
       .softcap = spec.softcap,
       .scale = spec.scale,
       .lse = spec.lse};
  HONE_RETURN_IF_ERROR(attention::validate(p));  // heads and dims, before they are multiplied
  p.ldq = row_of(spec, spec.ldq, p.heads, p.d);
  p.ldo = row_of(spec, spec.ldo, p.heads, p.value_dim());
  const int64_t ldk = row_of(spec, spec.ldk, p.kv_heads, p.d);
  const int64_t ldv = row_of(spec, spec.ldv, p.kv_heads, p.value_dim());
  if (spec.cache) {
    const KeyLayout layout = spec.key_layout == KeyLayout::kChosen ? keys : spec.key_layout;
    p.k = layout == KeyLayout::kBlocked ? attention::KeyLayout::kBlocked : attention::KeyLayout::kRows;
    form.append_ldk = ldk, form.append_ldv = ldv;
    HONE_RETURN_IF_ERROR(check_rows(form));
  } else {
    p.ldk = ldk, p.ldv = ldv;
  }
  HONE_RETURN_IF_ERROR(attention::validate(p));
  const int64_t window = p.window;
  p = attention::canonical(p);
  p.window = window;  // what hides nothing of no rows and no keys
  return form;
}

Result<attention::Sequence> sequence_of(const AttentionForm& form, const AttentionSequence& from) {
  AttentionProblem p = form.problem;
  p.batch = 1;
  p.q = from.q;
  p.kv = from.kv;
  HONE_RETURN_IF_ERROR(attention::validate(p));
  const auto otherwise = [](int64_t given, int64_t natural) { return given == -1 ? natural : given; };
  attention::Sequence to{.q = from.q,
                         .kv = from.kv,
                         .query = from.query,
                         .key = from.key,
                         .value = from.value,
                         .out = from.out,
                         .mask = from.mask,
                         .lse = from.lse};
  to.q_head = otherwise(from.q_head, form.head_stride(p.q, p.row_stride_q(), p.d));
  to.o_head = otherwise(from.o_head, form.head_stride(p.q, p.row_stride_o(), p.value_dim()));
  to.lse_head = otherwise(from.lse_head, p.q);
  to.mask_head = from.mask_head;
  to.mask_row = otherwise(from.mask_row, p.kv);
  if (form.cache) return to;
  const int64_t rows = p.page > 0 ? p.page : p.kv;
  to.k_head = otherwise(from.k_head, form.head_stride(rows, p.row_stride_k(), p.d));
  to.v_head = otherwise(from.v_head, form.head_stride(rows, p.row_stride_v(), p.value_dim()));
  const int64_t heads = form.layout == HeadLayout::kRowsFirst ? 1 : p.kv_heads;  // one after another in a page
  to.k_page = otherwise(from.k_page, heads * p.page * p.row_stride_k());
  to.v_page = otherwise(from.v_page, heads * p.page * p.row_stride_v());
  to.page_table = from.page_table;
  to.pages = from.pages;
  return to;
}

}  // namespace hone
