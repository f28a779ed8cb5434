// Attention from arrays: q [b, hq, q, d], k [b, hkv, kv, d], v [b, hkv, kv, dv], or with pages k [pages, hkv, page, d],
// v [pages, hkv, page, dv] and page_table [b, kv / page rounded up]; mask [b, hq, q, kv], which broadcasts; out is
// [b, hq, q, dv], lse [b, hq, q].
#include <algorithm>
#include <numeric>

#include "engine/base/math.h"
#include "kernels/attention/bind.h"
#include "kernels/attention/reference.h"
#include "tools/hone/exec_work.h"

namespace hone::cli {
namespace {

using attention::AttentionProblem;
using attention::AttentionProgram;
using attention::KeyLayout;
using attention::kKeyGroup;
using attention::MaskKind;
using attention::Sequence;

// Rows of the heads of one item (a sequence or a page). Heads lie side by side where rows have room for them (as in [b,
// s, h, d]), else one after the other. Blocked: kKeyGroup rows side by side.
struct Heads {
  int64_t heads = 1, rows = 0, width = 0, row_stride = 0;
  bool blocked = false;

  bool side_by_side() const { return !blocked && heads > 1 && row_stride >= heads * width; }
  int64_t head_stride() const {
    if (blocked) return round_up(rows, kKeyGroup) * width;
    return side_by_side() ? width : rows * row_stride;
  }
  int64_t elements() const {
    if (rows == 0) return 0;
    return side_by_side() ? (rows - 1) * row_stride + heads * width : heads * head_stride();
  }
  int64_t at(int64_t head, int64_t row, int64_t column) const {
    if (!blocked) return head * head_stride() + row * row_stride + column;
    return head * head_stride() + (row / kKeyGroup * width + column) * kKeyGroup + row % kKeyGroup;
  }
  // visit(index in a dense [heads][rows][width], index here)
  template <typename Visit>
  void each(Visit visit) const {
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < width; ++c) visit((h * rows + i) * width + c, at(h, i, c));
  }
};

class AttentionWork final : public ExecWork {
 public:
  AttentionWork(const AttentionProblem& problem, const AttentionProgram& program) : p_(problem), program_(program) {
    const int64_t keys = p_.page > 0 ? p_.page : p_.kv, items = p_.page > 0 ? -1 : p_.batch, dv = p_.value_dim();
    query_ = {p_.heads, p_.q, p_.d, p_.row_stride_q()};
    key_ = {p_.kv_heads, keys, p_.d, p_.row_stride_k(), p_.k == KeyLayout::kBlocked};
    value_ = {p_.kv_heads, keys, dv, p_.row_stride_v()};
    out_ = {p_.heads, p_.q, dv, p_.row_stride_o()};
    inputs = {{"q", DType::kF32, {p_.batch, p_.heads, p_.q, p_.d}},
              {"k", DType::kF32, {items, p_.kv_heads, keys, p_.d}},
              {"v", DType::kF32, {items, p_.kv_heads, keys, dv}}};
    if (p_.page > 0) inputs.push_back({"page_table", DType::kS32, {p_.batch, ceil_div(p_.kv, p_.page)}});
    if (p_.mask != MaskKind::kNone)
      inputs.push_back({.name = "mask",
                        .dtype = p_.mask == MaskKind::kAdditive ? DType::kF32 : DType::kU8,
                        .shape = {p_.batch, p_.heads, p_.q, p_.kv},
                        .broadcasts = true});
    outputs.push_back({"out", DType::kF32, {p_.batch, p_.heads, p_.q, dv}});
    if (p_.lse) outputs.push_back({"lse", DType::kF32, {p_.batch, p_.heads, p_.q}});
  }

  Result<NpyArray> random(const OperandInfo& input, uint64_t seed) const override;
  Status take(const Arrays& arrays) override;
  Status run(const std::vector<jit::Executable>& kernels, runtime::Schedule& schedule,
             jit::WorkspacePool& workspaces) override;
  Result<NpyArray> output(const std::string& name) const override;
  Result<numeric::Comparison> check() const override;

 private:
  // Arrays of items as kernels read them.
  Result<AlignedBuffer> lay_out(const NpyArray& array, const Heads& heads) const {
    const int64_t items = array.shape.front();
    HONE_ASSIGN_OR_RETURN(AlignedBuffer memory, poisoned(items * heads.elements()));
    const float* const from = array.as<float>().data();
    for (int64_t i = 0; i < items; ++i) {
      float* const to = memory.as<float>().data() + i * heads.elements();
      const float* const its = from + i * heads.heads * heads.rows * heads.width;
      heads.each([&](int64_t dense, int64_t there) { to[there] = its[dense]; });
    }
    return memory;
  }
  int64_t lse_elements() const { return p_.lse ? p_.heads * p_.q : 0; }
  Sequence sequence(int64_t item) const;
  void set_mask(int64_t item, Sequence& s) const;

  const AttentionProblem p_;
  const AttentionProgram program_;
  Heads query_, key_, value_, out_;  // of an item
  AlignedBuffer q_memory_, k_memory_, v_memory_, mask_memory_, table_memory_, result_, lse_, partials_;
  int64_t pages_ = 0;
  std::vector<int64_t> mask_shape_;  // [b, hq, q, kv], 1 where it is the same for all
};

Result<NpyArray> AttentionWork::random(const OperandInfo& input, uint64_t seed) const {
  std::vector<int64_t> shape = input.shape;
  const int64_t pages = p_.page > 0 ? p_.batch * ceil_div(p_.kv, p_.page) : 0;
  for (int64_t& d : shape)
    if (d == -1) d = pages;
  if (input.name == "page_table") {  // each page once, in random order
    HONE_ASSIGN_OR_RETURN(NpyArray table, make_array(input.dtype, shape));
    const std::span<int32_t> entries = table.as<int32_t>();
    std::iota(entries.begin(), entries.end(), 0);
    for (size_t i = entries.size(); i > 1; --i)
      std::swap(entries[i - 1], entries[random_bits(seed, input.name, i) % i]);
    return table;
  }
  if (input.dtype == DType::kU8) {  // mostly visible
    HONE_ASSIGN_OR_RETURN(NpyArray mask, make_array(input.dtype, shape));
    const std::span<uint8_t> bytes = mask.as<uint8_t>();
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = random_bits(seed, input.name, i) % 8 != 0;
    return mask;
  }
  return random_floats(shape, seed, input.name);
}

Status AttentionWork::take(const Arrays& arrays) {
  const NpyArray& k = arrays.at("k");
  if (p_.page > 0) {
    pages_ = k.shape.front();
    if (arrays.at("v").shape.front() != pages_) return invalid_argument("k and v must have the same number of pages");
    const std::span<const int32_t> table = arrays.at("page_table").as<int32_t>();
    HONE_ASSIGN_OR_RETURN(table_memory_, AlignedBuffer::allocate(static_cast<int64_t>(table.size_bytes())));
    std::copy(table.begin(), table.end(), table_memory_.as<int32_t>().begin());
  }
  HONE_ASSIGN_OR_RETURN(q_memory_, lay_out(arrays.at("q"), query_));
  HONE_ASSIGN_OR_RETURN(k_memory_, lay_out(k, key_));
  HONE_ASSIGN_OR_RETURN(v_memory_, lay_out(arrays.at("v"), value_));
  if (p_.mask != MaskKind::kNone) {
    const NpyArray& mask = arrays.at("mask");
    mask_shape_.assign(4 - mask.shape.size(), 1);
    mask_shape_.insert(mask_shape_.end(), mask.shape.begin(), mask.shape.end());
    HONE_ASSIGN_OR_RETURN(mask_memory_, AlignedBuffer::allocate(mask.data.size()));
    std::copy_n(mask.data.data(), mask.data.size(), mask_memory_.data());
  }
  HONE_ASSIGN_OR_RETURN(result_, poisoned(p_.batch * out_.elements()));
  HONE_ASSIGN_OR_RETURN(lse_, poisoned(p_.batch * lse_elements()));
  HONE_ASSIGN_OR_RETURN(partials_, poisoned(p_.batch * attention::partial_elements(p_, program_)));
  for (int64_t i = 0; i < p_.batch; ++i) HONE_RETURN_IF_ERROR(attention::check_sequence(p_, sequence(i)));
  return {};
}

Sequence AttentionWork::sequence(int64_t item) const {
  Sequence s{.q = p_.q, .kv = p_.kv};
  attention::set_dense_strides(p_, s);
  s.q_head = query_.head_stride(), s.k_head = key_.head_stride();
  s.v_head = value_.head_stride(), s.o_head = out_.head_stride();
  s.query = q_memory_.as<float>().data() + item * query_.elements();
  s.out = result_.as<float>().data() + item * out_.elements();
  if (p_.lse) s.lse = lse_.as<float>().data() + item * lse_elements();
  const int64_t first = p_.page > 0 ? 0 : item;  // all items share the pool of pages
  s.key = k_memory_.as<float>().data() + first * key_.elements();
  s.value = v_memory_.as<float>().data() + first * value_.elements();
  if (p_.page > 0) {
    s.page_table = table_memory_.as<int32_t>().data() + item * ceil_div(p_.kv, p_.page);
    s.pages = pages_, s.k_page = key_.elements(), s.v_page = value_.elements();
  }
  if (p_.mask != MaskKind::kNone) set_mask(item, s);
  return s;
}

// A dimension of 1 has the stride 0.
void AttentionWork::set_mask(int64_t item, Sequence& s) const {
  const int64_t row = mask_shape_[3], head = row * mask_shape_[2], all = head * mask_shape_[1];
  s.mask_row = mask_shape_[2] == 1 ? 0 : row;
  s.mask_head = mask_shape_[1] == 1 ? 0 : head;
  const int64_t bytes = p_.mask == MaskKind::kAdditive ? 4 : 1;
  s.mask = mask_memory_.data() + (mask_shape_[0] == 1 ? 0 : item * all) * bytes;
}

Status AttentionWork::run(const std::vector<jit::Executable>& kernels, runtime::Schedule& schedule,
                          jit::WorkspacePool& workspaces) {
  const int64_t partial = attention::partial_elements(p_, program_);
  const std::string node = attention::to_string(p_);
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<attention::Arguments> arguments;
    std::vector<jit::LaunchItem> items;
    arguments.reserve(static_cast<size_t>(p_.batch));
    for (int64_t i = 0; i < p_.batch; ++i) {
      float* const its = partial == 0 ? nullptr : partials_.as<float>().data() + i * partial;
      arguments.push_back(attention::bind(p_, program_, sequence(i), static_cast<int>(k), its));
      items.emplace_back(kernels[k], arguments.back().buffers.data(), arguments.back().params.data());
    }
    const bool growing = attention::later_tasks_are_longer(p_, static_cast<int>(k));
    jit::Launch launch(kernels[k], items, &workspaces, growing ? jit::Walk::kLastFirst : jit::Walk::kRange);
    schedule.for_range({"attention", node}, launch.tasks(), 1, {jit::Launch::run_range, &launch});
    if (launch.out_of_memory()) return resource_exhausted("no memory for a workspace");
  }
  return {};
}

Result<NpyArray> AttentionWork::output(const std::string& name) const {
  const bool is_lse = name == "lse";
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(DType::kF32, outputs[is_lse ? 1 : 0].shape));
  float* const to = array.as<float>().data();
  if (is_lse) {
    std::copy_n(lse_.as<float>().data(), array.elements(), to);
    return array;
  }
  for (int64_t i = 0; i < p_.batch; ++i) {
    const float* const from = result_.as<float>().data() + i * out_.elements();
    float* const its = to + i * p_.heads * p_.q * p_.value_dim();
    out_.each([&](int64_t dense, int64_t there) { its[dense] = from[there]; });
  }
  return array;
}

Result<numeric::Comparison> AttentionWork::check() const {
  HONE_ASSIGN_OR_RETURN(const AlignedBuffer out, poisoned(out_.elements()));
  HONE_ASSIGN_OR_RETURN(const AlignedBuffer lse, poisoned(lse_elements()));
  AttentionProblem one = p_;
  one.batch = 1;
  numeric::Comparison all;
  for (int64_t i = 0; i < p_.batch; ++i) {
    const Sequence got = sequence(i);
    Sequence want = got;
    want.out = out.as<float>().data();
    if (p_.lse) want.lse = lse.as<float>().data();
    attention::class_f32(one, want, attention::numerics(program_));
    const numeric::Comparison compared = attention::compare_bits(one, got, want);
    all.elements += compared.elements, all.mismatches += compared.mismatches;
    if (all.text.empty() && !compared.ok()) all.text = "item " + std::to_string(i) + ": " + compared.text;
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<ExecWork>> make_work_of(const AttentionProblem& problem, const AttentionProgram& program) {
  HONE_RETURN_IF_ERROR(attention::validate(problem));
  return std::unique_ptr<ExecWork>(std::make_unique<AttentionWork>(problem, program));
}

}  // namespace hone::cli
