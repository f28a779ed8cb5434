// hone codegen: the same LoopIR through several code generators. Here is what was found, as values: measuring makes
// them (codegen_study.cpp), and md, JSON, HTML and the database are made of them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autotune/measure/kernel_racer.h"
#include "autotune/search/stats.h"
#include "engine/base/machine.h"
#include "engine/base/perf_counters.h"
#include "jit/inspect/facts.h"
#include "kernels/op/op.h"

namespace hone::cli {

// Every count of instructions, under the name that it has wherever it is shown.
struct CountColumn {
  std::string_view name;
  int jit::Counts::*value;
};
inline constexpr CountColumn kInstructionClasses[] = {
    {"total", &jit::Counts::total},     {"vector", &jit::Counts::vector}, {"fma", &jit::Counts::fma},
    {"load", &jit::Counts::load},       {"store", &jit::Counts::store},   {"branch", &jit::Counts::branch},
    {"address", &jit::Counts::address}, {"stack", &jit::Counts::stack},
};
inline constexpr CountColumn kSpillColumns[] = {
    {"spills", &jit::Counts::spills},
    {"reloads", &jit::Counts::reloads},
};

// A stretch of code: all of it, or a loop.
struct CodePart {
  size_t bytes = 0;
  jit::Counts counts;
};

// What one generator made of one kernel.
struct KernelCode {
  std::string name;
  jit::CodeFacts facts;

  // Of a loop that contains no other; what lies between its instructions is not of it.
  CodePart part(int loop) const;
  std::optional<CodePart> inner_loop() const;  // the hottest; nullopt: no loop
  std::vector<jit::Instruction> inner_instructions() const;
};

// llvm-mca on the inner loop, by the model of one CPU.
struct LoopModel {
  std::string cpu;
  std::optional<jit::StaticThroughput> result;
  std::string why_not;
};

// What one generator made of the problem, and how fast that is.
struct GeneratorCode {
  std::string codegen, version;
  std::vector<double> compile_ns;  // of all kernels, repetition by repetition
  std::vector<KernelCode> kernels;
  std::vector<LoopModel> models;   // of the inner loop of Study::hot_kernel: this CPU first
  std::string no_code;             // why there is nothing to look at; "": there is
  std::vector<double> rounds_ns;   // of one call, round by round
  std::vector<double> log_ratios;  // to the native code, within rounds
  CounterReading counters;         // of one call
  std::string no_time;             // why it was not timed; "": it was
  bool wrong = false;              // its results are

  CodePart whole() const;      // all kernels
  int spilling_loops() const;  // innermost loops with a spill or a reload
};

struct Study {
  op::Problem problem;
  op::Program program;
  std::string reason;  // why this program: "exact", "default", ..., "given"
  int threads = 1;
  std::string cache;  // "warm", "cold"
  uint64_t seed = 1;
  std::vector<GeneratorCode> codes;
  size_t hot_kernel = 0;           // whose inner loop is "the" inner loop
  std::optional<bool> bits_equal;  // nullopt: nothing to compare
  std::string bits_why;            // why they differ, or were not compared
  std::string no_counters;         // why the CPU counted nothing; "": it did, or was not asked
  std::string failed;              // what kept a generator from being measured although it should be

  const GeneratorCode* find(std::string_view codegen) const;  // null: not among them
  const KernelCode* hot(const GeneratorCode& code) const;     // null: no code
  std::vector<const GeneratorCode*> with_inner_loop() const;  // that can be shown
  // Of a generator's time over that of the native code. nullopt: one of them was not timed.
  std::optional<autotune::Interval> ratio(const GeneratorCode& code) const;
};

// The generators that the ratio of the summary is about.
inline constexpr std::string_view kNative = "asmjit", kLlvm = "llvm";

// LLVM's time over that of the native code, or why there is no such ratio.
struct LlvmToNative {
  std::optional<autotune::Interval> ratio;
  std::string why_not;
};
LlvmToNative llvm_to_native(const Study& study);

struct StudyOptions {
  std::vector<jit::CodeGenerator*> generators;
  std::vector<std::string> mcpus;  // beside this CPU
  int threads = 1;
  autotune::CacheMode cache = autotune::CacheMode::kWarm;
  uint64_t seed = 1;
  int repetitions = 75;
  double seconds = 3;
  Machine machine;      // that runs
  autotune::Peak peak;  // of it
  runtime::ScheduleKind schedule = runtime::ScheduleKind::kTbb;
  std::shared_ptr<autotune::Weights>* weights = nullptr;  // that outlive a problem
};

// Which program, and why it.
struct Chosen {
  op::Program program;
  std::string reason;
};

// A generator that cannot compile or is wrong does not end a study. Error: the program cannot be lowered, or there is
// no memory for the operands.
Result<Study> study(const op::Problem& problem, const Chosen& chosen, const StudyOptions& options);

}  // namespace hone::cli
