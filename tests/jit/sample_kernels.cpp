// See sample_kernels.h.
#include "tests/jit/sample_kernels.h"

#include "kernels/ir/builder.h"

namespace hone::jit {

using ir::Affine;
using ir::Builder;
using ir::Scope;

ir::Buffer dense(std::string name, Scope scope, std::vector<int64_t> extents, DType dtype) {
  ir::Buffer b{.name = std::move(name), .dtype = dtype, .scope = scope, .extents = {}, .strides = {}};
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    b.extents.insert(b.extents.begin(), extents[i]);
    b.strides.insert(b.strides.begin(), stride);
    stride *= extents[i];
  }
  return b;
}

namespace {

constexpr int64_t kVectors = 24;  // vectors per input row: enough for all specials to meet

// Every f32 operation that maps (x, y) to one vector; row i of the output is operation i.
KernelCase arithmetic(int lanes) {
  Builder b("arithmetic");
  const int64_t n = kVectors * lanes;
  const auto x = b.buffer(dense("x", Scope::kIn, {n}));
  const auto y = b.buffer(dense("y", Scope::kIn, {n}));
  const auto out = b.buffer(dense("o", Scope::kOut, {32, n}));
  const ir::RegType f{.lanes = lanes}, s{.dtype = DType::kS32, .lanes = lanes}, m{.lanes = lanes, .mask = true};
  const auto a = b.at(b.reg("a", f)), c = b.at(b.reg("c", f)), r = b.at(b.reg("r", f)), k = b.at(b.reg("k", f));
  const auto i1 = b.at(b.reg("i1", s)), i2 = b.at(b.reg("i2", s)), i3 = b.at(b.reg("i3", s));
  const auto mask = b.at(b.reg("mask", m));
  b.serial("i", 0, n, lanes, [&](Affine i) {
    int64_t row = 0;
    auto put = [&] { b.store({out, {row++, i}}, r); };
    b.load(a, {x, {i}});
    b.load(c, {y, {i}});
    for (auto op : {ir::BinaryOp::kAdd, ir::BinaryOp::kSub, ir::BinaryOp::kMul, ir::BinaryOp::kDiv, ir::BinaryOp::kMin,
                    ir::BinaryOp::kMax}) {
      b.binary(op, r, a, c);
      put();
    }
    for (auto op :
         {ir::UnaryOp::kMove, ir::UnaryOp::kNeg, ir::UnaryOp::kAbs, ir::UnaryOp::kRound, ir::UnaryOp::kSqrt}) {
      b.unary(op, r, a);
      put();
    }
    b.unary(ir::UnaryOp::kToInt, i1, a);
    b.unary(ir::UnaryOp::kToFloat, r, i1);
    put();
    b.unary(ir::UnaryOp::kBitcast, r, i1);
    put();
    b.unary(ir::UnaryOp::kBitcast, i2, c);
    b.constant_s32(i3, 127);
    b.binary(ir::BinaryOp::kAdd, i1, i1, i3);
    b.unary(ir::UnaryOp::kShl, i1, i1, 23);
    b.binary(ir::BinaryOp::kSub, i1, i1, i2);
    b.unary(ir::UnaryOp::kBitcast, r, i1);
    put();
    for (auto op : {ir::CompareOp::kLt, ir::CompareOp::kLe, ir::CompareOp::kEq}) {
      b.compare(op, mask, a, c);
      b.select(r, mask, a, c);
      put();
      b.compare(op, mask, a, a);
      b.constant(r, 7.0f);
      b.select(r, mask, r, a);
      put();
    }
    b.constant(k, -0.375f);
    b.constant(r, 0.0f);
    put();
    b.unary(ir::UnaryOp::kMove, r, k);
    b.binary(ir::BinaryOp::kMax, r, r, a);
    put();
    // fma: the destination is the addend, a factor, the other factor, all of them, none.
    b.unary(ir::UnaryOp::kMove, r, c);
    b.fma(r, a, k, r);
    put();
    b.unary(ir::UnaryOp::kMove, r, c);
    b.fma(r, r, a, k);
    put();
    b.unary(ir::UnaryOp::kMove, r, c);
    b.fma(r, a, r, k);
    put();
    b.unary(ir::UnaryOp::kMove, r, c);
    b.fma(r, r, r, r);
    put();
    b.fma(r, a, k, c);
    put();
    b.fma(r, a, a, a);
    put();
    b.select(r, mask, c, c);
    put();
  });
  return {"arithmetic", b.finish(), {{}}};
}

// Tails by mask for every count from far below 0 to far above the lanes; masked loads give 0.
// Values of which a compiler sees that they are no NaN: there min, max and what they are made of must keep telling a
// zero from the other.
KernelCase zeros(int lanes) {
  Builder b("zeros");
  const int64_t n = kVectors * lanes;
  const auto x = b.buffer(dense("x", Scope::kIn, {n}, DType::kS32));
  const auto out = b.buffer(dense("o", Scope::kOut, {44, n}));
  const ir::RegType f{.lanes = lanes}, s{.dtype = DType::kS32, .lanes = lanes}, m{.lanes = lanes, .mask = true};
  const auto p = b.at(b.reg("p", f)), q = b.at(b.reg("q", f)), r = b.at(b.reg("r", f)), i = b.at(b.reg("i", s));
  const auto none = b.at(b.reg("none", f)), minus = b.at(b.reg("minus", f)), mask = b.at(b.reg("mask", m));
  b.constant(none, 0.0f);
  b.constant(minus, -0.0f);
  b.serial("v", 0, n, lanes, [&](Affine v) {
    b.load(i, {x, {v}});
    b.unary(ir::UnaryOp::kShl, i, i, 30);
    b.unary(ir::UnaryOp::kToFloat, p, i);  // 0, 2^30, -2^31, -2^30
    b.unary(ir::UnaryOp::kNeg, q, p);
    int64_t row = 0;
    for (const auto& a : {p, q}) {  // exact zeros of both signs
      b.fma(r, none, a, none);
      b.unary(ir::UnaryOp::kNeg, r, r);
      b.store({out, {row++, v}}, r);
      b.unary(ir::UnaryOp::kNeg, r, none);
      b.fma(r, none, a, r);
      b.store({out, {row++, v}}, r);
      b.fma(r, a, a, none);
      b.unary(ir::UnaryOp::kNeg, r, r);
      b.store({out, {row++, v}}, r);
      b.fma(r, none, a, none);
      b.binary(ir::BinaryOp::kSub, r, minus, r);
      b.store({out, {row++, v}}, r);
    }
    for (const auto& [a, c] : {std::pair(p, q), std::pair(q, p), std::pair(p, minus), std::pair(minus, p),
                               std::pair(q, none), std::pair(none, q)}) {
      for (auto op : {ir::BinaryOp::kMin, ir::BinaryOp::kMax}) {
        b.binary(op, r, a, c);
        b.store({out, {row++, v}}, r);
      }
      for (auto op : {ir::CompareOp::kLt, ir::CompareOp::kLe}) {
        b.compare(op, mask, a, c);
        b.select(r, mask, a, c);
        b.store({out, {row++, v}}, r);
        b.select(r, mask, c, a);
        b.store({out, {row++, v}}, r);
      }
    }
  });
  return {"zeros", b.finish(), {{}}};
}

KernelCase tails(int lanes) {
  Builder b("tails");
  const auto n = b.param("n");
  const auto x = b.buffer({.name = "x", .scope = Scope::kIn, .extents = {Affine::var(n)}, .strides = {1}});
  const auto y = b.buffer({.name = "y", .scope = Scope::kInOut, .extents = {Affine::var(n)}, .strides = {1}});
  const auto z = b.buffer(dense("z", Scope::kOut, {2, lanes}));
  const ir::RegType f{.lanes = lanes}, mt{.lanes = lanes, .mask = true};
  const auto v = b.at(b.reg("v", f)), w = b.at(b.reg("w", f)), m = b.at(b.reg("m", mt));
  const Affine full = b.let_floor_div("full", Affine::var(n), lanes);
  b.serial("i", 0, full * lanes, lanes, [&](Affine i) {
    b.load(v, {x, {i}});
    b.load(w, {y, {i}});
    b.binary(ir::BinaryOp::kAdd, v, v, w);
    b.store({y, {i}}, v);
  });
  b.lane_mask(m, Affine::var(n) - full * lanes);
  b.load(v, {x, {full * lanes}}, m);
  b.load(w, {y, {full * lanes}}, m);
  b.store({z, {0, 0}}, v);
  b.binary(ir::BinaryOp::kMul, v, v, w);
  b.store({y, {full * lanes}}, v, m);
  // A count that is far out of range is all or nothing.
  b.lane_mask(m, Affine::var(n) * (int64_t{1} << 33) - 1);
  b.constant(w, 3.0f);
  b.select(w, m, w, v);
  b.lane_mask(m, Affine::var(n) * -(int64_t{1} << 33));
  b.select(w, m, v, w);
  b.store({z, {1, 0}}, w);
  std::vector<std::vector<int64_t>> sizes;
  for (int64_t i = 0; i <= 2 * lanes + 1; ++i) sizes.push_back({i});
  return {"tails", b.finish(), sizes};
}

// A mask that depends on the loop variable, constant masks, and masks from compares on memory.
KernelCase masks(int lanes) {
  Builder b("masks");
  const auto x = b.buffer(dense("x", Scope::kIn, {8, lanes}));
  const auto y = b.buffer(dense("y", Scope::kInOut, {8, lanes}));
  const ir::RegType f{.lanes = lanes}, mt{.lanes = lanes, .mask = true};
  const auto v = b.at(b.reg("v", f)), w = b.at(b.reg("w", f)), m = b.at(b.reg("m", mt));
  b.serial("i", 0, 4, 1, [&](Affine i) {
    b.lane_mask(m, 3 * i - 2);
    b.load(v, {x, {i, 0}}, m);
    b.lane_mask(m, lanes - i);
    b.store({y, {i, 0}}, v, m);
  });
  b.unroll("u", 0, 4, 1, [&](Affine u) {
    b.lane_mask(m, 5 * u - 1);
    b.load(v, {x, {u + 4, 0}}, m);
    b.store({y, {u + 4, 0}}, v);
    b.load(w, {x, {u, 0}});
    b.compare(ir::CompareOp::kLt, m, v, w);
    b.load(v, {x, {u, 0}}, m);
    b.store({y, {u, 0}}, v, m);
  });
  return {"masks", b.finish(), {{}}};
}

KernelCase permutes(int lanes) {
  Builder b("permutes");
  const auto x = b.buffer(dense("x", Scope::kIn, {2, lanes}));
  const auto out = b.buffer(dense("o", Scope::kOut, {4 + 256, lanes}));
  const ir::RegType f{.lanes = lanes};
  const auto a = b.at(b.reg("a", f)), c = b.at(b.reg("c", f)), r = b.at(b.reg("r", f));
  b.load(a, {x, {0, 0}});
  b.load(c, {x, {1, 0}});
  int64_t row = 0;
  for (auto op : {ir::PermuteOp::kUnpackLo32, ir::PermuteOp::kUnpackHi32, ir::PermuteOp::kUnpackLo64,
                  ir::PermuteOp::kUnpackHi64}) {
    b.permute(op, r, a, c);
    b.store({out, {row++, 0}}, r);
  }
  for (int imm = 0; imm < 256; ++imm) {
    const bool valid = lanes == 16 || (lanes == 8 && (imm & 0xcc) == 0);
    if (!valid) continue;
    b.permute(ir::PermuteOp::kGroups, r, a, c, imm);
    b.store({out, {row++, 0}}, r);
    b.unary(ir::UnaryOp::kMove, r, a);
    b.permute(ir::PermuteOp::kUnpackLo32, r, c, r);
    b.store({out, {row - 1, 0}}, r);
  }
  return {"permutes", b.finish(), {{}}};
}

// Two parallel loops over a matrix with a runtime row stride, tails in both directions.
KernelCase strided_tasks(int lanes) {
  Builder b("strided_tasks");
  const auto m = b.param("m"), n = b.param("n"), ld = b.param("ld");
  const auto x = b.buffer(
      {.name = "x", .scope = Scope::kIn, .extents = {Affine::var(m), Affine::var(n)}, .strides = {Affine::var(ld), 1}});
  const auto y = b.buffer({.name = "y",
                           .scope = Scope::kOut,
                           .extents = {Affine::var(m), Affine::var(n)},
                           .strides = {Affine::var(ld), 1}});
  const ir::RegType f{.lanes = lanes}, mt{.lanes = lanes, .mask = true};
  const auto v = b.at(b.reg("v", f)), s = b.at(b.reg("s", f)), k = b.at(b.reg("k", mt));
  b.parallel("i", 0, Affine::var(m), 1, [&](Affine i) {
    b.parallel("j", 0, Affine::var(n), 3 * lanes, [&](Affine j) {
      const Affine width = b.let_min("width", {3 * lanes, Affine::var(n) - j});
      b.broadcast(s, {x, {i, j}});
      b.serial("l", 0, width, lanes, [&](Affine l) {
        b.lane_mask(k, width - l);
        b.load(v, {x, {i, j + l}}, k);
        b.binary(ir::BinaryOp::kSub, v, v, s);
        b.store({y, {i, j + l}}, v, k);
      });
    });
  });
  return {
      "strided_tasks", b.finish(), {{3, 7 * lanes, 7 * lanes}, {5, 4 * lanes + 1, 50 * lanes}, {1, 1, 1}, {2, 2, 9}}};
}

// Runtime strides under every kind of index: rows of a serial loop with a loop over columns inside, the innermost loop
// itself (once alone, once beside a let that needs its value), a let, a param, unrolled rows; a stride of 0 shares.
KernelCase strided_rows(int lanes) {
  Builder b("strided_rows");
  const auto heads = b.param("heads"), q = b.param("q"), kv = b.param("kv");
  const auto head = b.param("mask_head"), row = b.param("mask_row");
  const Affine rows = Affine::var(q), keys = Affine::var(kv);
  const auto mask = b.buffer({.name = "mask",
                              .scope = Scope::kIn,
                              .extents = {Affine::var(heads), rows, keys},
                              .strides = {Affine::var(head), Affine::var(row), 1}});
  const auto out = b.buffer(
      {.name = "o", .scope = Scope::kInOut, .extents = {Affine::var(heads), rows, keys}, .strides = {3000, 200, 1}});
  const auto rowsum = b.buffer(dense("rowsum", Scope::kInOut, {8, 4, lanes}));
  const ir::RegType f{.lanes = lanes}, mt{.lanes = lanes, .mask = true};
  const auto v = b.at(b.reg("v", f)), w = b.at(b.reg("w", f)), k = b.at(b.reg("k", mt));
  b.parallel("h", 0, Affine::var(heads), 1, [&](Affine h) {
    b.serial("i", 0, rows, 2, [&](Affine i) {
      const Affine last = b.let_min("last", {i + 1, rows - 1});
      b.serial("j", 0, keys, lanes, [&](Affine j) {
        b.lane_mask(k, keys - j);
        b.load(v, {mask, {h, i, j}}, k);
        b.load(w, {mask, {h, last, j}}, k);
        b.binary(ir::BinaryOp::kAdd, v, v, w);
        b.store({out, {h, i, j}}, v, k);
        b.store({out, {h, last, j}}, w, k);
      });
    });
    const Affine some = b.let_min("some", {rows, 4});
    b.lane_mask(k, keys);
    b.constant(w, 0.0f);
    b.serial("r", 0, some, 1, [&](Affine r) {
      b.load(v, {mask, {h, r, 0}}, k);
      b.binary(ir::BinaryOp::kMax, w, w, v);
    });
    b.if_ge_zero(7 - h, [&] { b.store({rowsum, {h, 0, 0}}, w); });
    b.serial("s", 1, some, 2, [&](Affine s) {
      const Affine back = b.let_max("back", {0, s - 2, 2 * s - 4});
      b.load(v, {mask, {h, back, 0}}, k);
      b.binary(ir::BinaryOp::kMin, w, w, v);
      b.load(v, {mask, {h, some - s, 0}}, k);
      b.binary(ir::BinaryOp::kSub, w, w, v);
    });
    b.if_ge_zero(7 - h, [&] { b.store({rowsum, {h, 1, 0}}, w); });
    b.if_ge_zero(rows - 4, [&] {
      b.serial("t", rows - 4, rows - 2, 1, [&](Affine t) {
        b.unroll("u", 0, 3, 1, [&](Affine u) {
          b.load(v, {mask, {h, t + u, 0}}, k);
          b.fma(w, v, v, w);
        });
      });
      b.if_ge_zero(7 - h, [&] { b.store({rowsum, {h, 2, 0}}, w); });
    });
  });
  return {"strided_rows",
          b.finish(),
          {{2, 7, 3 * lanes + 1, 2000, 100}, {1, 1, 1, 0, 0}, {3, 5, lanes, 0, 64}, {2, 4, lanes - 1, 130, 0}}};
}

// Rows in pages that a table names: an index outside loops, one per outer iteration, one in an innermost loop, one
// behind a condition that keeps its table from being read, and one that is an index into the table itself.
KernelCase pages(int lanes) {
  Builder b("pages");
  const auto n = b.param("n"), count = b.param("pages"), stride = b.param("page_stride");
  const Affine rows = Affine::var(n);
  const auto table =
      b.buffer({.name = "table", .dtype = DType::kS32, .scope = Scope::kIn, .extents = {rows}, .strides = {1}});
  const auto x = b.buffer({.name = "x",
                           .scope = Scope::kIn,
                           .extents = {Affine::var(count), 3, lanes},
                           .strides = {Affine::var(stride), lanes, 1}});
  const auto out =
      b.buffer({.name = "o", .scope = Scope::kOut, .extents = {rows, 5, lanes}, .strides = {5 * lanes, lanes, 1}});
  const ir::RegType f{.lanes = lanes};
  const auto v = b.at(b.reg("v", f)), w = b.at(b.reg("w", f));
  b.if_ge_zero(rows - 1, [&] {
    const Affine first = b.let_load("first", {table, {0}}, Affine::var(count));
    b.load(w, {x, {first, 2, 0}});
    b.serial("i", 0, rows, 1, [&](Affine i) {
      const Affine page = b.let_load("page", {table, {i}}, Affine::var(count));
      const Affine other = b.let_max("other", {page - 1, first - 2, 0});
      b.serial("j", 0, 3, 1, [&](Affine j) {
        b.load(v, {x, {page, j, 0}});
        b.binary(ir::BinaryOp::kAdd, v, v, w);
        b.store({out, {i, j, 0}}, v);
      });
      b.load(v, {x, {other, 1, 0}});
      b.store({out, {i, 3, 0}}, v);
    });
    b.serial("k", 0, rows, 1, [&](Affine k) {
      const Affine page = b.let_load("page", {table, {rows - 1 - k}}, Affine::var(count));
      const Affine least = b.let_min("least", {page, rows - 1});
      b.load(v, {x, {page, 0, 0}});
      b.if_ge_zero(k - 1, [&] {
        const Affine next = b.let_load("next", {table, {k - 1}}, Affine::var(count));
        b.load(w, {x, {next, 1, 0}});
        b.binary(ir::BinaryOp::kMax, v, v, w);
      });
      const Affine hop = b.let_load("hop", {table, {least}}, Affine::var(count));
      b.load(w, {x, {hop, 2, 0}});
      b.binary(ir::BinaryOp::kSub, v, v, w);
      b.store({out, {k, 4, 0}}, v);
    });
  });
  return {"pages", b.finish(), {{0, 1, 0}, {1, 1, 3 * lanes}, {5, 4, 3 * lanes + 1}, {9, 2, 100}}};
}

// Bytes as a mask of [rows][keys] with a runtime row stride, whole vectors and then one by one up to the last: the
// buffer ends at a page that may not be touched. All 256 values occur.
KernelCase bytes(int lanes) {
  Builder b("bytes");
  const auto q = b.param("q"), kv = b.param("kv"), row = b.param("row");
  const Affine rows = Affine::var(q), keys = Affine::var(kv);
  const auto hidden = b.buffer({.name = "hidden",
                                .dtype = DType::kU8,
                                .scope = Scope::kIn,
                                .extents = {rows, keys},
                                .strides = {Affine::var(row), 1},
                                .align = 1});
  const auto out = b.buffer(
      {.name = "o", .dtype = DType::kS32, .scope = Scope::kOut, .extents = {rows, keys}, .strides = {keys, 1}});
  const auto chosen = b.buffer({.name = "c", .scope = Scope::kOut, .extents = {rows, keys}, .strides = {keys, 1}});
  const ir::RegType s32{.dtype = DType::kS32, .lanes = lanes}, f{.lanes = lanes}, mt{.lanes = lanes, .mask = true};
  const auto v = b.at(b.reg("v", s32)), w = b.at(b.reg("w", f)), zero = b.at(b.reg("zero", f));
  const auto m = b.at(b.reg("m", mt));
  const auto one = b.at(b.reg("one", {.dtype = DType::kS32, .lanes = 1}));
  b.constant(zero, 0.0f);
  const Affine whole = b.let_floor_div("whole", keys, lanes);
  b.serial("i", 0, rows, 1, [&](Affine i) {
    b.serial("j", 0, whole * lanes, lanes, [&](Affine j) {
      b.load(v, {hidden, {i, j}});
      b.store({out, {i, j}}, v);
      b.unary(ir::UnaryOp::kToFloat, w, v);
      b.compare(ir::CompareOp::kEq, m, w, zero);
      b.select(w, m, zero, w);
      b.store({chosen, {i, j}}, w);
    });
    b.serial("t", whole * lanes, keys, 1, [&](Affine t) {
      b.load(one, {hidden, {i, t}});
      b.store({out, {i, t}}, one);
    });
  });
  return {"bytes", b.finish(), {{3, 0, 0}, {1, 1, 1}, {2, 3 * lanes + 1, 3 * lanes + 1}, {9, 8 * lanes, 100 * lanes}}};
}

// Rows of 16-bit floats at odd multiples of 2 bytes: vectors, the tail one by one, and products with broadcasts.
KernelCase halves(DType dtype, int lanes) {
  Builder b("halves_" + std::string(dtype_name(dtype)));
  const auto q = b.param("q"), kv = b.param("kv"), row = b.param("row");
  const Affine rows = Affine::var(q), keys = Affine::var(kv);
  const auto x = b.buffer({.name = "x",
                           .dtype = dtype,
                           .scope = Scope::kIn,
                           .extents = {rows, keys},
                           .strides = {Affine::var(row), 1},
                           .align = 2});
  const auto y = b.buffer({.name = "y", .scope = Scope::kInOut, .extents = {rows, keys}, .strides = {keys, 1}});
  const auto v = b.at(b.reg("v", {.lanes = lanes})), w = b.at(b.reg("w", {.lanes = lanes}));
  const auto sum = b.at(b.reg("sum", {.lanes = lanes})), one = b.at(b.reg("one", {.lanes = 1}));
  const Affine whole = b.let_floor_div("whole", keys, lanes);
  b.serial("i", 0, rows, 1, [&](Affine i) {
    b.serial("j", 0, whole * lanes, lanes, [&](Affine j) {
      b.prefetch({x, {i + 1, j}}, 0);
      b.load(v, {x, {i, j}});
      b.broadcast(w, {x, {i, j + (lanes - 1)}});
      b.load(sum, {y, {i, j}});
      b.fma(sum, v, w, sum);
      b.store({y, {i, j}}, sum);
    });
    b.serial("t", whole * lanes, keys, 1, [&](Affine t) {
      b.load(one, {x, {i, t}});
      b.store({y, {i, t}}, one);
    });
  });
  const std::string name = "halves_" + std::string(dtype_name(dtype));
  return {name, b.finish(), {{3, 0, 0}, {1, 1, 1}, {2, 3 * lanes + 1, 3 * lanes + 1}, {9, 8 * lanes, 101}}};
}

// Versions by a runtime count: over a register tile, nested, inside a loop, and with a known count.
KernelCase versions(int lanes) {
  Builder b("versions");
  const auto rows = b.param("rows");
  const auto x = b.buffer(dense("x", Scope::kIn, {8, lanes}));
  const auto y = b.buffer(dense("y", Scope::kInOut, {8, lanes}));
  const auto z = b.buffer(dense("z", Scope::kInOut, {8, 8, lanes}));
  const ir::RegType f{.lanes = lanes};
  const auto acc = b.reg("acc", f, {7});
  const auto v = b.at(b.reg("v", f));
  const Affine count = b.let_min("count", {Affine::var(rows), 7});
  const Affine some = b.let_max("some", {count, 1});
  b.specialise("r", 1, 7, some, [&](Affine r) {
    b.unroll("i", 0, r, 1, [&](Affine i) { b.load(b.at(acc, {i}), {x, {i, 0}}); });
    b.serial("t", 0, 5, 1, [&](Affine) {
      b.unroll("i", 0, r, 1,
               [&](Affine i) { b.binary(ir::BinaryOp::kAdd, b.at(acc, {i}), b.at(acc, {i}), b.at(acc, {r - 1 - i})); });
    });
    b.unroll("i", 0, r, 1, [&](Affine i) { b.store({y, {r - i, 0}}, b.at(acc, {i})); });
  });
  b.serial("j", 0, 6, 1, [&](Affine j) {
    b.specialise("q", 0, 5, j, [&](Affine q) {
      b.load(v, {x, {q + 1, 0}});
      b.specialise("p", 1, 7, some, [&](Affine p) {
        b.unroll("i", 0, q, 1, [&](Affine) { b.binary(ir::BinaryOp::kMul, v, v, v); });
        b.store({z, {j, p - 1, 0}}, v);
      });
      b.store({z, {q, 7, 0}}, v);
    });
  });
  b.specialise("c", 2, 3, 3, [&](Affine c) { b.store({z, {7, c, 0}}, v); });
  b.store({z, {7, 4, 0}}, v);
  std::vector<std::vector<int64_t>> sizes;
  for (int64_t i = 0; i <= 9; ++i) sizes.push_back({i});
  KernelCase test{"versions", b.finish(), sizes};
  return test;
}

// Loop nests: bounds from params and lets, steps that do not divide, empty loops, loops that run once, variables of
// outer loops used inside, ifs on all of them, negative coefficients.
KernelCase nests(int lanes) {
  Builder b("nests");
  const auto n = b.param("n");
  const auto x = b.buffer(dense("x", Scope::kIn, {64 * lanes}));
  const auto y = b.buffer(dense("y", Scope::kInOut, {16, 64, lanes}));
  const ir::RegType f{.lanes = lanes};
  const auto v = b.at(b.reg("v", f)), w = b.at(b.reg("w", f));
  b.constant(w, 1.25f);
  const Affine top = b.let_min("top", {Affine::var(n), 50, 40 + Affine::var(n) * 2});
  b.serial("i", 2, 14, 5, [&](Affine i) {
    const Affine third = b.let_floor_div("third", top + i, 7);
    b.serial("j", i, third, 3, [&](Affine j) {
      b.if_eq_zero(
          j - 2, [&] { b.constant(w, 5.0f); }, [&] { b.constant(w, 0.5f); });
      b.serial("k", 0, 1, 1, [&](Affine k) { b.load(w, {x, {k + j * lanes}}); });
      b.serial("l", 10, 10, 1, [&](Affine l) { b.load(w, {x, {l}}); });
      b.serial("k2", j, j + 4, 2, [&](Affine k) {
        const Affine clipped = b.let_max("clipped", {k - 3, 1, j - 4});
        b.load(v, {x, {(63 - k) * lanes}});
        b.if_ge_zero(k - j - 1, [&] { b.binary(ir::BinaryOp::kMul, v, v, w); });
        b.if_ge_zero(
            k - 6,
            [&] {
              b.store({y, {i, 60 - clipped, 0}}, v);
            },
            [&] {
              b.binary(ir::BinaryOp::kAdd, v, v, w);
              b.store({y, {i, clipped + 1, 0}}, v);
              b.store({y, {15 - i, clipped, 0}}, v);
            });
      });
      b.store({y, {i + 1, j, 0}}, w);
    });
  });
  b.unroll("u", 0, 4, 1, [&](Affine u) {
    const Affine e = b.let_min("e", {2 * u, 3});
    b.if_ge_zero(
        e - 2,
        [&] {
          b.load(v, {x, {e * lanes}});
        },
        [&] {
          b.load(v, {x, {(e + 9) * lanes}});
        });
    b.serial("s", e, 3, 1, [&](Affine s) { b.store({y, {0, s + 4 * u, 0}}, v); });
    const Affine g = b.let_min("g", {top, 10 * u + 7});
    b.store({y, {1, g, 0}}, v);
  });
  return {"nests", b.finish(), {{0}, {1}, {9}, {33}, {200}}};
}

// Packs into the workspace and reads it back; two workspace buffers share one base.
KernelCase packing(int lanes) {
  Builder b("packing");
  const auto x = b.buffer(dense("x", Scope::kIn, {8 * lanes, 6}));
  const auto y = b.buffer(dense("y", Scope::kOut, {8, 6, lanes}));
  const auto p = b.buffer(dense("p", Scope::kWorkspace, {8, 6, lanes}));
  const auto q = b.buffer(dense("q", Scope::kWorkspace, {8, lanes}));
  const auto s = b.at(b.reg("s", {.lanes = 1}));
  const auto v = b.at(b.reg("v", {.lanes = lanes})), w = b.at(b.reg("w", {.lanes = lanes}));
  b.serial("g", 0, 8, 1, [&](Affine g) {
    b.serial("r", 0, lanes, 1, [&](Affine r) {
      b.unroll("c", 0, 6, 1, [&](Affine c) {
        b.load(s, {x, {g * lanes + r, c}});
        b.store({p, {g, c, r}}, s);
      });
      b.store({q, {g, r}}, s);
    });
  });
  b.serial("g2", 0, 8, 1, [&](Affine g) {
    b.load(w, {q, {g, 0}});
    b.serial("c2", 0, 6, 1, [&](Affine c) {
      b.load(v, {p, {g, c, 0}});
      b.binary(ir::BinaryOp::kSub, v, v, w);
      b.store({y, {g, c, 0}}, v);
    });
  });
  return {"packing", b.finish(), {{}}};
}

// More values than registers of either kind: 48 live vectors, 20 buffers that all move in one loop.
KernelCase pressure(int lanes) {
  Builder b("pressure");
  const ir::RegType f{.lanes = lanes};
  const auto x = b.buffer(dense("x", Scope::kIn, {48, lanes}));
  std::vector<ir::BufferId> rows;
  for (int i = 0; i < 20; ++i)
    rows.push_back(b.buffer(dense("row" + std::to_string(i), Scope::kInOut, {9 + i, lanes})));
  const auto many = b.reg("many", f, {48});
  const auto v = b.at(b.reg("v", f));
  b.unroll("i", 0, 48, 1, [&](Affine i) { b.load(b.at(many, {i}), {x, {i, 0}}); });
  b.serial("t", 0, 9, 1, [&](Affine t) {
    for (int i = 0; i < 20; ++i) {
      b.load(v, {rows[static_cast<size_t>(i)], {t, 0}});
      b.fma(v, v, b.at(many, {i}), b.at(many, {47 - i}));
      b.store({rows[static_cast<size_t>(i)], {t, 0}}, v);
    }
    b.unroll("u", 0, 47, 1,
             [&](Affine u) { b.binary(ir::BinaryOp::kMax, b.at(many, {u}), b.at(many, {u}), b.at(many, {u + 1})); });
  });
  b.unroll("i", 0, 9, 1, [&](Affine i) { b.store({rows[0], {i, 0}}, b.at(many, {i * 5})); });
  return {"pressure", b.finish(), {{}}};
}

// Prefetches name addresses before, behind and far outside their buffer.
KernelCase prefetches(int lanes) {
  Builder b("prefetches");
  const auto x = b.buffer(dense("x", Scope::kIn, {4 * lanes}));
  const auto y = b.buffer(dense("y", Scope::kOut, {4 * lanes}));
  const auto v = b.at(b.reg("v", {.lanes = lanes}));
  b.serial("i", 0, 4 * lanes, lanes, [&](Affine i) {
    b.prefetch({x, {i - 100000}}, 0);
    b.prefetch({x, {i + 100000}}, 1);
    b.prefetch({y, {i + (int64_t{1} << 40)}}, 2);
    b.prefetch({y, {i * -3 - (int64_t{1} << 33)}}, 0);
    b.load(v, {x, {i}});
    b.store({y, {i}}, v);
  });
  return {"prefetches", b.finish(), {{}}};
}

}  // namespace

ir::Kernel tile_kernel(const TileShape& t) {
  Builder b("tile_" + std::to_string(t.mr) + "x" + std::to_string(t.nr));
  const int vectors = t.nr / t.lanes;
  const DType factor = t.pairs ? DType::kS32 : DType::kF32;
  const auto a = b.buffer(
      dense("a", Scope::kIn, t.packed_a ? std::vector<int64_t>{t.k, t.mr} : std::vector<int64_t>{t.mr, t.k}, factor));
  const auto w = b.buffer(dense("b", Scope::kIn, {t.k, t.nr}, factor));
  const auto out = b.buffer(dense("o", Scope::kOut, {t.mr, t.nr}));
  const ir::RegType f{.lanes = t.lanes}, of_factor{.dtype = factor, .lanes = t.lanes};
  const auto acc = b.reg("acc", f, {t.mr, vectors});
  const auto bv = b.reg("bv", of_factor, {t.one_b ? 1 : vectors});
  const auto av = b.reg("av", of_factor, {t.one_b ? t.mr : 1});
  auto over = [&](const Affine& rows, const std::function<void(Affine, Affine)>& body) {
    b.unroll("i", 0, rows, 1, [&](Affine i) { b.unroll("j", 0, vectors, 1, [&](Affine j) { body(i, j); }); });
  };
  auto load_b = [&](const Affine& j, const Affine& k) { b.load(b.at(bv, {t.one_b ? 0 : j}), {w, {k, j * t.lanes}}); };
  auto load_a = [&](const Affine& i, const Affine& k) {
    b.broadcast(b.at(av, {t.one_b ? i : 0}), t.packed_a ? ir::Access{a, {k, i}} : ir::Access{a, {i, k}});
  };
  auto multiply = [&](const Affine& i, const Affine& j) {
    const ir::RegRef sum = b.at(acc, {i, j}), left = b.at(av, {t.one_b ? i : 0}), right = b.at(bv, {t.one_b ? 0 : j});
    t.pairs ? b.dot_pairs(sum, left, right, sum) : b.fma(sum, left, right, sum);
  };
  auto step = [&](const Affine& rows, const Affine& k) {
    b.unroll(t.one_b ? "i" : "j", 0, t.one_b ? rows : vectors, 1,
             [&](Affine x) { t.one_b ? load_a(x, k) : load_b(x, k); });
    b.unroll(t.one_b ? "j" : "i", 0, t.one_b ? vectors : rows, 1, [&](Affine x) {
      t.one_b ? load_b(x, k) : load_a(x, k);
      b.unroll(t.one_b ? "i" : "j", 0, t.one_b ? rows : vectors, 1,
               [&](Affine y) { t.one_b ? multiply(y, x) : multiply(x, y); });
    });
  };
  auto body = [&](const Affine& rows) {
    over(rows, [&](Affine i, Affine j) { b.constant(b.at(acc, {i, j}), 0.0f); });
    b.serial("k", 0, t.k, t.unroll,
             [&](Affine k) { b.unroll("u", 0, t.unroll, 1, [&](Affine u) { step(rows, k + u); }); });
    over(rows, [&](Affine i, Affine j) { b.store({out, {i, j * t.lanes}}, b.at(acc, {i, j})); });
  };
  if (!t.versions) {
    body(t.mr);
  } else {
    const auto rows = b.param("rows");
    const Affine most = b.let_min("most", {Affine::var(rows), t.mr});
    const Affine some = b.let_max("some", {most, 1});
    b.specialise("r", 1, t.mr, some, body);
  }
  return b.finish();
}

ir::Kernel widening_kernel(DType dtype, int64_t count, int lanes) {
  Builder b("widening");
  const auto x =
      b.buffer({.name = "x", .dtype = dtype, .scope = Scope::kIn, .extents = {count}, .strides = {1}, .align = 2});
  const auto y = b.buffer(dense("y", Scope::kInOut, {3, count + lanes}));
  const auto v = b.at(b.reg("v", {.lanes = lanes})), one = b.at(b.reg("one", {.lanes = 1}));
  b.serial("i", 0, count, lanes, [&](Affine i) {
    b.load(v, {x, {i}});
    b.store({y, {0, i}}, v);
  });
  b.serial("j", 0, count, 1, [&](Affine j) {
    b.load(one, {x, {j}});
    b.store({y, {1, j}}, one);
    b.broadcast(v, {x, {j}});
    b.store({y, {2, j}}, v);
  });
  return b.finish();
}

std::vector<KernelCase> sample_kernels(int lanes) {
  std::vector<KernelCase> all = {arithmetic(lanes),    zeros(lanes),        tails(lanes),   masks(lanes),
                                 strided_tasks(lanes), strided_rows(lanes), pages(lanes),   bytes(lanes),
                                 versions(lanes),      nests(lanes),        packing(lanes), pressure(lanes),
                                 prefetches(lanes)};
  if (lanes >= 4) all.push_back(permutes(lanes));
  for (const DType dtype : {DType::kBf16, DType::kF16}) all.push_back(halves(dtype, lanes));
  all.push_back({"tile", tile_kernel({.mr = 3, .nr = 2 * lanes, .k = 21, .lanes = lanes, .unroll = 3}), {{}}});
  all.push_back({"tile_versions",
                 tile_kernel({.mr = 5, .nr = lanes, .k = 16, .lanes = lanes, .packed_a = true, .versions = true}),
                 {{1}, {2}, {4}, {5}}});
  return all;
}

}  // namespace hone::jit
