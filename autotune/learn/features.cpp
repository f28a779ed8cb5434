// See features.h. Ratios and logarithms, so that what was learned on one size means something on another; trees split
// on order alone and need no scaling.
#include "autotune/learn/features.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "autotune/learn/checksum_internal.h"
#include "kernels/matmul/blocking.h"

namespace hone::autotune {
namespace {

using matmul::BLayout;
using matmul::MatmulProblem;
using matmul::PackA;
using matmul::PackB;
using matmul::ParallelDim;
using matmul::TransformProgram;

struct Inputs {
  const MatmulProblem& p;
  const TransformProgram& t;
  const CostMachine& machine;
  int threads;
  Cost cost;

  double m() const { return static_cast<double>(std::max<int64_t>(p.m, 1)); }
  double n() const { return static_cast<double>(std::max<int64_t>(p.n, 1)); }
  double k() const { return static_cast<double>(std::max<int64_t>(p.k, 1)); }
  double nv() const { return static_cast<double>(t.nr) / t.lanes; }
  double to_fma(double ns) const { return ns / std::max(cost.fma, 1.0); }
};

double of(int64_t value) { return static_cast<double>(value); }
double log2_of(double value) { return std::log2(std::max(value, 1e-6)); }
// Bytes of rows x depth floats against a cache, as a power of two.
double fit(int64_t rows, int64_t depth, int64_t cache) { return log2_of(of(rows) * of(depth) * 4 / of(cache)); }
double fill(double total, int64_t unit) { return total / (std::ceil(total / of(unit)) * of(unit)); }

struct Feature {
  std::string_view name;
  double (*value)(const Inputs&);
};

// The one list of columns.
constexpr Feature kFeatures[] = {
    {"log_m", [](const Inputs& i) { return log2_of(i.m()); }},
    {"log_n", [](const Inputs& i) { return log2_of(i.n()); }},
    {"log_k", [](const Inputs& i) { return log2_of(i.k()); }},
    {"b_nt", [](const Inputs& i) { return of(i.p.b == BLayout::kNt); }},
    {"b_packed", [](const Inputs& i) { return of(i.p.b == BLayout::kPacked); }},
    {"epilogue", [](const Inputs& i) { return of(static_cast<int64_t>(i.p.epilogue.size())); }},
    {"cold", [](const Inputs& i) { return of(i.machine.cold); }},
    {"threads", [](const Inputs& i) { return of(i.threads); }},
    {"lanes", [](const Inputs& i) { return of(i.t.lanes); }},
    {"mr", [](const Inputs& i) { return of(i.t.mr); }},
    {"nv", [](const Inputs& i) { return i.nv(); }},
    {"chains", [](const Inputs& i) { return of(i.t.mr) * i.nv(); }},
    {"loads_per_fma", [](const Inputs& i) { return (of(i.t.mr) + i.nv()) / (of(i.t.mr) * i.nv()); }},
    {"fill_rows", [](const Inputs& i) { return fill(i.m(), i.t.mr); }},
    {"fill_columns", [](const Inputs& i) { return fill(i.n(), i.t.nr); }},
    {"row_tiles", [](const Inputs& i) { return std::ceil(i.m() / of(i.t.mr)); }},
    {"row_blocks", [](const Inputs& i) { return log2_of(std::ceil(i.m() / of(i.t.mc))); }},
    {"column_blocks", [](const Inputs& i) { return log2_of(std::ceil(i.n() / of(i.t.nc))); }},
    {"column_tiles_in_block", [](const Inputs& i) { return log2_of(of(i.t.nc / i.t.nr)); }},
    {"k_passes", [](const Inputs& i) { return log2_of(std::ceil(i.k() / of(i.t.kc))); }},
    {"log_kc", [](const Inputs& i) { return log2_of(of(i.t.kc)); }},
    {"tile_a_in_l1", [](const Inputs& i) { return fit(i.t.mr, i.t.kc, i.machine.caches.l1d); }},
    {"tile_b_in_l1", [](const Inputs& i) { return fit(i.t.nr, i.t.kc, i.machine.caches.l1d); }},
    {"block_a_in_l2", [](const Inputs& i) { return fit(i.t.mc, i.t.kc, i.machine.caches.l2); }},
    {"block_b_in_l2", [](const Inputs& i) { return fit(i.t.nc, i.t.kc, i.machine.caches.l2); }},
    {"b_in_l2", [](const Inputs& i) { return fit(i.p.n, i.p.k, i.machine.caches.l2); }},
    {"ij", [](const Inputs& i) { return of(i.t.order == matmul::TileOrder::kIj); }},
    {"pack_a", [](const Inputs& i) { return of(i.t.pack_a == PackA::kRows); }},
    {"pack_b_block", [](const Inputs& i) { return of(i.t.pack_b == PackB::kBlock); }},
    {"pack_b_strip", [](const Inputs& i) { return of(i.t.pack_b == PackB::kStrip); }},
    {"panels_in_tile", [](const Inputs& i) { return of(i.t.nr / std::max<int64_t>(i.t.panel, 1)); }},
    {"panel_vectors", [](const Inputs& i) { return of(i.t.panel) / i.t.lanes; }},
    {"unroll_k", [](const Inputs& i) { return of(i.t.unroll_k); }},
    {"prefetch_steps", [](const Inputs& i) { return of(i.t.prefetch_b); }},
    {"prefetch_next", [](const Inputs& i) { return of(i.t.prefetch_next); }},
    {"prefetch_c", [](const Inputs& i) { return of(i.t.prefetch_c); }},
    {"parallel_m", [](const Inputs& i) { return of(i.t.parallel == ParallelDim::kM); }},
    {"parallel_n", [](const Inputs& i) { return of(i.t.parallel == ParallelDim::kN); }},
    {"load_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.load); }},
    {"latency_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.latency); }},
    {"loop_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.loop); }},
    {"l2_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.l2); }},
    {"dram_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.dram); }},
    {"pack_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.pack); }},
    {"c_to_fma", [](const Inputs& i) { return i.to_fma(i.cost.c); }},
    {"imbalance", [](const Inputs& i) { return i.cost.imbalance; }},
    {"over_roofline",
     [](const Inputs& i) {
       const double roof = std::max(i.p.flops() / i.machine.gflops_1t / i.threads,
                                    4 * (i.n() * i.k() + i.m() * i.k() + i.m() * i.n()) / i.machine.dram_gbs_all);
       return log2_of(i.cost.total / std::max(roof, 1.0));
     }},
};
constexpr size_t kCount = std::size(kFeatures);

constexpr std::array<std::string_view, kCount> kNames = [] {
  std::array<std::string_view, kCount> names;
  for (size_t i = 0; i < kCount; ++i) names[i] = kFeatures[i].name;
  return names;
}();

// Probes: few rows and many, each layout, narrow vectors and wide ones. Three digits, so that another compiler's
// rounding is no change.
std::string describe_probes() {
  std::string text;
  const CostMachine machine{.caches = {.l1d = 32 << 10, .l2 = 1 << 20, .l3_share = 2 << 20}};
  for (std::string_view problem : {"matmul:f32:m=1,n=4096,k=4096,b=packed", "matmul:f32:m=24,n=1000,k=2048,b=nt:+bias",
                                   "matmul:f32:m=512,n=512,k=512"}) {
    const Result<MatmulProblem> p = matmul::parse_problem(problem);
    for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      const Candidate c{matmul::default_program(*p, {isa, machine.caches, 2}), "", 2};
      for (float value : features(*p, c, machine)) text += fmt::format("{:.3g} ", value);
    }
  }
  return text;
}

}  // namespace

std::span<const std::string_view> feature_names() { return kNames; }

std::vector<float> features(const MatmulProblem& problem, const Candidate& candidate, const CostMachine& machine) {
  const auto& program = std::get<TransformProgram>(candidate.program);
  const Inputs inputs{problem, program, machine, candidate.threads,
                      estimate(problem, program, candidate.threads, machine)};
  std::vector<float> row;
  row.reserve(kCount);
  for (const Feature& feature : kFeatures) row.push_back(static_cast<float>(feature.value(inputs)));
  return row;
}

const std::string& features_version() {
  static const std::string version = [] {
    uint64_t h = kFnvBasis;
    for (const Feature& feature : kFeatures) h = fnv1a(feature.name, fnv1a(" ", h));
    return fmt::format("matmul {:016x}", fnv1a(describe_probes(), h));
  }();
  return version;
}

}  // namespace hone::autotune
