// Attention's parts alone, on this thread: the default plan of a prefill and of a decode through each code generator,
// and exp of non-positive numbers, which is what softmax adds to the two products. The distance from `prefill` to the
// FMA peak of `hone info` is what softmax, transposing K and caches cost; `decode` is to be held against the read
// bandwidth.
#include "bench/bench_internal.h"
#include "kernels/attention/bind.h"
#include "kernels/attention/blocking.h"
#include "kernels/math/ir_ops.h"

namespace hone::bench {
namespace {

using attention::AttentionProblem;
using attention::AttentionProgram;

constexpr std::string_view kProblems[] = {
    "attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=64:causal", "attention:f32:b=1,hq=32,hkv=8,q=512,kv=512,d=128:causal",
    "attention:f32:b=1,hq=32,hkv=8,q=1,kv=4096,d=64", "attention:f32:b=1,hq=32,hkv=8,q=1,kv=4096,d=128"};

// In [-1, 1), different: equal scores would spare softmax its work with maxima.
AlignedBuffer values(int64_t count) {
  AlignedBuffer buffer = floats(count);
  uint32_t state = 1;
  for (float& x : buffer.as<float>()) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) * 0x1p-23F - 1;
  }
  return buffer;
}

// `copies` caches, used in turn: a decode that found its own in L2 would not be one.
class Call {
 public:
  static Result<Call> create(const AttentionProblem& problem, jit::CodeGenerator& generator, int64_t copies) {
    Call c;
    HONE_ASSIGN_OR_RETURN(const Isa isa, this_machine().best_isa());
    c.program_ = attention::default_program(problem, isa, blocking_caches(this_machine()));
    HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, attention::lower(problem, c.program_));
    for (const ir::Kernel& kernel : kernels) {
      HONE_ASSIGN_OR_RETURN(jit::Executable executable, jit::make_executable(kernel, generator, isa));
      c.kernels_.push_back(std::move(executable));
    }
    const int64_t head = problem.kv * problem.d, rows = problem.heads * problem.q * problem.d;
    c.query_ = values(rows), c.out_ = floats(rows);
    for (int64_t i = 0; i < copies; ++i) {
      c.key_.push_back(values(problem.kv_heads * head));
      c.value_.push_back(values(problem.kv_heads * head));
      attention::Sequence s{.q = problem.q, .kv = problem.kv};
      attention::set_dense_strides(problem, s);
      s.query = c.query_.as<float>().data(), s.out = c.out_.as<float>().data();
      s.key = c.key_.back().as<float>().data(), s.value = c.value_.back().as<float>().data();
      for (int k = 0; k < static_cast<int>(c.kernels_.size()); ++k)
        c.arguments_.push_back(attention::bind(problem, c.program_, s, k, nullptr));
    }
    return c;
  }

  void run() {
    for (const jit::Executable& kernel : kernels_) {
      const attention::Arguments& arguments = arguments_[next_];
      call(kernel, arguments.buffers.data(), arguments.params.data());
      next_ = (next_ + 1) % arguments_.size();
    }
  }
  int64_t code_bytes() const {
    int64_t bytes = 0;
    for (const jit::Executable& kernel : kernels_) bytes += static_cast<int64_t>(kernel.kernel->code().size());
    return bytes;
  }

 private:
  AttentionProgram program_;
  std::vector<jit::Executable> kernels_;
  AlignedBuffer query_, out_;
  std::vector<AlignedBuffer> key_, value_;
  std::vector<attention::Arguments> arguments_;  // copy by copy, kernel by kernel
  size_t next_ = 0;
};

// 256 MB and more of K and V, unless the products dominate.
constexpr double kStreamed = 256e6;

void attention_call(benchmark::State& state, const AttentionProblem& problem, jit::CodeGenerator* generator) {
  const auto copies = problem.q > 1 ? 1 : static_cast<int64_t>(kStreamed / problem.kv_bytes()) + 1;
  Result<Call> made = Call::create(problem, *generator, copies);
  if (value_or_skip(state, made) == nullptr) return;
  for (auto _ : state) made->run();
  constexpr auto kRate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GFLOP/s"] = benchmark::Counter(problem.flops() * 1e-9, kRate);
  state.counters["GB/s"] = benchmark::Counter(problem.kv_bytes() * 1e-9, kRate);
  state.counters["bytes"] = static_cast<double>(made->code_bytes());
}

// ---- exp ----

// Both ends of the copy fit the smallest L1, 32 KiB.
constexpr int64_t kScores = 2048;

// y[i] = exp(x[i]) for x[i] <= 0, as softmax has it.
ir::Kernel exp_kernel(int lanes) {
  ir::Builder b("exp_nonpositive");
  const ir::BufferId x = b.buffer({.name = "x", .scope = ir::Scope::kIn, .extents = {kScores}, .strides = {1}});
  const ir::BufferId y = b.buffer({.name = "y", .scope = ir::Scope::kOut, .extents = {kScores}, .strides = {1}});
  const ir::RegRef v = ir::Builder::at(b.reg("v", {.lanes = lanes}));
  math::IrOps ops(b, lanes);
  ops.declare(math::Activation::kExpNonPositive);
  b.serial("i", 0, kScores, lanes, [&](const ir::Affine& i) {
    b.load(v, {x, {i}});
    ops.apply(math::Activation::kExpNonPositive, v);
    b.store({y, {i}}, v);
  });
  return b.finish();
}

void exp_nonpositive(benchmark::State& state, jit::CodeGenerator* generator) {
  const Result<Isa> isa = this_machine().best_isa();
  if (value_or_skip(state, isa) == nullptr) return;
  const Result<jit::Executable> made = jit::make_executable(exp_kernel(isa_info(*isa).lanes_f32()), *generator, *isa);
  const jit::Executable* executable = value_or_skip(state, made);
  if (executable == nullptr) return;
  const AlignedBuffer x = values(kScores), y = floats(kScores);
  for (float& score : x.as<float>()) score = 10 * (score - 1);  // (-20, 0]
  void* buffers[] = {x.data(), y.data()};
  for (auto _ : state) call(*executable, buffers, nullptr);
  state.counters["elements/ns"] = benchmark::Counter(kScores * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

const bool kRegistered = [] {
  const Result<Isa> isa = this_machine().best_isa();
  if (!isa.ok()) return false;
  for (jit::CodeGenerator* generator : jit::compiling_generators()) {
    if (!generator->targets(*isa)) continue;
    const std::string suffix = "/" + std::string(generator->name());
    for (std::string_view text : kProblems) {
      const AttentionProblem p = *attention::parse_problem(text);
      const std::string name = std::string(p.q > 1 ? "prefill" : "decode") + "/d:" + std::to_string(p.d) +
                               "/kv:" + std::to_string(p.kv) + suffix;
      benchmark::RegisterBenchmark(name.c_str(), attention_call, p, generator)->MinTime(0.2);
    }
    benchmark::RegisterBenchmark(("exp_nonpositive" + suffix).c_str(), exp_nonpositive, generator)->MinTime(0.1);
  }
  return true;
}();

}  // namespace
}  // namespace hone::bench
