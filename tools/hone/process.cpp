// See process.h.
#include "tools/hone/process.h"

#include <exception>
#include <new>

#include "engine/base/log.h"
#include "engine/runtime/trace.h"

namespace hone::cli {

int run_process(int argc, char** argv, int (*commands)(int, char**)) {
  reserve_standard_streams();
  set_command_line(argc, argv);
  install_signal_handlers();
  (void)log_enabled(LogTopic::kTune);  // a bad HONE_LOG is said at once, not at the first event
  runtime::trace_as_environment_says();
  // Nothing of ours throws across a module; what a library throws is a failure with a line, and never an abort.
  try {
    return finish(commands(argc, argv));
  } catch (const std::bad_alloc&) {
    return fail(resource_exhausted("out of memory"));
  } catch (const std::exception& e) {
    return fail(internal_error(e.what()));
  }
}

int parse_and_run(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    return fail_usage(app, error.what());
  }
  return run();
}

}  // namespace hone::cli
