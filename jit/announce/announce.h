// Tells profilers and debuggers where the code of a kernel is and what it is called, for those who ask:
//
// clang-format off
//   HONE_JIT_SYMBOLS=map      /tmp/perf-PID.map      perf report, perf top, bpftrace: names instead of addresses
//   HONE_JIT_SYMBOLS=jitdump  DIR/jit-PID.dump       perf record -k mono, perf inject --jit: perf annotate has the code
//   HONE_JIT_SYMBOLS=gdb      GDB's JIT interface    (LLDB's too) backtraces, breakpoints by name
// clang-format on
//
// or several of them with commas. Names are kernel_symbol()'s. Off, it costs a look at the environment per kernel. A
// file that cannot be written is one line on stderr, and never keeps a kernel from running.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hone::jit {

class GdbRegistration;

// Owned by a compiled kernel, and let go before its code is.
class CodeAnnouncement {
 public:
  // Nobody is told.
  CodeAnnouncement();
  // Tells whom the environment names.
  CodeAnnouncement(const std::string& symbol, std::span<const std::byte> code);
  CodeAnnouncement(CodeAnnouncement&& other) noexcept;
  CodeAnnouncement& operator=(CodeAnnouncement&& other) noexcept;
  // The debugger forgets the code. What perf was told stays: it asks afterwards which code was where, and when.
  ~CodeAnnouncement();

 private:
  std::unique_ptr<GdbRegistration> gdb_;
};

// "map,gdb" -> who is told. Unknown names are left out, and `warning` then names the first and the known ones.
struct Announcees {
  bool map = false, jitdump = false, gdb = false;
  std::string warning;
};
Announcees parse_announcees(std::string_view list);

}  // namespace hone::jit
