// Packs B into panels so that the k loop reads it with unit stride: element (p, c) of a panel follows element (p, c-1),
// k-row p+1 follows k-row p. nn rows are copied; nt rows hold consecutive k, so blocks of lanes x lanes are transposed
// in registers (64 shuffles per 16x16 block, about 4 elements a cycle: fast enough to pack at memory speed). Columns
// beyond n become zero: a kernel may read them but never store what comes of them.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/ir/transpose.h"
#include "kernels/matmul/lower_internal.h"

namespace hone::matmul {

using ir::Access;
using ir::Affine;
using ir::Builder;
using ir::RegRef;

namespace {
constexpr int64_t kRowBytes = 4096;
}  // namespace

StripPacker::StripPacker(Builder& builder, int lanes) : b_(builder), lanes_(lanes) {
  x_ = b_.reg("px", {.lanes = lanes}, {lanes});
  y_ = b_.reg("py", {.lanes = lanes}, {lanes});
  mask_ = b_.reg("pm", {.lanes = lanes, .mask = true});
}

void StripPacker::emit(const StripCopy& copy) {
  if (copy.layout == BLayout::kNt) {
    emit_transposed(copy);
  } else {
    b_.serial("pk", 0, copy.rows, 1, [&](Affine p) { emit_row(copy, p); });
  }
}

void StripPacker::emit_row(const StripCopy& copy, const Affine& p) {
  if (copy.cols % lanes_ != 0) b_.lane_mask(Builder::at(mask_), copy.cols % lanes_);
  const RegRef zero = Builder::at(y_, {0});
  if (round_up(copy.cols, lanes_) < copy.width) b_.constant(zero, 0.0F);
  for (int64_t c = 0; c < copy.width; c += lanes_) {
    const RegRef v = Builder::at(x_, {c / lanes_ % lanes_});
    if (c >= copy.cols) {
      b_.store(copy.dst(p, c), zero);
      continue;
    }
    b_.load(v, copy.src(p, c), c + lanes_ > copy.cols ? Builder::at(mask_) : RegRef{});
    b_.store(copy.dst(p, c), v);
  }
}

void StripPacker::emit_transposed(const StripCopy& copy) {
  const bool constant_rows = copy.rows.is_constant();
  const int64_t tail = constant_rows ? copy.rows.constant() % lanes_ : -1;
  for (int64_t c0 = 0; c0 < copy.width; c0 += lanes_) {
    if (constant_rows && tail == 0) {
      b_.serial("pk", 0, copy.rows, lanes_, [&](Affine p) { transpose_block(copy, p, c0, {}, lanes_); });
    } else if (constant_rows) {
      const int64_t whole = copy.rows.constant() - tail;
      if (whole > 0) b_.serial("pk", 0, whole, lanes_, [&](Affine p) { transpose_block(copy, p, c0, {}, lanes_); });
      b_.lane_mask(Builder::at(mask_), tail);
      transpose_block(copy, whole, c0, Builder::at(mask_), copy.dst_rows_rounded ? lanes_ : tail);
    } else {
      // Room for rounded rows is what makes one masked loop enough here.
      b_.serial("pk", 0, copy.rows, lanes_, [&](Affine p) {
        b_.lane_mask(Builder::at(mask_), copy.rows - p);
        transpose_block(copy, p, c0, Builder::at(mask_), lanes_);
      });
    }
  }
}

void StripPacker::transpose_block(const StripCopy& copy, Affine p, int64_t c0, RegRef load_mask, int64_t store_rows) {
  for (int64_t c = 0; c < lanes_; ++c) {
    const RegRef row = Builder::at(x_, {c});
    if (c0 + c < copy.cols) {
      b_.load(row, copy.src(p, c0 + c), load_mask);
    } else {
      b_.constant(row, 0.0F);
    }
  }
  const ir::RegId columns = ir::emit_transpose(b_, lanes_, x_, y_);
  for (int64_t r = 0; r < store_rows; ++r) b_.store(copy.dst(p + r, c0), Builder::at(columns, {r}));
}

int64_t packed_elements(int64_t n, int64_t k, int64_t panel, int64_t kr) {
  return round_up(n, panel) * round_up(k, kr);
}

Result<ir::Kernel> lower_pack_b(const MatmulProblem& source, int64_t panel, Isa isa) {
  HONE_RETURN_IF_ERROR(validate(source));
  if (source.dtype != DType::kF32)
    return unsupported(fmt::format("{} is packed by fallback_pack_b", dtype_name(source.dtype)));
  if (source.b == BLayout::kPacked) return invalid_argument("b=packed is packed already: the source must be nn or nt");
  const int lanes = isa_info(isa).lanes_f32();
  if (panel < lanes || panel % lanes != 0) return unsupported("panel must be a multiple of the vector length");
  const int64_t n = source.n, k = source.k, panels = ceil_div(n, panel);
  Builder b(std::string("pack_b_") + (source.b == BLayout::kNt ? "nt_" : "nn_") + std::string(isa_info(isa).name));
  const bool nt = source.b == BLayout::kNt;
  const ir::BufferId src = b.buffer({.name = "src",
                                     .scope = ir::Scope::kIn,
                                     .extents = {nt ? n : k, nt ? k : n},
                                     .strides = {source.row_stride_b(), 1}});
  const ir::BufferId dst = b.buffer({.name = "dst",
                                     .scope = ir::Scope::kOut,
                                     .extents = {panels, k, panel},
                                     .strides = {k * panel, panel, 1},
                                     .align = 64});
  StripPacker packer(b, lanes);
  auto strip = [&](const Affine& q, int64_t cols) {
    return StripCopy{.layout = source.b,
                     .src =
                         [=](const Affine& p, const Affine& c) {
                           const Affine col = q * panel + c;
                           return nt ? Access{src, {col, p}} : Access{src, {p, col}};
                         },
                     .dst =
                         [=](const Affine& p, const Affine& c) {
                           return Access{dst, {q, p, c}};
                         },
                     .cols = cols,
                     .width = panel,
                     .rows = k,
                     .dst_rows_rounded = false};
  };
  const int64_t whole = n / panel, tail = n % panel;
  if (nt) {
    b.parallel("q", 0, panels, 1, [&](const Affine& q) {
      if (tail == 0) return packer.emit(strip(q, panel));
      b.if_ge_zero(
          Affine(whole - 1) - q, [&] { packer.emit(strip(q, panel)); }, [&] { packer.emit(strip(q, tail)); });
    });
    return b.finish();
  }
  // Rows of nn are read a page at a time: one panel at a time would touch one line a row, at the latency of memory.
  const int64_t group = std::max<int64_t>(1, kRowBytes / 4 / panel);
  b.parallel("q", 0, panels, group, [&](const Affine& q) {
    const Affine here = b.let_min("here", {group, Affine(whole) - q});
    b.serial("pk", 0, k, 1, [&](const Affine& p) {
      if (whole > 0) b.serial("i", 0, here, 1, [&](const Affine& i) { packer.emit_row(strip(q + i, panel), p); });
      if (tail > 0) b.if_ge_zero(q + (group - 1 - whole), [&] { packer.emit_row(strip(whole, tail), p); });
    });
  });
  return b.finish();
}

}  // namespace hone::matmul
