// hone: tune a machine once, look at what was found, compare.
#include <CLI/CLI.hpp>

#include "engine/base/version.h"
#include "tools/hone/process.h"

namespace hone::cli {
namespace {

int run_command(int argc, char** argv) {
  CLI::App app{"hone compiles, times and keeps the kernels that are fastest on this machine"};
  app.set_version_flag("--version", std::string(engine_label()));
  app.require_subcommand(1);
  app.footer(
      "Try: hone tune --budget 20s 'matmul:f32:m=1,n=4096,k=4096,b=packed'\n"
      "Environment: HONE_DB=file (database), HONE_CACHE=dir|off (kernels that LLVM compiled),\n"
      "  HONE_WEIGHTS=dir|off (packed weights of models), HONE_WEIGHTS_LIMIT=bytes (of all of them),\n"
      "  HONE_THREADS=n, HONE_SCHEDULE=auto|sequential|tbb|dedicated,\n"
      "  HONE_LOG=dispatch,tune,jit,db (to stderr),\n"
      "  HONE_TRACE=file (parallel regions as JSON for ui.perfetto.dev; a worker process writes file.PID),\n"
      "  HONE_JIT_DUMP=dir (LoopIR and code of every kernel),\n"
      "  HONE_JIT_SYMBOLS=map,jitdump,gdb (perf and debuggers see what kernels are called: /tmp/perf-PID.map,\n"
      "  $JITDUMPDIR/jit-PID.dump or below ~/.debug/jit, GDB's JIT interface),\n"
      "  HONE_CPU=name|file (another machine: info and explain answer for it, what runs code keeps the\n"
      "  features that both have; names: hone info --cpus)");
  Run run;
  add_info(app, run);
  add_tune(app, run);
  add_bench(app, run);
  add_explain(app, run);
  add_codegen(app, run);
  add_compile(app, run);
  add_exec(app, run);
  add_run(app, run);
  add_db(app, run);
  add_fuzz(app, run);
  add_synth(app, run);
  add_tokenize(app, run);
  add_tune_worker(app, run);
  return parse_and_run(app, argc, argv, run);
}

}  // namespace
}  // namespace hone::cli

int main(int argc, char** argv) { return hone::cli::run_process(argc, argv, hone::cli::run_command); }
