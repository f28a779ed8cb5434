// How long one kernel takes to compile: the mean over the kernels of the shipped shapes, each with its default program.
// "first" is the first kernel of a process, with all that a code generator sets up once; it runs once by nature, and
// before the rest (benchmarks run in the order in which they are registered). "cached" is what a generator that keeps
// its code on disk needs to get it back, in a folder of this process alone.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/bench_internal.h"
#include "kernels/ir/verify.h"
#include "kernels/op/shape_file.h"

namespace hone::bench {
namespace {

struct Todo {
  op::Problem problem;
  op::Program program;
};

Result<std::vector<Todo>> default_kernels() {
  HONE_ASSIGN_OR_RETURN(const std::vector<op::Shape> shapes,
                        op::parse_shapes(op::default_shapes_text(), "built-in shapes"));
  HONE_ASSIGN_OR_RETURN(const Isa isa, this_machine().best_isa());
  std::vector<Todo> all;
  for (const op::Shape& shape : shapes) {
    const op::DefaultTarget target{.isa = isa, .caches = blocking_caches(this_machine()), .numerics = ""};
    all.push_back({shape.problem, op::default_program(shape.problem, target)});
  }
  return all;
}

Result<std::vector<ir::Kernel>> lowered_kernels() {
  HONE_ASSIGN_OR_RETURN(const std::vector<Todo> todo, default_kernels());
  std::vector<ir::Kernel> all;
  for (const Todo& t : todo) {
    HONE_ASSIGN_OR_RETURN(std::vector<ir::Kernel> kernels, op::lower(t.problem, t.program));
    std::move(kernels.begin(), kernels.end(), std::back_inserter(all));
  }
  return all;
}

void per_kernel(benchmark::State& state, size_t kernels) {
  state.counters["kernel_time"] = benchmark::Counter(
      static_cast<double>(kernels), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["kernels"] = static_cast<double>(kernels);
}

// What comes before any code generator: the program applied to the problem, and the verifier.
void lower(benchmark::State& state) {
  const Result<std::vector<Todo>> made = default_kernels();
  const std::vector<Todo>* todo = value_or_skip(state, made);
  if (todo == nullptr) return;
  for (auto _ : state) {
    for (const Todo& t : *todo) {
      const Result<std::vector<ir::Kernel>> kernels = op::lower(t.problem, t.program);
      if (!kernels.ok()) return state.SkipWithError(kernels.status().to_string().c_str());
      for (const ir::Kernel& kernel : *kernels)
        if (const Status verified = ir::verify(kernel); !verified.ok())
          return state.SkipWithError(verified.to_string().c_str());
    }
  }
  per_kernel(state, todo->size());
}

enum class Kind { kFirst, kWarm, kCached };

// $HONE_CACHE of this process while the benchmark runs.
struct OwnCache {
  OwnCache() { setenv("HONE_CACHE", folder.c_str(), 1); }
  ~OwnCache() {
    std::error_code ignored;  // a left-over temporary folder is not a failure
    std::filesystem::remove_all(folder, ignored);
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("hone_compile_bench." + std::to_string(getpid()));
};

void compile(benchmark::State& state, jit::CodeGenerator* generator, Kind kind) {
  const OwnCache cache;
  const Result<Isa> isa = this_machine().best_isa();
  const Result<std::vector<ir::Kernel>> made = lowered_kernels();
  const std::vector<ir::Kernel>* kernels = value_or_skip(state, made);
  if (kernels == nullptr || value_or_skip(state, isa) == nullptr) return;
  const size_t count = kind == Kind::kFirst ? 1 : kernels->size();
  const jit::CompileOptions options{.cached = kind == Kind::kCached};
  for (size_t i = 0; i < count && options.cached; ++i)
    if (const auto kernel = generator->compile((*kernels)[i], *isa, options); !kernel.ok())
      return state.SkipWithError(kernel.status().to_string().c_str());
  size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      const Result<std::unique_ptr<jit::CompiledKernel>> kernel = generator->compile((*kernels)[i], *isa, options);
      if (!kernel.ok()) return state.SkipWithError(kernel.status().to_string().c_str());
      bytes += (*kernel)->code().size();
    }
  }
  per_kernel(state, count);
  state.counters["bytes"] = static_cast<double>(bytes) / static_cast<double>(count);
}

const bool kRegistered = [] {
  std::vector<jit::CodeGenerator*> generators;
  const Result<Isa> isa = this_machine().best_isa();
  for (jit::CodeGenerator* g : jit::compiling_generators())
    if (isa.ok() && g->targets(*isa)) generators.push_back(g);
  for (jit::CodeGenerator* g : generators)
    benchmark::RegisterBenchmark(("compile/" + std::string(g->name()) + "/first").c_str(), compile, g, Kind::kFirst)
        ->Iterations(1)
        ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("lower", lower)->MinTime(0.2)->Unit(benchmark::kMillisecond);
  for (jit::CodeGenerator* g : generators)
    benchmark::RegisterBenchmark(("compile/" + std::string(g->name()) + "/warm").c_str(), compile, g, Kind::kWarm)
        ->MinTime(0.5)
        ->Unit(benchmark::kMillisecond);
  for (jit::CodeGenerator* g : generators)
    if (g->name() == "llvm")
      benchmark::RegisterBenchmark(("compile/" + std::string(g->name()) + "/cached").c_str(), compile, g, Kind::kCached)
          ->MinTime(0.5)
          ->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace hone::bench
