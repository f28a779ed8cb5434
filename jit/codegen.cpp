// The registry of code generators: one list (backends.inc) gives the factories and the order of preference.
#include "jit/codegen.h"

#include <algorithm>

#include "engine/base/machine.h"
#include "engine/base/printable.h"
#include "jit/fault.h"
#include "jit/llvm/pipelines.h"

namespace hone::jit {

// Each factory is defined in the folder of its backend.
#define HONE_BACKEND(id, name, factory) std::unique_ptr<CodeGenerator> factory();
#include "jit/backends.inc"
#undef HONE_BACKEND

std::span<CodeGenerator* const> code_generators() {
  static const std::vector<std::unique_ptr<CodeGenerator>> owned = [] {
    std::vector<std::unique_ptr<CodeGenerator>> all;
#define HONE_BACKEND(id, name, factory) all.push_back(factory());
#include "jit/backends.inc"
#undef HONE_BACKEND
    return all;
  }();
  static const std::vector<CodeGenerator*> list = [] {
    std::vector<CodeGenerator*> all;
    for (const std::unique_ptr<CodeGenerator>& g : owned) all.push_back(g.get());
    return all;
  }();
  return list;
}

std::vector<CodeGenerator*> compiling_generators() {
  std::vector<CodeGenerator*> all;
  for (CodeGenerator* g : code_generators())
    if (g->name() != "interp") all.push_back(g);
  return all;
}

namespace {

// Read once: what this CPU has does not change, and asking the OS for the rest of a Machine takes a millisecond.
const FeatureSet& features_here() {
  static const FeatureSet features = [] {
    const Result<Machine> machine = detect_machine();
    return machine.ok() ? machine->features : FeatureSet{};
  }();
  return features;
}

}  // namespace

FeatureSet needed_features(std::span<const ir::Kernel> kernels, Isa isa) {
  FeatureSet needed = isa_info(isa).required;
  for (const ir::Kernel& kernel : kernels)
    for (const std::string& name : ir::required_features(kernel).names()) needed.add(*parse_feature(name));
  return needed;
}

Status check_features(const ir::Kernel& kernel, Isa isa, const CompileOptions& options) {
  const FeatureSet needed = ir::required_features(kernel);
  if (needed == FeatureSet{}) return {};
  const std::string what = "kernel '" + kernel.name + "' works on pairs of bf16, which takes AVX512_BF16: ";
  if (!isa_info(isa).required.has(Feature::kAvx512F))
    return unsupported(what + std::string(isa_info(isa).name) + " has no such instructions");
  if (!(options.cpu ? *options.cpu : features_here()).contains(needed))
    return unsupported(what + "the CPU that the code is for lacks it");
  return {};
}

#ifndef HONE_WITH_LLVM
CodeGenerator* find_llvm_pipeline(std::string_view) { return nullptr; }
std::vector<std::string_view> llvm_pipeline_names() { return {}; }
#endif

Result<CodeGenerator*> find_code_generator(std::string_view name) {
  std::string names;
  for (CodeGenerator* g : code_generators()) {
    if (g->name() == name) return g;
    names += (names.empty() ? "" : ", ") + std::string(g->name());
  }
  if (CodeGenerator* pipeline = find_llvm_pipeline(name)) return pipeline;
  if (CodeGenerator* fault = find_fault_generator(name)) return fault;
  return not_found("code generator '" + printable(name) + "' is not in this build; it has: " + names);
}

}  // namespace hone::jit
