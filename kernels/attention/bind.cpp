// The order of the arguments that lower.cpp and merge.cpp declare.
#include "kernels/attention/bind.h"

#include "kernels/attention/lower_internal.h"

namespace hone::attention {
namespace {

class Writer {
 public:
  void buffer(const void* data) { arguments_.buffers[buffers_++] = const_cast<void*>(data); }
  void param(int64_t value) { arguments_.params[params_++] = value; }
  const Arguments& arguments() const { return arguments_; }

 private:
  Arguments arguments_;
  size_t buffers_ = 0, params_ = 0;
};

}  // namespace

int64_t partial_elements(const AttentionProblem& problem, const AttentionProgram& program) {
  if (program.algorithm != Algorithm::kSplit) return 0;
  return program.splits * problem.heads * problem.q * partial_row_elements(problem);
}

Arguments bind(const AttentionProblem& p, const AttentionProgram& program, const Sequence& s, int index,
               float* partials) {
  Writer w;
  if (index == 1) {
    w.param(s.q);
    w.param(s.o_head);
    if (p.lse) w.param(s.lse_head);
    w.buffer(partials);
    w.buffer(s.out);
    if (p.lse) w.buffer(s.lse);
    return w.arguments();
  }
  const bool split = program.algorithm == Algorithm::kSplit;
  w.param(s.q);
  w.param(s.kv);
  w.param(s.q_head);
  w.param(s.k_head);
  w.param(s.v_head);
  if (!split) w.param(s.o_head);
  if (p.page > 0) {
    w.param((s.kv + p.page - 1) / p.page);
    w.param(s.pages);
    w.param(s.k_page);
    w.param(s.v_page);
  } else if (p.k == KeyLayout::kBlocked) {
    w.param(s.key_groups);
  }
  if (p.mask != MaskKind::kNone) {
    w.param(s.mask_head);
    w.param(s.mask_row);
  }
  if (p.lse && !split) w.param(s.lse_head);
  w.buffer(s.query);
  if (p.page > 0) w.buffer(s.page_table);
  w.buffer(s.key);
  w.buffer(s.value);
  w.buffer(split ? partials : s.out);
  if (p.mask != MaskKind::kNone) w.buffer(s.mask);
  if (p.lse && !split) w.buffer(s.lse);
  return w.arguments();
}

}  // namespace hone::attention
