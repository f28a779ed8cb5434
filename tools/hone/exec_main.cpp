// hone-exec: what runs packages, in a process without LLVM and asmjit. The same commands as in hone, fewer of them.
#include <CLI/CLI.hpp>

#include "engine/base/version.h"
#include "tools/hone/process.h"

namespace hone::cli {
namespace {

int run_command(int argc, char** argv) {
  CLI::App app{"hone-exec runs packages that hone compile wrote"};
  app.set_version_flag("--version", std::string(engine_label()));
  app.require_subcommand(1);
  app.footer(
      "Try: hone-exec exec kernel.hone --random 1 --check\n"
      "Environment: HONE_THREADS=n, HONE_SCHEDULE=auto|sequential|tbb|dedicated, HONE_CPU=name|file (only the "
      "features\n"
      "  that both machines have)");
  Run run;
  add_info(app, run);
  add_exec(app, run);
  return parse_and_run(app, argc, argv, run);
}

}  // namespace
}  // namespace hone::cli

int main(int argc, char** argv) { return hone::cli::run_process(argc, argv, hone::cli::run_command); }
