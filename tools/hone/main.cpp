// hone: tune a machine once, look at what was found, compare.
#include <CLI/CLI.hpp>
#include <exception>
#include <new>

#include "engine/base/log.h"
#include "engine/base/version.h"
#include "engine/runtime/trace.h"
#include "tools/hone/cli.h"

namespace hone::cli {
namespace {

int run_command(int argc, char** argv) {
  CLI::App app{"hone compiles, times and keeps the kernels that are fastest on this machine"};
  app.set_version_flag("--version", std::string(engine_label()));
  app.require_subcommand(1);
  app.footer(
      "Try: hone tune --budget 20s 'matmul:f32:m=1,n=4096,k=4096,b=packed'\n"
      "Environment: HONE_DB=file (database), HONE_CACHE=dir|off (kernels that LLVM compiled),\n"
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
  add_db(app, run);
  add_fuzz(app, run);
  add_tune_worker(app, run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return fail_usage(app, error.what());
  }
  return run();
}

}  // namespace
}  // namespace hone::cli

int main(int argc, char** argv) {
  using namespace hone;
  cli::reserve_standard_streams();
  cli::set_command_line(argc, argv);
  cli::install_signal_handlers();
  (void)log_enabled(LogTopic::kTune);  // a bad HONE_LOG is said at once, not at the first event
  runtime::trace_as_environment_says();
  // Nothing of ours throws across a module; what a library throws is a failure with a line, and never an abort.
  try {
    return cli::finish(cli::run_command(argc, argv));
  } catch (const std::bad_alloc&) {
    return cli::fail(resource_exhausted("out of memory"));
  } catch (const std::exception& e) {
    return cli::fail(internal_error(e.what()));
  }
}
