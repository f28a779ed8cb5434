// hone for C++: create an Engine, prepare a matmul once, call it for any number of rows, from any number of threads.
//
//   auto engine = hone::Engine::create();
//   hone::MatmulSpec spec{.n = 4096, .k = 4096, .b = hone::Layout::kNt, .epilogue = {hone::Epilogue::kBias}};
//   auto matmul = engine->prepare(spec, weights);           // packs the weights, resolves and compiles the plan
//   hone::Status s = matmul->run({.m = 1, .a = x, .c = y, .bias = bias});
//
// What is computed, for i in [0, m), j in [0, n), and each batch item:
//
//   T[i, j] = sum over p = 0 .. k-1, ascending, of A[i, p] * B[p, j]     one chain of fused multiply-adds from +0
//   C[i, j] = epilogue(alpha * T[i, j] + beta * C[i, j])
//
// The bits of the result depend on nothing else: not on the plan, the tuning, the code generator, the instruction set
// or the number of threads.
//
// Reading and writing
//   - All sizes and strides count elements (f32, but for weights of 16 bits), are 64-bit, and may be of any size, 0
//   included.
//   - Exactly the m x n elements of C are written; no operand is read outside its elements; padding between rows is
//     neither read nor written. No alignment is needed beyond that of float.
//   - beta == 0: C is never read (it may hold NaN). Otherwise beta is a factor of the old C.
//   - alpha == 0: neither A nor B is read (they may be null), T is +0. alpha == 1 is no operation.
//   - k == 0: T is +0, A and B are not read; C = epilogue(beta * C).
//   - m == 0 or n == 0: nothing is read or written.
//   - A NaN or infinity in row i of A reaches row i of C only; in column j of B, column j only. relu(NaN) is NaN.
//   - C must not overlap anything that is read (A, B, bias, gate, residual, row_scale), nor the C of another call at
//   the same time:
//     overlap within a call is refused with the name of the operand. The operands that are read may overlap each other.
//   - The caller's floating-point control (MXCSR: rounding, flush-to-zero) is obeyed, on every thread, and not changed.
//
// Errors are values: hone::Status (hone/status.h) carries a code and one line that names what is wrong. No exception
// leaves the library. It prints nothing to stdout; events go to the log sink when HONE_LOG asks for them, and
// HONE_TRACE=file writes every parallel region there, as JSON that ui.perfetto.dev opens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hone/status.h"

#define HONE_API [[gnu::visibility("default")]]

namespace hone {

// How B lies in memory: [k, n] row by row, or transposed, [n, k] row by row (as model files store weights).
enum class Layout : uint8_t { kNn, kNt };

// What constant weights are stored in. Those of 16 bits count as the f32 that they widen to, exactly (denormals,
// infinities and NaN too): the bits of the result are those of f32 weights with these values, at half the memory.
enum class WeightType : uint8_t { kF32, kBf16, kF16 };

// Steps after the sum, in the order given; v is the element so far.
enum class Epilogue : uint8_t {
  kBias,      // v + bias[j]
  kGeluTanh,  // 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3)))
  kGeluErf,   // 0.5 v (1 + erf(v / sqrt(2)))
  kSilu,      // v / (1 + exp(-v))
  kRelu,      // max(0, v)
  kGate,      // v * gate[i, j]
  kResidual,  // v + residual[i, j]
  // silu(v) * u, gate and up projection in one matmul. B has the columns of both in turns of 16: [32 g, 32 g + 16) are
  // columns 16 g.. of the gate (v), [32 g + 16, 32 g + 32) the same of the up projection (u). n counts both and is a
  // multiple of 32; C, gate and residual have n / 2 columns, bias has n. Only kRowScale and kBias may come before it,
  // and not after; beta is 0.
  kSwiglu,
  // v * row_scale[i]. First of the epilogue, batch is 1. What remains of a norm of A's rows whose weights are folded
  // into B: of v and, before kSwiglu, of u.
  kRowScale,
};

// What stays the same over all calls of a matmul.
struct MatmulSpec {
  int64_t n = 0;  // columns of B; of C as well, but for kSwiglu
  int64_t k = 0;  // length of the sum
  Layout b = Layout::kNt;
  WeightType weight_type = WeightType::kF32;  // others: constant weights only
  // Distance of rows, in elements; 0: dense. lda >= k, ldb >= a row of B, ldc >= a row of C. gate and residual are laid
  // out as C.
  int64_t lda = 0, ldb = 0, ldc = 0;
  // The same matmul `batch` times, the operands of item i starting i * stride elements on. -1: dense (m * lda for A,
  // the whole of B, m * ldc for C). 0: shared by all items (A and B only). bias is shared always.
  int64_t batch = 1;
  int64_t stride_a = -1, stride_b = -1, stride_c = -1;
  float alpha = 1, beta = 0;
  std::vector<Epilogue> epilogue = {};  // each of kBias, kGate, kResidual, kSwiglu, kRowScale at most once
  // Numbers of rows that calls will have and that matter most: each gets a plan made for it alone. The first also
  // decides how constant weights are packed.
  std::vector<int64_t> expected_m = {1};
  // prepare() makes and compiles the plans of all m from 1 to max_m, one for each bucket of similar m: no call with
  // that many rows compiles or waits for who does. A larger m works too; the first call of its bucket (they double)
  // compiles, which takes from one to some tens of milliseconds. 0: only the plans of expected_m are made beforehand.
  // A bucket without an expected_m for which memory or threads are short fails no prepare(): its first call tries
  // again.
  int64_t max_m = 4096;
  // In which order sums may be formed. "" or "default": "ordered", one fma for each product, k ascending. "bf16", for
  // constant weights of bf16: A is rounded to bf16 as well, and pairs of products are summed by the CPU's AVX512_BF16
  // (vdpbf16ps), at twice the rate of fma; what is denormal counts as 0. prepare() is `unsupported` on a CPU without
  // it. "any": "bf16" where weights and CPU allow it and code can be made, else "ordered". All calls of a prepared
  // matmul have one class, which PlanInfo::numerics names; within it bits do not depend on tuning, threads or m. A call
  // whose code cannot be made then is `unsupported`: the precompiled kernel is "ordered".
  std::string numerics = {};

  // From a problem string, "matmul:f32:m=1,n=4096,k=4096,b=nt:+bias+gelu" (m may be a range or list: `expected_m`; the
  // type is that of the weights).
  // b=packed says nothing about the memory weights come from: it gives kNt. Error: invalid_argument showing where.
  HONE_API static Result<MatmulSpec> parse(std::string_view problem);
};

// The operands of one call: element 0 of each. Those that the spec has no use for stay null.
struct MatmulCall {
  int64_t m = 0;                     // rows, >= 0
  const float* a = nullptr;          // [batch][m][k]
  const float* b = nullptr;          // spec.b; only for a matmul that was prepared without weights
  float* c = nullptr;                // [batch][m][n]
  const float* bias = nullptr;       // [n]
  const float* gate = nullptr;       // like c
  const float* residual = nullptr;   // like c
  const float* row_scale = nullptr;  // [m]
};

// Which plan runs, and why.
struct PlanInfo {
  std::string problem;  // that the plan was made for; its m may be larger than the call's
  std::string program;  // loop-level recipe, as text
  // "asmjit", "llvm", "interp", "package", "precompiled" (no code could be generated), "none" (n = 0)
  std::string codegen;
  int threads = 1;
  std::string schedule;  // what its regions run on: "sequential", "tbb(2)", "dedicated(2)"
  std::string numerics;  // order of accumulation: "ordered", "bf16"
  std::string reason;    // "exact", "near_shape", "near_machine", "package" or "default"
  struct From {
    std::string problem;
    int64_t m = 0;
    std::string machine, engine, codegen;
    double ns = 0;           // as measured when tuned; 0 for a package
    std::string difference;  // what is not as it was measured, or as the package was made for
    std::string package;     // path; "" for a tuned plan
  };
  std::optional<From> from;  // the tuned plan or package behind it; absent for "default"
  struct Rejected {
    std::string program, why;
  };
  std::vector<Rejected> rejected;  // better ranked choices that could not be used
};

// A prepared matmul. Copies share everything, and keep the engine's resources alive.
class HONE_API Matmul {
 public:
  // C = epilogue(alpha * A * B + beta * C), for call.m rows. Thread safe; calls on one Matmul may run at the same time.
  // With a plan in place (m <= max_m, or an earlier call of similar m) it compiles nothing, and on one thread costs
  // less than a microsecond beyond the kernel: no lock, no allocation. A call on several threads takes a mutex of its
  // pool, and oneTBB allocates a task for each helper. Each call that runs needs a workspace for each of its threads;
  // when many run at once there may be too few, and they allocate more, which are kept. Errors, with C untouched:
  // invalid_argument (m < 0, an operand null, overlap, "too large"). resource_exhausted (no memory for a workspace): C
  // is unspecified.
  Status run(const MatmulCall& call) const;

  // The plan for m rows (m >= 1), compiled if it was not yet. Thread safe. Error: as run().
  Result<PlanInfo> plan(int64_t m) const;

  // Bytes of packed weights that this matmul reads (0 when B comes with each call).
  int64_t weight_bytes() const;

  class Impl;
  explicit Matmul(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

 private:
  friend struct EngineAccess;
  std::shared_ptr<Impl> impl_;
};

struct EngineOptions {
  // Database of tuned plans: a file, or "" for $HONE_DB, else $XDG_DATA_HOME/hone/hone.db. It is only read. A missing
  // file is an empty database.
  std::string database = {};
  bool use_database = true;  // false: default plans only
  // Threads at most, including the caller's; 0: $HONE_THREADS, else the CPUs that this process may use. Up to 4096.
  int threads = 0;
  // "" lets the plan choose; "asmjit", "llvm" or "interp" (the slow oracle) allow only that code generator, "package"
  // none: what no package has runs on the precompiled kernel.
  std::string codegen = {};
  // Gets one key=value line per event of the topics in $HONE_LOG; stderr when empty. Sinks are process wide: the engine
  // created last decides. Called under a lock.
  std::function<void(std::string_view)> log = {};
  // Which threads run regions: "auto" (what `hone tune` measured on this machine, else TBB), "sequential" (the caller
  // alone), "tbb", "dedicated" (threads of the engine's own, pinned and spinning for a while); "" asks $HONE_SCHEDULE.
  std::string schedule = {};
};

struct EngineInfo {
  int threads = 1;
  std::string machine;           // compatibility key
  std::string database;          // path, "" when there is none
  std::string database_message;  // what is not as asked ("" when all is well)
  int64_t decisions = 0;         // tuned problems that were found
  std::vector<std::string> codegens;
  std::string schedule;            // of all threads: "sequential", "tbb(2)", "dedicated(2)"
  std::string schedule_requested;  // another name where the machine could not give what was asked for
  std::string schedule_source;     // "measured", "default", "one thread", "HONE_SCHEDULE", "EngineOptions::schedule"
  // Work below which a call stays on the caller, unless it was itself tuned with more threads: multiply-adds, or 20 per
  // element moved where that is more. Nothing where that was not measured, or for another kind of schedule; then a
  // guess decides.
  std::optional<int64_t> min_work;
  std::vector<std::string> packages;  // that were loaded, in this order
};

struct AttentionSpec;
class Attention;
struct EngineAccess;

// Owns what prepared ops share: tuned plans, compiled kernels, threads. Cheap to copy; thread safe.
class HONE_API Engine {
 public:
  // Errors: invalid_argument (threads < 0 or too many, a database path that is something else, a bad HONE_CPU,
  // schedule or HONE_SCHEDULE),
  // not_found (unknown code generator). An unreadable database is no error: see EngineInfo::database_message.
  static Result<Engine> create(const EngineOptions& options = {});

  // Packs the constant weights B (spec.b, spec.ldb, spec.stride_b) into memory of its own: `weights` may be freed
  // afterwards. Reads them once, with all threads. They are elements of spec.weight_type. Errors: invalid_argument
  // naming the field, resource_exhausted.
  Result<Matmul> prepare(const MatmulSpec& spec, const void* weights) const;
  // B comes with each call, as f32, and is read where it is.
  Result<Matmul> prepare(const MatmulSpec& spec) const;
  // hone/attention.hpp. Errors: invalid_argument naming the field, resource_exhausted.
  Result<Attention> prepare(const AttentionSpec& spec) const;

  // Adds the kernels of a package that `hone compile` wrote (a folder): what is prepared from now on uses them where
  // they fit, without a code generator, and with the same bits as ever. A package with the very problem comes before
  // every tuned plan; one of other sizes comes after a tuned plan of this very problem and before those of similar ones
  // (at most 8 times larger or smaller, if there is a code generator). What cannot be had from it is as without. Of two
  // packages with one problem the later one counts.
  //
  // All or nothing. The folder may go afterwards. Thread safe; code stays loaded as long as the engine and what was
  // prepared from it. A package is a program: its checksums find damage, not malice.
  // Errors: not_found, data_loss (naming the file that is damaged or is none), unsupported (another format or ABI, no
  // code for this CPU, a lowering that is not that of this build), invalid_argument (a problem that this build does not
  // know).
  Status load_package(const std::string& path);

  EngineInfo info() const;

  class State;
  explicit Engine(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  friend struct EngineAccess;
  std::shared_ptr<State> state_;
};

}  // namespace hone
