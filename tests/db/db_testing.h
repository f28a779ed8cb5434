// What the database tests share: a folder that goes away, a store that must open, records, and SQL past the store.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"

namespace hone::db {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hone_db_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make " << name;
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string path_;
};

inline std::unique_ptr<Store> must_open(const std::string& path, OpenMode mode = OpenMode::kReadWrite) {
  auto store = open({.path = path, .mode = mode});
  if (!store.ok()) {
    ADD_FAILURE() << store.status().to_string();
    return nullptr;
  }
  return std::move(store).value();
}

inline ProblemKey problem(int64_t m, int n = 64) {
  const std::string size = "n=" + std::to_string(n) + ",k=32";
  return {.text = "matmul:f32:m=" + std::to_string(m) + "," + size, .family = "matmul:f32:" + size, .m = m};
}

inline Candidate candidate(const std::string& program, int threads = 1) {
  return {
      .program = program, .codegen = "asmjit", .codegen_version = "1.10+1", .threads = threads, .numerics = "ordered"};
}

inline Result<int64_t> begin(Store& store, const std::string& machine = "x86-64:avx2") {
  return store.begin_run({.key = machine, .label = "{}"}, {.engine = "hone test", .codegens = "asmjit=1"},
                         {.seed = 7, .cache_mode = "warm", .noise_bound = 0.01, .settings = "{}"});
}

// A round of one candidate.
inline Status add_samples(Store& store, int64_t run, const ProblemKey& p, const Candidate& c,
                          const std::vector<Sample>& samples, double spent_seconds = 0) {
  return store.add_round(run, p, {{.candidate = c, .samples = samples}}, spent_seconds);
}

inline Decision decision(const ProblemKey& p, const std::string& program, int64_t decided_at = 0) {
  return {.problem = p,
          .winner = candidate(program),
          .fallback = candidate("default"),
          .verdict = Verdict::kNew,
          .ns = 1000,
          .default_ns = 1500,
          .speedup = 1.5,
          .speedup_lo = 1.4,
          .speedup_hi = 1.6,
          .noise_bound = 0.01,
          .decided_at = decided_at};
}

// One run with samples and a decision; sound for verify().
inline void fill(Store& store, int64_t m = 1) {
  auto run = begin(store);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  const Sample tuned{.order = 0, .ns = 1000, .phase = Phase::kConfirm},
      other{.order = 1, .ns = 1500, .phase = tuned.phase};
  ASSERT_TRUE(add_samples(store, *run, problem(m), candidate("tuned"), {tuned}).ok());
  ASSERT_TRUE(add_samples(store, *run, problem(m), candidate("default"), {other}).ok());
  ASSERT_TRUE(store.add_decision(*run, decision(problem(m), "tuned")).ok());
}

inline ScheduleChoice schedule_choice(int threads, int64_t measured_at, const std::string& engine = "hone test") {
  return {.machine = {.key = "x86-64:avx2", .label = "{}"},
          .build = {.engine = engine, .codegens = "asmjit=1"},
          .threads = threads,
          .schedule = "dedicated",
          .min_work = 250'000,
          .fork_joins = {{"dedicated", 900, 4000, 2100, 52'000}, {"tbb", 2400, 9000, 6100, 61'000}},
          .measured_at = measured_at};
}

// What one generator made of a problem; sound for verify().
inline CodeRecord code_record(const std::string& codegen, int64_t measured_at, int64_t m = 1) {
  CodeRecord c{.machine = {.key = "x86-64:avx2", .label = "{}"},
               .build = {.engine = "hone test", .codegens = "asmjit=1"},
               .problem = problem(m),
               .candidate = candidate("tuned"),
               .cache_mode = "warm",
               .bits = "equal",
               .compile_ns = 450'000.5,
               .whole = CodePart{.bytes = 900, .total = 200, .vector = 100, .fma = 40, .load = 60, .spills = 10},
               .loop = CodePart{.bytes = 190, .total = 32, .vector = 28, .fma = 16, .load = 12, .branch = 1},
               .spilling_loops = 1,
               .models = {{"skylake", 24, 24.5, 3.25, 102, "resource SKXPort0"}, {"znver4", 48, 62.25, 1.5, 112, ""}},
               .rounds_ns = {1000, 1010, 990},
               .ns = 1000,
               .ratio = 1.01,
               .ratio_lo = 1,
               .ratio_hi = 1.02,
               .measured_at = measured_at};
  c.candidate.codegen = codegen;
  return c;
}

inline int64_t rows(Store& store, const std::string& table) {
  const auto counts = store.counts();
  EXPECT_TRUE(counts.ok());
  for (const TableCount& c : *counts) {
    if (c.table == table) return c.rows;
  }
  return -1;
}

inline void run_sql(const std::string& path, const std::string& sql) {
  SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void spit(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Runs body(i) in `count` processes at once; their exit codes.
template <typename Body>
std::vector<int> in_processes(int count, Body body) {
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(body(i));
    children.push_back(child);
  }
  std::vector<int> codes;
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return codes;
}

}  // namespace hone::db
