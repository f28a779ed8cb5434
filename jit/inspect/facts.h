// What the machine code of a kernel consists of, whichever generator emitted it: LLVM MC decodes it, and everything
// below is told by the operands of the decoded instructions, never by their text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"

namespace hone::jit {

// An instruction may be of several classes: `vfmadd231ps zmm0, zmm1, dword ptr [rax]{1to16}` is vector, fma and load.
struct Classes {
  bool vector : 1 = false;   // computes or moves at least two lanes of a vector register (a scalar in xmm does not)
  bool fma : 1 = false;      // fused multiply-add of vectors, of single elements or of pairs of bf16 (vdpbf16ps)
  bool load : 1 = false;     // reads memory, prefetches apart
  bool store : 1 = false;    // writes memory
  bool branch : 1 = false;   // jumps, conditional or not, calls and returns
  bool address : 1 = false;  // integer arithmetic and moves between general-purpose registers (counters and pointers)
  bool stack : 1 = false;    // accesses the frame: by the stack pointer, an address made from it, push, pop, call, ret
  // By data flow, see frame_internal.h; what a function does to give its caller's registers back is neither.
  bool spill : 1 = false;      // stores to a slot of the frame what is loaded from it later
  bool reload : 1 = false;     // loads a slot of the frame that was stored on every path that leads here
  bool of_vector : 1 = false;  // has a vector register among its operands, be it for one lane: a spill of it is a
                               // vector's, any other one an integer's or a mask's
};

// "vector fma load": the names of what it is, in the order above without of_vector.
std::string class_names(const Classes& classes);

struct Instruction {
  size_t offset = 0;  // from the start of the code
  int size = 0;       // bytes
  std::string text;   // as LLVM prints it, x86 in Intel's syntax; ".byte 0x.." for what is no instruction
  Classes classes;
  int64_t target = -1;  // offset that a direct branch goes to
  int loop = -1;        // innermost loop that it is in: index into CodeFacts::loops
};

struct Counts {
  int total = 0, vector = 0, fma = 0, load = 0, store = 0, branch = 0, address = 0, stack = 0, spills = 0, reloads = 0;
  int vector_spills = 0, vector_reloads = 0;  // of vector registers, also in the two before
  // 0 when there is no fma.
  double loads_per_fma() const { return fma == 0 ? 0 : static_cast<double>(load) / fma; }
};

// A natural loop of the control-flow graph. Its code need not be in one piece; its counts include the loops in it.
struct Loop {
  size_t begin = 0, end = 0;  // offsets: its first instruction, and behind its last
  int depth = 1;              // 1 = outermost
  int parent = -1;
  bool innermost = true;
  Counts counts;
};

struct CodeFacts {
  size_t bytes = 0;
  std::vector<Instruction> instructions;
  std::vector<Loop> loops;  // by begin, an outer one before those in it
  Counts counts;            // of everything
  // The inner loop: the innermost one with most fma, then most vector instructions, then most instructions; -1 without
  // loops. Of several versions of a body the largest wins, which is the one for full tiles.
  int hottest = -1;
};

// Error: unsupported in a build without LLVM, or for an architecture that its LLVM lacks.
Result<CodeFacts> inspect(std::span<const std::byte> code, Isa isa);

// The instructions of a loop (index into facts.loops) one behind the other, for static_throughput.
std::vector<std::byte> loop_code(std::span<const std::byte> code, const CodeFacts& facts, int loop);

// What llvm-mca's model of a CPU says of a loop body executed over and over, all loads hitting L1.
struct StaticThroughput {
  std::string cpu;               // whose model it is
  double block_rthroughput = 0;  // cycles per iteration that resources alone demand
  double cycles = 0;             // per iteration, as simulated with dependencies
  double ipc = 0;                // instructions per cycle, simulated
  double uops = 0;               // micro-operations per iteration
  // "resource Zn4FP0/Zn4FP1" (LLVM's names), "register dependency", "dispatch width", "memory dependency" or "none".
  std::string bottleneck;
  std::vector<std::pair<std::string, double>> pressure;  // cycles per iteration that each unit is busy, as simulated
};

// `code`: a loop body, from loop_code(). `cpu`: LLVM's name, or "" for the CPU that this runs on.
// Errors: invalid_argument for a CPU that LLVM does not know, has no scheduling model of, or that lacks the ISA, and
// for what is no code; unsupported for calls, for instructions that the model lacks, and in a build without LLVM.
Result<StaticThroughput> static_throughput(std::span<const std::byte> code, Isa isa, const std::string& cpu = "");

// LLVM's name of this CPU ("znver4"); "" in a build without LLVM.
std::string host_cpu();

}  // namespace hone::jit
