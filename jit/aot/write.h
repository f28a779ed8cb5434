// Compiling to a package: LoopIR -> objects (LLVM) -> shared objects (a linker) -> a folder that package.h reads.
//
// The same input gives the same bytes, as far as the linker keeps that promise (lld and ld do).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/aot/manifest.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// A CPU to compile for.
struct AotTarget {
  Isa isa = Isa::kAvx2;
  std::string mcpu;  // as the manifest records it; "": any that has the ISA
  std::string tune;  // whose machine model schedules the code; "": ours for the ISA
  // What the CPU has of that which only some kernels need (ir::required_features). Code of others does not use it.
  FeatureSet optional = {};
  bool operator==(const AotTarget&) const = default;
};
// What LLVM knows as `mcpu`: the strongest instruction set whose features that CPU has, or `wanted` if it has those.
// "native" is any CPU that has what this machine has (`host`: its features), as code that is compiled to be run at once
// is; levels ("x86-64-v4") and "generic" have no machine model of their own either.
// Error: invalid_argument naming CPUs there are, or the features that one lacks; unsupported in a build without LLVM.
Result<AotTarget> aot_target(const std::string& mcpu, const FeatureSet& host, const Isa* wanted = nullptr);

// One variant to compile: what was chosen, and the kernels that it lowers to.
struct AotVariant {
  AotTarget target;
  std::string program, numerics;
  int64_t threads = 0;  // preferred; 0: none
  std::vector<ir::Kernel> kernels;
};
struct AotOp {
  std::string problem;
  std::vector<AotVariant> variants;
};

// Kernels of no op, for one CPU.
struct AotKernels {
  AotTarget target;
  std::vector<ir::Kernel> kernels;
};
struct AotConstant {
  std::string name;  // in the graph's text
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;  // of `data`
};
struct AotGraph {
  std::string text, policy;
  std::vector<int64_t> tokens;
  std::vector<PackageGuard> guards;
  std::vector<AotConstant> constants;
};
// All kernels for one CPU become one shared object, in which equal ones are once.
struct AotGraphPackage {
  AotGraph graph;
  std::vector<AotOp> ops;
  std::vector<AotKernels> kernels;
};

enum class Replace : uint8_t {
  kNothing,  // what is there already is an error
  kPackage,  // a package gives way; anything else is an error
};

// Where a package goes: `path` without the slashes at its end. Error: invalid_argument, before anything is compiled,
// when that is no place for one: no name, no folder to put it in, something there that may not be replaced.
Result<std::string> package_place(const std::string& path, Replace replace);

// Compiles, links and writes; `path` appears when it is complete, or not at all, and what it replaces is there until
// then. Errors: as package_place and link_shared, resource_exhausted (disk), unsupported (a build without LLVM).
Result<Manifest> write_package(const std::vector<AotOp>& ops, const std::string& path, Replace replace);
// The same, and invalid_argument for what the reader of manifests would refuse (a name that cannot be printed).
Result<Manifest> write_graph_package(const AotGraphPackage& package, const std::string& path, Replace replace);

}  // namespace hone::jit
