// hone: tune a machine once, look at what was found, compare.
#include <CLI/CLI.hpp>

#include "engine/base/version.h"
#include "tools/hone/cli.h"

int main(int argc, char** argv) {
  using namespace hone::cli;
  set_command_line(argc, argv);
  install_signal_handlers();

  CLI::App app{"hone compiles, times and keeps the kernels that are fastest on this machine"};
  app.set_version_flag("--version", "hone " + std::string(hone::version()));
  app.require_subcommand(1);
  app.footer(
      "Try: hone tune --budget 20s 'matmul:f32:m=1,n=4096,k=4096,b=packed'\n"
      "Environment: HONE_DB, HONE_THREADS, HONE_LOG=dispatch,tune,jit,db, HONE_JIT_DUMP=dir, HONE_CPU=file");
  Run run;
  add_info(app, run);
  add_tune(app, run);
  add_bench(app, run);
  add_explain(app, run);
  add_db(app, run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return run();
}
