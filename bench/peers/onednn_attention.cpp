// Attention of oneDNN 2: it has no fused kernel, so what a framework makes of one: matmul (scaled), softmax, matmul.
//
//   whole     three primitives over all heads, on all threads; all scores are in memory. The query heads of a KV head
//             are rows of one product where Q's strides let them be, so that K and V are read once; else K and V are
//             broadcast. What causal hides is set to -inf between the first two.
//   blocks    each thread takes so many rows of a head (of all heads of a group where q = 1), with primitives for one
//             thread: scores stay in cache, and keys behind a block's last are neither multiplied nor read.
//
// K and V are used where they lie: they grow with every token, so a copy of them would have to be timed.
#include <map>
#include <string_view>
#include <utility>

#include "bench/peers/onednn_internal.h"

namespace hone::peers {
namespace {

using dnnl::memory;

memory nowhere(const memory::desc& desc) { return {desc, cpu(), DNNL_MEMORY_NONE}; }

// The three primitives of one shape.
struct Primitives {
  dnnl::matmul scores, values;
  dnnl::softmax_v2_forward softmax;
  size_t scratch_bytes = 0;
};
// Shapes of one product: query [.., rows, d] and so on; scores are dense.
struct Shapes {
  memory::desc q, k, v, o, scores, rows;
};

// Its reference kernels are for tests: a comparison with what takes minutes is none.
void refuse_reference(std::string_view kernel) {
  if (kernel.find("ref") != std::string_view::npos)
    throw std::runtime_error("oneDNN has only a reference kernel for this");
}

Primitives make_primitives(const Shapes& s, float scale) {
  dnnl::primitive_attr scaled, plain;
  scaled.set_output_scales(0, {scale});
  for (dnnl::primitive_attr* attributes : {&scaled, &plain})
    attributes->set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc scores({s.q, s.k, s.scores}, scaled, cpu());
  const dnnl::softmax_v2_forward::primitive_desc softmax(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, s.rows, s.rows, 1}, plain, cpu());
  const dnnl::matmul::primitive_desc values({s.scores, s.v, s.o}, plain, cpu());
  Primitives made;
  for (const char* kernel : {scores.impl_info_str(), softmax.impl_info_str(), values.impl_info_str()})
    refuse_reference(kernel);
  made.scores = dnnl::matmul(scores), made.softmax = dnnl::softmax_v2_forward(softmax);
  made.values = dnnl::matmul(values);
  made.scratch_bytes = std::max(
      {scores.scratchpad_desc().get_size(), softmax.scratchpad_desc().get_size(), values.scratchpad_desc().get_size()});
  return made;
}

// One set of arguments: with its scores and scratch, for one call at a time.
class Call {
 public:
  Call(const Primitives& primitives, const Shapes& shapes, float* scores, float* scratch)
      : primitives_(primitives),
        q_(nowhere(shapes.q)),
        k_(nowhere(shapes.k)),
        v_(nowhere(shapes.v)),
        o_(nowhere(shapes.o)) {
    const memory dense(shapes.scores, cpu(), scores), rows(shapes.rows, cpu(), scores);
    const memory::desc bytes({static_cast<int64_t>(primitives.scratch_bytes)}, memory::data_type::u8,
                             memory::format_tag::a);
    const memory pad(bytes, cpu(), scratch);
    scores_ = {{DNNL_ARG_SRC, q_}, {DNNL_ARG_WEIGHTS, k_}, {DNNL_ARG_DST, dense}, {DNNL_ARG_SCRATCHPAD, pad}};
    softmax_ = {{DNNL_ARG_SRC, rows}, {DNNL_ARG_DST, rows}, {DNNL_ARG_SCRATCHPAD, pad}};
    values_ = {{DNNL_ARG_SRC, dense}, {DNNL_ARG_WEIGHTS, v_}, {DNNL_ARG_DST, o_}, {DNNL_ARG_SCRATCHPAD, pad}};
  }

  // `hide` runs between the scores and their softmax.
  template <typename Hide>
  void run(const float* q, const float* k, const float* v, float* o, dnnl::stream& stream, const Hide& hide) {
    q_.set_data_handle(const_cast<float*>(q));
    k_.set_data_handle(const_cast<float*>(k));
    v_.set_data_handle(const_cast<float*>(v));
    o_.set_data_handle(o);
    primitives_.scores.execute(stream, scores_);
    hide();
    primitives_.softmax.execute(stream, softmax_);
    primitives_.values.execute(stream, values_);
    stream.wait();
  }

 private:
  Primitives primitives_;
  memory q_, k_, v_, o_;
  Arguments scores_, softmax_, values_;
};

Floats bytes_of(size_t bytes) { return zeros(static_cast<int64_t>(bytes / sizeof(float) + 1)); }

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// ---- whole ----

// Are the rows of the heads of a group evenly apart? One row each is: a head is a row then.
bool folds(const HonePeerAttention& p, const HonePeerStrides& s) { return p.q == 1 || s.head == p.q * s.row; }
int64_t folded_row(const HonePeerAttention& p, const HonePeerStrides& s) { return p.q == 1 ? s.head : s.row; }

Shapes whole_shapes(const HonePeerAttention& p) {
  const int64_t group = p.heads / p.kv_heads;
  auto desc = [](const memory::dims& dims, const memory::dims& strides) { return memory::desc(dims, kF32, strides); };
  const HonePeerStrides &q = p.q_stride, &k = p.k_stride, &v = p.v_stride, &o = p.o_stride;
  const memory::desc rows({p.batch * p.heads * p.q, p.kv}, kF32, memory::dims{p.kv, 1});
  if (group == 1 || (folds(p, q) && folds(p, o))) {
    const int64_t m = group * p.q;
    const int64_t q_row = group == 1 ? q.row : folded_row(p, q), o_row = group == 1 ? o.row : folded_row(p, o);
    return {desc({p.batch, p.kv_heads, m, p.d}, {q.batch, group * q.head, q_row, 1}),
            desc({p.batch, p.kv_heads, p.d, p.kv}, {k.batch, k.head, 1, k.row}),
            desc({p.batch, p.kv_heads, p.kv, p.dv}, {v.batch, v.head, v.row, 1}),
            desc({p.batch, p.kv_heads, m, p.dv}, {o.batch, group * o.head, o_row, 1}),
            desc({p.batch, p.kv_heads, m, p.kv}, {p.heads * p.q * p.kv, m * p.kv, p.kv, 1}),
            rows};
  }
  return {
      desc({p.batch, p.kv_heads, group, p.q, p.d}, {q.batch, group * q.head, q.head, q.row, 1}),
      desc({p.batch, p.kv_heads, 1, p.d, p.kv}, {k.batch, k.head, k.head, 1, k.row}),
      desc({p.batch, p.kv_heads, 1, p.kv, p.dv}, {v.batch, v.head, v.head, v.row, 1}),
      desc({p.batch, p.kv_heads, group, p.q, p.dv}, {o.batch, group * o.head, o.head, o.row, 1}),
      desc({p.batch, p.kv_heads, group, p.q, p.kv}, {p.heads * p.q * p.kv, group * p.q * p.kv, p.q * p.kv, p.kv, 1}),
      rows};
}

class Whole final : public AttentionWay {
 public:
  explicit Whole(const HonePeerAttention& p) : p_(p), stream_(cpu()) {
    omp_set_num_threads(p.threads);  // what a primitive is made for, too
    const Shapes shapes = whole_shapes(p);
    const Primitives primitives = make_primitives(shapes, p.scale);
    scores_ = zeros(p.batch * p.heads * p.q * p.kv);
    scratch_ = bytes_of(primitives.scratch_bytes);
    call_ = std::make_unique<Call>(primitives, shapes, scores_.get(), scratch_.get());
  }

  int run(const float* q, const float* k, const float* v, float* o) override {
    omp_set_num_threads(p_.threads);
    call_->run(q, k, v, o, stream_, [&] { hide(); });
    return 0;
  }

 private:
  void hide() {
    if (p_.causal == 0 || p_.q == 1) return;
    const int64_t rows = p_.batch * p_.heads * p_.q;
#pragma omp parallel for num_threads(p_.threads)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t visible = r % p_.q + p_.kv - p_.q + 1;
      std::fill_n(scores_.get() + r * p_.kv + visible, p_.kv - visible, kHidden);
    }
  }

  HonePeerAttention p_;
  dnnl::stream stream_;
  Floats scores_, scratch_;
  std::unique_ptr<Call> call_;
};

// ---- blocks ----

class Blocks final : public AttentionWay {
 public:
  Blocks(const HonePeerAttention& p, int64_t rows) : p_(p), rows_(std::min(p.q, rows)) {
    omp_set_num_threads(1);  // each primitive runs on the thread that calls it
    for (int64_t block = 0; block < blocks(); ++block) {
      const Size size = size_of(block);
      if (!primitives_.contains(size)) primitives_[size] = make_primitives(shapes(size), p.scale);
    }
    size_t scratch = 0;
    for (const auto& [size, primitives] : primitives_) scratch = std::max(scratch, primitives.scratch_bytes);
    for (int t = 0; t < p.threads; ++t) {
      auto thread = std::make_unique<Thread>();
      thread->scores = zeros(rows_ * heads_at_once() * p.kv);
      thread->scratch = bytes_of(scratch);
      for (const auto& [size, primitives] : primitives_)
        thread->calls.try_emplace(size, primitives, shapes(size), thread->scores.get(), thread->scratch.get());
      threads_.push_back(std::move(thread));
    }
  }

  int run(const float* q, const float* k, const float* v, float* o) override {
    omp_set_num_threads(1);
    const int64_t units = p_.batch * (p_.heads / heads_at_once()) * blocks();
    // The last blocks of a causal problem are the largest: from them on, whoever is free takes the next.
#pragma omp parallel for schedule(dynamic) num_threads(p_.threads)
    for (int64_t u = 0; u < units; ++u) run_unit(units - 1 - u, q, k, v, o);
    return 0;
  }

 private:
  struct Size {
    int64_t rows, keys;
    auto operator<=>(const Size&) const = default;
  };
  struct Thread {
    dnnl::stream stream{cpu()};
    Floats scores, scratch;
    std::map<Size, Call> calls;
  };

  int64_t heads_at_once() const { return p_.q == 1 ? p_.heads / p_.kv_heads : 1; }
  int64_t blocks() const { return (p_.q + rows_ - 1) / rows_; }
  Size size_of(int64_t block) const {
    const int64_t end = std::min(p_.q, (block + 1) * rows_);
    return {(end - block * rows_) * heads_at_once(), p_.causal != 0 ? p_.kv - p_.q + end : p_.kv};
  }

  Shapes shapes(const Size& size) const {
    auto desc = [](const memory::dims& dims, const memory::dims& strides) { return memory::desc(dims, kF32, strides); };
    const int64_t q_row = p_.q == 1 ? p_.q_stride.head : p_.q_stride.row;
    const int64_t o_row = p_.q == 1 ? p_.o_stride.head : p_.o_stride.row;
    const memory::desc scores = desc({size.rows, size.keys}, {size.keys, 1});
    return {desc({size.rows, p_.d}, {q_row, 1}),
            desc({p_.d, size.keys}, {1, p_.k_stride.row}),
            desc({size.keys, p_.dv}, {p_.v_stride.row, 1}),
            desc({size.rows, p_.dv}, {o_row, 1}),
            scores,
            scores};
  }

  // Units go by heads, then blocks of rows within.
  void run_unit(int64_t unit, const float* q, const float* k, const float* v, float* o) {
    Thread& thread = *threads_[static_cast<size_t>(omp_get_thread_num())];
    const int64_t per_item = p_.heads / heads_at_once();
    const int64_t block = unit / (p_.batch * per_item), item = unit % p_.batch;
    const int64_t h = unit / p_.batch % per_item * heads_at_once(), g = h / (p_.heads / p_.kv_heads);
    const Size size = size_of(block);
    auto at = [&](const HonePeerStrides& s, int64_t head, int64_t row) {
      return item * s.batch + head * s.head + row * s.row;
    };
    const int64_t row = block * rows_;
    thread.calls.at(size).run(q + at(p_.q_stride, h, row), k + at(p_.k_stride, g, 0), v + at(p_.v_stride, g, 0),
                              o + at(p_.o_stride, h, row), thread.stream, [&] {
                                if (p_.causal == 0 || p_.q == 1) return;
                                for (int64_t r = 0; r < size.rows; ++r) {
                                  const int64_t visible = size.keys - size.rows + r + 1;
                                  std::fill_n(thread.scores.get() + r * size.keys + visible, size.keys - visible,
                                              kHidden);
                                }
                              });
  }

  HonePeerAttention p_;
  int64_t rows_;
  std::map<Size, Primitives> primitives_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace

std::vector<Named<AttentionWay>> attention_ways(const HonePeerAttention& p) {
  auto blocks = [&p](const char* name, int64_t rows) -> Named<AttentionWay> {
    return {name, [=] { return std::make_unique<Blocks>(p, rows); }};
  };
  std::vector<Named<AttentionWay>> ways;
  if (p.q == 1) {
    ways.push_back(blocks("matmul, softmax, matmul of a KV head on each thread", 1));
  } else {
    ways.push_back(blocks("matmul, softmax, matmul of 64 rows on each thread", 64));
    ways.push_back(blocks("matmul, softmax, matmul of 256 rows on each thread", 256));
  }
  ways.push_back({"matmul, softmax, matmul over all heads", [p] { return std::make_unique<Whole>(p); }});
  return ways;
}

}  // namespace hone::peers
