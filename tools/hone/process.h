// What is around the subcommands of a program: hone, and hone-exec.
#pragma once

#include "tools/hone/cli.h"

namespace hone::cli {

// Streams, signals, what a throwing library ends as; `commands(argc, argv)` returns the exit code.
int run_process(int argc, char** argv, int (*commands)(int, char**));

// The subcommand that was typed, whose callback has set `run`; --help, --version and what CLI11 refuses.
int parse_and_run(CLI::App& app, int argc, char** argv, const Run& run);

}  // namespace hone::cli
