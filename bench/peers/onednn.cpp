// oneDNN. Three ways, the fastest is kept: matmul with weights in whatever layout oneDNN wants (reordered once, when B
// is constant), matmul with the weights as they are, and inner product (the primitive that its own examples use for
// fully connected layers) with weights in its layout.
#include <string>

#include "bench/peers/onednn_internal.h"

namespace hone::peers {
namespace {

using dnnl::memory;

memory::desc rows(int64_t count, int64_t length, int64_t stride) {
  return {{count, length}, kF32, memory::dims{stride, 1}};
}
memory::desc any(int64_t count, int64_t length) { return {{count, length}, kF32, memory::format_tag::any}; }

enum class Kind { kMatmulPacked, kMatmulPlain, kInnerProduct };

// B as [k, n] (matmul) or [n, k] (inner product), where it lies.
memory::desc plain_weights(const HonePeerProblem& p, Kind kind) {
  const bool swap = (kind == Kind::kInnerProduct) != (p.b_transposed != 0);
  const memory::dims strides = swap ? memory::dims{1, p.ldb} : memory::dims{p.ldb, 1};
  const memory::dims dims = kind == Kind::kInnerProduct ? memory::dims{p.n, p.k} : memory::dims{p.k, p.n};
  return {dims, kF32, strides};
}

class OneDnn final : public Way {
 public:
  OneDnn(const HonePeerProblem& p, const float* b, Kind kind) : p_(p), stream_(cpu()) {
    omp_set_num_threads(p.threads);  // what a primitive is made for, too
    const memory::desc source = rows(p.m, p.k, p.lda), result = rows(p.m, p.n, p.ldc), plain = plain_weights(p, kind);
    memory::desc weights = plain;
    if (kind == Kind::kInnerProduct) {
      const dnnl::inner_product_forward::primitive_desc pd(
          {dnnl::prop_kind::forward_inference, source, any(p.n, p.k), result}, cpu());
      weights = pd.weights_desc();
      primitive_ = dnnl::inner_product_forward(pd);
    } else {
      const dnnl::matmul::primitive_desc pd({source, kind == Kind::kMatmulPacked ? any(p.k, p.n) : plain, result},
                                            cpu());
      weights = pd.weights_desc();
      primitive_ = dnnl::matmul(pd);
    }
    memory b_memory(weights, cpu(), DNNL_MEMORY_NONE);
    if (weights != plain) {
      packed_bytes_ = weights.get_size();
      owned_ = zeros(static_cast<int64_t>((packed_bytes_ + sizeof(float) - 1) / sizeof(float)));
      packed_ = memory(weights, cpu(), owned_.get());
      memory from(plain, cpu(), const_cast<float*>(b));
      dnnl::reorder(from, packed_).execute(stream_, from, packed_);
      stream_.wait();
      b_memory = packed_;
    }
    arguments_ = {{DNNL_ARG_SRC, memory(source, cpu(), DNNL_MEMORY_NONE)},
                  {DNNL_ARG_WEIGHTS, b_memory},
                  {DNNL_ARG_DST, memory(result, cpu(), DNNL_MEMORY_NONE)}};
  }

  int run(const float* a, const float* b, float* c) override {
    omp_set_num_threads(p_.threads);
    arguments_.at(DNNL_ARG_SRC).set_data_handle(const_cast<float*>(a));
    if (packed_bytes_ == 0) arguments_.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<float*>(b));
    arguments_.at(DNNL_ARG_DST).set_data_handle(c);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
    return 0;
  }

  const void* packed(size_t* bytes) override {
    *bytes = packed_bytes_;
    return packed_bytes_ == 0 ? nullptr : packed_.get_data_handle();
  }

 private:
  HonePeerProblem p_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Floats owned_;  // what packed_ lies in
  memory packed_;
  size_t packed_bytes_ = 0;
  Arguments arguments_;
};

std::vector<NamedWay> ways(const HonePeerProblem& p, const float* b) {
  auto way = [p, b](const char* name, Kind kind) -> NamedWay {
    return {name, [=] { return std::make_unique<OneDnn>(p, b, kind); }};
  };
  const NamedWay plain = way("matmul, B as it is", Kind::kMatmulPlain);
  if (!p.b_constant) return {plain};
  return {way("matmul, B reordered beforehand", Kind::kMatmulPacked), plain,
          way("inner product, B reordered beforehand", Kind::kInnerProduct)};
}

const char* isa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "another ISA";
  }
}

const char* describe() {
  static const std::string text = [] {
    const dnnl_version_t& v = *dnnl_version();
    return "oneDNN " + std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch) + ", " +
           isa() + ", OpenMP";
  }();
  return text.c_str();
}

}  // namespace
}  // namespace hone::peers

HONE_PEER_EXPORT const HonePeer* hone_peer(void) {
  static const HonePeer peer = [] {
    using namespace hone::peers;
    HonePeer made = make_peer<ways>("onednn", describe);
    made.prepare_attention = prepare_attention<attention_ways, ways>;
    made.run_attention = run_attention;
    return made;
  }();
  return &peer;
}
