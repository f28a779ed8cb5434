// See arguments.h. bind() writes in the order in which lower.cpp declares.
#include "kernels/rows/arguments.h"

#include <fmt/format.h>

namespace hone::rows {

Status check_table(const int32_t* table, int64_t count, int64_t rows) {
  for (int64_t i = 0; i < count; ++i)
    if (table[i] < 0 || table[i] >= rows)
      return invalid_argument(fmt::format("index {} of the table is {}, expected 0..{}", i, table[i], rows - 1));
  return {};
}

Status check(const RowProgram& program, const RowArgs& args) {
  int64_t elements = program.n == kRuntime ? args.n : program.n;
  if (elements < 0) return invalid_argument(fmt::format("{}: n is {}", program.name, elements));
  for (int d = 0; d < program.outer; ++d) {
    const int64_t extent = args.extents[static_cast<size_t>(d)];
    if (extent < 0) return invalid_argument(fmt::format("{}: extent {} is {}", program.name, d, extent));
    if (__builtin_mul_overflow(elements, extent, &elements))
      return invalid_argument(fmt::format("{}: more than 2^63 elements", program.name));
  }
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const Operand& o = program.operands[i];
    const Tensor& t = args.operands[i];
    auto wrong = [&](const std::string& what) {
      return invalid_argument(fmt::format("{}: operand {}: {}", program.name, i, what));
    };
    if (o.role == Role::kScratch) continue;
    if (elements > 0 && t.data == nullptr) return wrong("its data is null");
    for (size_t d = 0; d < static_cast<size_t>(program.outer); ++d) {
      if (t.strides[d] < 0) return wrong(fmt::format("stride {} is {}", d, t.strides[d]));
      if (elements > 0 && o.role == Role::kOut && t.strides[d] == 0 && args.extents[d] > 1)
        return wrong(fmt::format("stride {} is 0, but rows of an output lie apart", d));
    }
    if (o.columns == Columns::kStrided && t.column_stride < (o.role == Role::kOut ? 1 : 0))
      return wrong(fmt::format("its column stride is {}", t.column_stride));
    if (o.gather < 0) continue;
    const int64_t count = args.extents[static_cast<size_t>(o.gather)];
    if (count > 0 && t.table == nullptr) return wrong("its table is null");
    if (const Status in_range = check_table(t.table, count, t.rows); !in_range.ok()) return wrong(in_range.message());
  }
  return {};
}

void bind(const RowProgram& program, const RowArgs& args, Arguments* out) {
  int64_t* param = out->params.data();
  void** buffer = out->buffers.data();
  const auto outer = static_cast<size_t>(program.outer);
  for (size_t d = 0; d < outer; ++d) *param++ = args.extents[d];
  if (program.n == kRuntime) *param++ = args.n;
  for (size_t i = 0; i < program.operands.size(); ++i) {
    const Operand& o = program.operands[i];
    const Tensor& t = args.operands[i];
    if (o.role == Role::kScratch) continue;
    for (size_t d = 0; d < outer; ++d) *param++ = t.strides[d];
    if (o.columns == Columns::kStrided) *param++ = t.column_stride;
    if (o.gather >= 0) {
      *param++ = t.rows;
      *buffer++ = const_cast<int32_t*>(t.table);
    }
    *buffer++ = t.data;
  }
}

}  // namespace hone::rows
