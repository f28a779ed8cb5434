// A child process in which code may run that crashes, hangs or eats the memory: how it is set up, and how it ended.
#pragma once

#include <sys/types.h>

#include <string>

namespace hone {

// How such a process ends when it has no memory left.
inline constexpr int kOutOfMemoryCode = 77;

// In the child, first of all: it dies with its parent, whatever it is doing; signals have their default effect, so that
// a sanitizer or a library does not turn a crash into a report and exit(1); no core file, as a crash here is a result;
// when memory runs out the kernel takes this process and not its parent, and operator new ends it with
// kOutOfMemoryCode. False: the parent is gone already.
bool enter_sandbox(pid_t parent);

// From now on private writable memory may grow by `bytes`, and by nine tenths of what is available at most.
void limit_memory(double bytes);

// Of what waitpid() gives: "SIGSEGV (invalid memory access)", "exited with code 3", "out of memory".
std::string exit_text(int wait_status);

}  // namespace hone
