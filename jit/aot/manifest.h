// manifest.json: what a package holds. A package is a folder (README.md shows one):
//
//   manifest.json      this
//   0.avx512.so        machine code of the kernels of one variant of one op
//   0.avx512.0.loopir  the LoopIR that each kernel was compiled from
//
// Everything else is found through the manifest: files by name with size and SHA-256, ops in a list, of each op any
// number of variants, one for each kind of CPU. Problems and programs are texts here, so that reading a package needs
// to know no op; who runs it parses them.
//
// A package of a whole graph (format 2) also has the graph, which is a text as well, its constants, and kernels that
// are of no op and are found by their LoopIR.
//
// The reader is strict: every field has to be there, once, of its type and within bounds, and no other. A later format
// has another number, and this reader refuses it by that number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace hone::jit {

inline constexpr std::string_view kManifestName = "manifest.json";
// Of the manifest and of what the files are. 1: ops with variants. 2: a graph, which is the only thing that a package
// of this number is for; packages of ops keep their number, so that those who read 1 read them.
inline constexpr int kPackageFormat = 2;
// How kernels are called: ir::TaskFn (kernels/ir/task.h), the platform's C calling convention, workspaces aligned to
// ir::kWorkspaceAlign. A change of any of these gets another number.
inline constexpr int kPackageAbi = 1;

// A regular file in the package's folder.
struct PackageFile {
  std::string name;  // letters, digits, '.', '_', '-'; does not begin with '.'
  int64_t bytes = 0;
  std::string sha256;  // 64 lower-case hexadecimal digits
  bool operator==(const PackageFile&) const = default;
};

struct PackageKernel {
  std::string symbol;   // of a function in the variant's object
  std::string loop_ir;  // a file: the text that the function was compiled from
  bool operator==(const PackageKernel&) const = default;
};

// Machine code of one op for one kind of CPU. Names of instruction sets and features are texts: one that this build
// does not know makes the variant unusable and not the package.
struct PackageVariant {
  std::string isa;                     // a row of isa.inc: "avx512"
  std::string arch;                    // "x86_64", "aarch64"
  std::string mcpu;                    // LLVM's name of the CPU it was made for; "": any that has the ISA
  std::vector<std::string> features;   // that the CPU needs, as `hone info` names them
  std::string codegen;                 // what made it: "llvm-19.1.7/5"
  std::string program;                 // TransformProgram
  std::string numerics;                // class of the program
  int64_t threads = 0;                 // preferred number; 0: none
  std::string object;                  // a file: ELF shared object
  std::vector<PackageKernel> kernels;  // run one after the other
  bool operator==(const PackageVariant&) const = default;
};

// Machine code of kernels of no op for one kind of CPU; fields as above.
struct PackageCode {
  std::string isa, arch, mcpu;
  std::vector<std::string> features;
  std::string codegen, object;
  std::vector<PackageKernel> kernels;  // at least one
  bool operator==(const PackageCode&) const = default;
};
// The code of a variant, whatever it is of.
PackageCode code_of(const PackageVariant& variant);

struct PackageOp {
  std::string problem;
  std::vector<PackageVariant> variants;
  bool operator==(const PackageOp&) const = default;
};

// A condition on sizes that each call is checked for. Dimensions are texts: "p + s".
struct PackageGuard {
  std::string kind;         // "equal", "at_most", "at_least", "multiple"
  std::string left, right;  // dimensions
  std::string what, rule;   // of messages
  bool operator==(const PackageGuard&) const = default;
};

// Elements of a constant: row-major, dense, little-endian.
struct PackageConstant {
  std::string name;  // in the graph's text
  std::string file;
  bool operator==(const PackageConstant&) const = default;
};

struct PackageGraph {
  std::string text;             // a file: the graph
  std::string policy;           // of the plan: "default"
  std::vector<int64_t> tokens;  // numbers of tokens that it was compiled for
  std::vector<PackageGuard> guards;
  std::vector<PackageConstant> constants;
  bool operator==(const PackageGraph&) const = default;
};

struct Manifest {
  std::string engine;  // "hone 0.1.0": who wrote it
  std::vector<PackageFile> files;
  std::vector<PackageOp> ops;  // at least one, unless there is a graph
  // With a graph only.
  std::vector<PackageCode> kernels = {};
  std::optional<PackageGraph> graph = {};
  bool operator==(const Manifest&) const = default;

  const PackageFile* file(std::string_view name) const;  // null: not listed
};

// The same manifest gives the same text.
std::string print(const Manifest& manifest);

// Error: data_loss naming the field ("ops[0].variants[1].isa") and what it must be; unsupported for another format or
// ABI. Whatever the text is, memory stays in proportion to its length.
Result<Manifest> parse_manifest(std::string_view text);

// Longest manifest that is read: 4096 ops of three variants are a tenth of it.
inline constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;

}  // namespace hone::jit
