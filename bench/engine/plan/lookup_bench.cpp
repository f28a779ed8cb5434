// From a database file to plans: what a process pays at its start. 1000 problems of 10 families were decided on this
// machine; each iteration opens the file, reads every decision and resolves every problem, as Engine::create and
// Engine::prepare do. The file is in the page cache; nothing else is kept between iterations.
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "bench/bench_internal.h"
#include "db/store.h"
#include "engine/plan/resolver.h"

namespace hone::bench {
namespace {

constexpr int64_t kFamilies = 10, kRows = 100;

class Folder {
 public:
  Folder() : path_((std::filesystem::temp_directory_path() / "hone_bench_XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() {
    std::error_code ignored;  // a file that stays in the temporary folder is no fault of the measurement
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file() const { return path_ + "/hone.db"; }

 private:
  std::string path_;
};

std::vector<matmul::MatmulProblem> problems() {
  std::vector<matmul::MatmulProblem> all;
  for (int64_t f = 1; f <= kFamilies; ++f)
    for (int64_t m = 1; m <= kRows; ++m)
      all.push_back({.m = m, .n = 1024 * f, .k = 1024, .b = matmul::BLayout::kPacked});
  return all;
}

plan::Target target() {
  return plan::make_target(this_machine(), this_machine().cpus_usable, jit::compiling_generators());
}

// Decides for the default program of every problem.
Status fill(const std::string& path, const std::vector<matmul::MatmulProblem>& all, const plan::Target& target) {
  if (target.codegens.empty() || target.codegens.front().isas.empty())
    return unsupported("no code generator runs here");
  const plan::CodegenLabel& codegen = target.codegens.front();
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<db::Store> store, db::open({.path = path}));
  HONE_ASSIGN_OR_RETURN(const Isa isa, this_machine().best_isa());
  HONE_ASSIGN_OR_RETURN(const int64_t run,
                        store->begin_run({.key = target.key, .label = machine_to_json(this_machine())},
                                         {target.engine, codegen.name + "=" + codegen.version},
                                         {.cache_mode = "cold", .settings = "{}"}));
  for (const matmul::MatmulProblem& p : all) {
    const db::Candidate winner{.program = matmul::to_string(matmul::default_program(p, {isa, target.caches, 1})),
                               .codegen = codegen.name,
                               .codegen_version = codegen.version};
    HONE_RETURN_IF_ERROR(store
                             ->add_decision(run, {.problem = {matmul::to_string(p), matmul::family(p), p.m},
                                                  .winner = winner,
                                                  .fallback = winner,
                                                  .ns = 1000,
                                                  .default_ns = 1000})
                             .status());
  }
  return Status();
}

void open_and_resolve(benchmark::State& state) {
  const Folder folder;
  const std::vector<matmul::MatmulProblem> all = problems();
  const plan::Target here = target();
  if (const Status s = fill(folder.file(), all, here); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  int64_t exact = 0;
  for (auto _ : state) {
    exact = 0;
    const Result<std::unique_ptr<db::Store>> store = db::open({.path = folder.file(), .mode = db::OpenMode::kReadOnly});
    if (value_or_skip(state, store) == nullptr) return;
    const Result<plan::Decisions> decisions = plan::Decisions::load(**store);
    if (value_or_skip(state, decisions) == nullptr) return;
    for (const matmul::MatmulProblem& p : all) {
      const Result<plan::Plan> found = plan::resolve(p, here, *decisions);
      if (value_or_skip(state, found) == nullptr) return;
      exact += found->reason == plan::Reason::kExact ? 1 : 0;
    }
  }
  state.counters["plans"] = static_cast<double>(all.size());
  state.counters["exact"] = static_cast<double>(exact);
}
BENCHMARK(open_and_resolve)->Unit(benchmark::kMillisecond)->MinTime(0.5);

// One problem of which everything is in memory: what prepare() adds to a lookup.
void resolve_one(benchmark::State& state) {
  const Folder folder;
  const std::vector<matmul::MatmulProblem> all = problems();
  const plan::Target here = target();
  if (const Status s = fill(folder.file(), all, here); !s.ok()) return state.SkipWithError(s.to_string().c_str());
  const Result<std::unique_ptr<db::Store>> store = db::open({.path = folder.file(), .mode = db::OpenMode::kReadOnly});
  if (value_or_skip(state, store) == nullptr) return;
  const Result<plan::Decisions> decisions = plan::Decisions::load(**store);
  if (value_or_skip(state, decisions) == nullptr) return;
  for (auto _ : state) benchmark::DoNotOptimize(plan::resolve(all[all.size() / 2], here, *decisions));
}
BENCHMARK(resolve_one)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace hone::bench
