#include "tests/kernels/ir/sample_kernels.h"

#include <cstring>
#include <memory>

#include "kernels/ir/builder.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"

namespace hone::ir {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kVectors = SampleMatmul::kNr / kLanes;

class SampleBuilder {
 public:
  explicit SampleBuilder(const SampleMatmul& shape) : s_(shape), b_("sample") {}

  Kernel run() {
    declare();
    if (s_.batch) {
      b_.parallel("bb", 0, 3, 1, [&](Affine bb) {
        batch_ = bb;
        tasks();
      });
    } else {
      tasks();
    }
    return b_.finish();
  }

 private:
  void declare() {
    m_ = Affine::var(b_.param("m"));
    auto argument = [&](const char* name, Scope scope, const char* stride, int64_t cols) {
      Buffer buffer{.name = name, .scope = scope, .extents = {m_, cols}, .strides = {cols + 3, 1}};
      if (s_.batch) {
        buffer.extents.insert(buffer.extents.begin(), 3);
        buffer.strides.insert(buffer.strides.begin(), Affine::var(b_.param(stride)));
      }
      return b_.buffer(buffer);
    };
    a_ = argument("A", Scope::kIn, "sa", s_.k);
    bp_ = b_.buffer({.name = "B",
                     .scope = Scope::kIn,
                     .extents = {s_.panels(), s_.k, s_.kNr},
                     .strides = {s_.k * s_.kNr, s_.kNr, 1}});
    c_ = argument("C", Scope::kOut, "sc", s_.n);
    const int64_t depth = (s_.kc + kLanes - 1) / kLanes * kLanes;
    ap_ = b_.buffer(
        {.name = "Ap", .scope = Scope::kWorkspace, .extents = {s_.mc, depth}, .strides = {depth, 1}, .align = 64});
    acc_ = b_.reg("acc", {.lanes = kLanes}, {s_.mr, kVectors});
    bv_ = b_.reg("b", {.lanes = kLanes}, {kVectors});
    av_ = b_.reg("a", {.lanes = kLanes});
    tail_ = b_.reg("tail", {.lanes = kLanes, .mask = true});
  }

  Access at(BufferId buffer, Affine row, Affine col) const {
    if (s_.batch) return {buffer, {batch_, std::move(row), std::move(col)}};
    return {buffer, {std::move(row), std::move(col)}};
  }

  void tasks() {
    b_.parallel("i", 0, m_, s_.mc, [&](Affine i) {
      b_.parallel("j", 0, s_.panels(), s_.ncp, [&](Affine j) {
        i_ = i;
        const Affine mc = b_.let_min("mc", {s_.mc, m_ - i});
        const Affine np = b_.let_min("np", {s_.ncp, Affine(s_.panels()) - j});
        b_.serial("p", 0, s_.k, s_.kc, [&](Affine p) {
          p_ = p;
          const Affine kc = b_.let_min("kc", {s_.kc, Affine(s_.k) - p});
          const Affine q = b_.let_floor_div("q", kc, s_.ku);
          pack(mc, kc);
          b_.serial("jj", 0, np, 1, [&](Affine jj) {
            panel_ = j + jj;
            b_.serial("ii", 0, mc, s_.mr, [&](Affine ii) { tile(ii, mc, kc, q); });
          });
        });
      });
    });
  }

  void pack(Affine mc, Affine kc) {
    const Affine ka = b_.let_floor_div("ka", kc, kLanes);
    b_.serial("r", 0, mc, 1, [&](Affine r) {
      b_.serial("k", 0, ka * kLanes, kLanes, [&](Affine k) {
        b_.load(Builder::at(av_), at(a_, i_ + r, p_ + k));
        b_.store({ap_, {r, k}}, Builder::at(av_));
      });
      b_.if_ge_zero(kc - ka * kLanes - 1, [&] {
        b_.lane_mask(Builder::at(tail_), kc - ka * kLanes);
        b_.load(Builder::at(av_), at(a_, i_ + r, p_ + ka * kLanes), Builder::at(tail_));
        b_.store({ap_, {r, ka * kLanes}}, Builder::at(av_));
      });
    });
  }

  void tile(Affine ii, Affine mc, Affine kc, Affine q) {
    ii_ = ii;
    const Affine left = b_.let_min("left", {s_.mr, mc - ii});
    b_.specialise("rows", 1, s_.mr, left, [&](Affine rows) {
      b_.if_eq_zero(
          p_, [&] { each(rows, [&](Affine r, Affine v) { b_.constant(acc(r, v), 0); }); },
          [&] { masked(rows, [&](Affine r, Affine v) { b_.load(acc(r, v), c_at(r, v), Builder::at(tail_)); }); });
      b_.serial("k", 0, q * s_.ku, s_.ku,
                [&](Affine k) { b_.unroll("u", 0, s_.ku, 1, [&](Affine u) { k_step(rows, k + u); }); });
      b_.serial("k", q * s_.ku, kc, 1, [&](Affine k) { k_step(rows, k); });
      auto store_masked = [&] {
        masked(rows, [&](Affine r, Affine v) { b_.store(c_at(r, v), acc(r, v), Builder::at(tail_)); });
      };
      if (!s_.split_tail) return store_masked();
      b_.if_ge_zero(
          Affine(s_.n - s_.kNr) - panel_ * s_.kNr,
          [&] { each(rows, [&](Affine r, Affine v) { b_.store(c_at(r, v), acc(r, v)); }); }, store_masked);
    });
  }

  void k_step(Affine rows, Affine k) {
    b_.unroll("v", 0, kVectors, 1, [&](Affine v) {
      b_.load(Builder::at(bv_, {v}), {bp_, {panel_, p_ + k, v * kLanes}});
      b_.prefetch({bp_, {panel_, p_ + k + 8, v * kLanes}}, 0);
    });
    b_.unroll("r", 0, rows, 1, [&](Affine r) {
      b_.broadcast(Builder::at(av_), {ap_, {ii_ + r, k}});
      b_.unroll("v", 0, kVectors, 1,
                [&](Affine v) { b_.fma(acc(r, v), Builder::at(av_), Builder::at(bv_, {v}), acc(r, v)); });
    });
  }

  RegRef acc(Affine r, Affine v) const { return Builder::at(acc_, {std::move(r), std::move(v)}); }
  Access c_at(Affine r, Affine v) const { return at(c_, i_ + ii_ + r, panel_ * s_.kNr + v * kLanes); }

  void each(Affine rows, const std::function<void(Affine, Affine)>& body) {
    b_.unroll("r", 0, rows, 1, [&](Affine r) { b_.unroll("v", 0, kVectors, 1, [&](Affine v) { body(r, v); }); });
  }
  void masked(Affine rows, const std::function<void(Affine, Affine)>& body) {
    b_.unroll("v", 0, kVectors, 1, [&](Affine v) {
      b_.lane_mask(Builder::at(tail_), Affine(s_.n) - panel_ * s_.kNr - v * kLanes);
      b_.unroll("r", 0, rows, 1, [&](Affine r) { body(r, v); });
    });
  }

  SampleMatmul s_;
  Builder b_;
  Affine m_, batch_, i_, p_, panel_, ii_;
  BufferId a_ = -1, bp_ = -1, c_ = -1, ap_ = -1;
  RegId acc_ = -1, bv_ = -1, av_ = -1, tail_ = -1;
};

}  // namespace

Kernel sample_matmul(const SampleMatmul& shape) { return SampleBuilder(shape).run(); }

const char* const kAxpyText = R"(kernel axpy {
  param n
  in x: f32[n] stride [1] align 4
  inout y: f32[n] stride [1] align 4
  reg a: f32x16
  reg b: f32x16
  reg c: f32x16
  reg m: mask16
  parallel i in 0..n step 64 {
    c = const 0x40000000  # 2
    let e = min(64, n - i)
    let q = (e) / 16
    for j in 0..16*q step 16 {
      a = load x[i + j]
      b = load y[i + j]
      b = fma(c, a, b)
      store y[i + j] = b
    }
    m = lanes(e - 16*q)
    a = load x[i + 16*q] if m
    b = load y[i + 16*q] if m
    b = fma(c, a, b)
    store y[i + 16*q] = b if m
  }
}
)";

const char* const kGatherText = R"(kernel gather {
  param n
  param rows
  param stride
  in T: s32[n] stride [1] align 4
  in x: f32[rows, 8] stride [stride, 1] align 4
  out y: f32[n, 8] stride [8, 1] align 4
  reg a: f32x8
  parallel i in 0..n step 1 {
    let v = load T[i] below rows
    a = load x[v, 0]
    store y[i, 0] = a
  }
}
)";

const char* const kBytesText = R"(kernel bytes {
  param n
  param ld
  in x: u8[n, 11] stride [ld, 1] align 1
  out y: s32[8] stride [1] align 4
  reg sum: s32x8
  reg a: s32x8
  sum = const 0x00000000  # 0
  for i in 0..n step 1 {
    a = load x[i, 3]
    sum = add(sum, a)
  }
  store y[0] = sum
}
)";

std::string edited(std::string text, std::string_view from, std::string_view to, bool all) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no `" << from << "` in\n" << text;
  while (at != std::string::npos) {
    text.replace(at, from.size(), to);
    at = all ? text.find(from, at + to.size()) : std::string::npos;
  }
  return text;
}

Kernel parsed(const std::string& text) {
  Result<Kernel> kernel = parse(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string() << "\n" << text;
  return kernel.ok() ? *kernel : Kernel{};
}

void run_all_tasks(const Kernel& kernel, const std::vector<void*>& buffers, const std::vector<int64_t>& params) {
  const Interpreter interpreter(kernel);
  const TaskSpace space = task_space(kernel, params);
  std::vector<int64_t> tasks(static_cast<size_t>(space.rank) + 1);
  const auto bytes = static_cast<size_t>(workspace_size(kernel));
  std::vector<std::byte> storage(bytes + kWorkspaceAlign);
  void* workspace = storage.data();
  size_t room = storage.size();
  std::align(kWorkspaceAlign, bytes, workspace, room);
  for (int64_t t = 0; t < space.count; ++t) {
    if (bytes > 0) std::memset(workspace, 0xff, bytes);
    space.values(t, tasks.data());
    interpreter.run(buffers.data(), params.data(), tasks.data(), workspace);
  }
}

}  // namespace hone::ir
