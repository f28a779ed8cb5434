// static_throughput with llvm-mca's library: the same pipeline (fetch, dispatch, execute, retire) over the same
// scheduling models, and the same bound from resources alone, as the llvm-mca tool prints. Its views are part of the
// tool, not of the library, so counting is done here.
//
// Cycles are taken in the steady state: the loop runs for a while before counting starts, and what drains after the
// last iteration is not counted. Loads hit L1 and no load aliases a store, as in the tool.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <llvm/MCA/Context.h>
#include <llvm/MCA/HWEventListener.h>
#include <llvm/MCA/InstrBuilder.h>
#include <llvm/MCA/Pipeline.h>
#include <llvm/MCA/SourceMgr.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <array>
#include <map>

#include "jit/inspect/mc_internal.h"
#include "jit/llvm/object.h"

namespace hone::jit {

namespace {

namespace mca = llvm::mca;

using Instructions = std::vector<std::unique_ptr<mca::Instruction>>;

// What happens during the iterations that count.
class Observer : public mca::HWEventListener {
 public:
  Observer(size_t instructions, unsigned iterations)
      : instructions_(instructions), first_(iterations / 2), retired_(iterations, 0) {}

  void onCycleBegin() override { ++cycle_; }
  void onCycleEnd() override {
    for (size_t reason = 0; reason < pressed_.size(); ++reason) pressure_cycles_[reason] += pressed_[reason];
    pressed_.fill(0);
  }
  void onEvent(const mca::HWInstructionEvent& event) override {
    const size_t at = event.IR.getSourceIndex(), iteration = at / instructions_;
    if (event.Type == mca::HWInstructionEvent::Retired && (at + 1) % instructions_ == 0) retired_[iteration] = cycle_;
    if (event.Type != mca::HWInstructionEvent::Issued || iteration < first_) return;
    for (const mca::ResourceUse& use : static_cast<const mca::HWInstructionIssuedEvent&>(event).UsedResources)
      used_[use.first] += use.second;
  }
  void onEvent(const mca::HWPressureEvent& event) override { pressed_[event.Reason] = 1; }

  double cycles() const { return static_cast<double>(retired_.back() - retired_[first_ - 1]) / counted(); }
  size_t pressure_cycles(mca::HWPressureEvent::GenericReason reason) const { return pressure_cycles_[reason]; }
  // Cycles per iteration of each unit: a resource's number and which of its units.
  std::map<mca::ResourceRef, double> used() const {
    std::map<mca::ResourceRef, double> per_iteration;
    for (const auto& [unit, cycles] : used_) per_iteration[unit] = cycles / counted();
    return per_iteration;
  }

 private:
  double counted() const { return static_cast<double>(retired_.size() - first_); }

  const size_t instructions_, first_;
  size_t cycle_ = 0;
  std::vector<size_t> retired_;  // by iteration: when its last instruction did
  std::array<char, mca::HWPressureEvent::MEMORY_DEPS + 1> pressed_{};
  std::array<size_t, mca::HWPressureEvent::MEMORY_DEPS + 1> pressure_cycles_{};
  std::map<mca::ResourceRef, double> used_;
};

// Names of CPUs that start like what was typed, as far as any does; none where none does.
std::vector<std::string> closest_names(llvm::ArrayRef<llvm::SubtargetSubTypeKV> cpus, std::string_view typed) {
  std::vector<std::string> names;
  size_t most = 1;
  for (const llvm::SubtargetSubTypeKV& cpu : cpus) {
    const std::string_view name(cpu.Key);
    const auto equal = std::mismatch(name.begin(), name.end(), typed.begin(), typed.end()).first - name.begin();
    if (static_cast<size_t>(equal) > most) names.clear();
    most = std::max(most, static_cast<size_t>(equal));
    if (static_cast<size_t>(equal) == most) names.emplace_back(name);
  }
  constexpr size_t kEnough = 16;  // to fit a line
  if (names.size() > kEnough) names.resize(kEnough);
  return names;
}

Result<std::unique_ptr<llvm::MCSubtargetInfo>> model_of(const Mc& mc, const std::string& cpu,
                                                        const std::vector<std::string>& features) {
  std::unique_ptr<llvm::MCSubtargetInfo> any(mc.target->createMCSubtargetInfo(mc.triple, "", ""));
  if (!any->isCPUStringValid(cpu)) {
    const std::vector<std::string> close = closest_names(any->getAllProcessorDescriptions(), cpu);
    return invalid_argument(fmt::format(
        "LLVM knows no CPU '{}' for {}; {}", cpu, mc.triple,
        close.empty() ? "its names are those of clang -mcpu" : fmt::format("it knows {}", fmt::join(close, ", "))));
  }
  std::unique_ptr<llvm::MCSubtargetInfo> model(mc.target->createMCSubtargetInfo(mc.triple, cpu, ""));
  if (!model->getSchedModel().hasInstrSchedModel())
    return invalid_argument(fmt::format("LLVM has no scheduling model of '{}'; name a CPU that has one", cpu));
  // A model is asked about classes of instructions, and answers for a vector that the CPU does not have.
  for (const std::string& feature : features)
    if (!model->checkFeatures("+" + feature))
      return invalid_argument(
          fmt::format("'{}' lacks {}, which this code needs; name a CPU that has it", cpu, feature));
  return model;
}

Result<std::vector<llvm::MCInst>> decode_all(const Mc& mc, std::span<const std::byte> code) {
  const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.data()), code.size());
  std::vector<llvm::MCInst> all;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size = 0;
    if (mc.disassembler->getInstruction(all.emplace_back(), size, bytes.drop_front(at), at, llvm::nulls()) !=
        llvm::MCDisassembler::Success)
      return invalid_argument(fmt::format("byte {} of the loop is no instruction ({:#04x})", at, bytes[at]));
    const llvm::MCInstrDesc& desc = mc.desc(all.back());
    if (desc.isCall() || desc.isReturn())
      return unsupported(fmt::format("the loop leaves its code at byte {}: what a call costs is not in it", at));
    at += size;
  }
  if (all.empty()) return invalid_argument("the loop is empty: there is nothing to simulate");
  return all;
}

// With what no ISA requires and the instructions need: of that the models give numbers for CPUs that lack it.
std::vector<std::string> with_optional(const Mc& mc, Arch arch, std::span<const llvm::MCInst> decoded,
                                       std::vector<std::string> features) {
  const auto pairs = [&](const llvm::MCInst& inst) { return mc.name(inst).find("BF16") != std::string_view::npos; };
  if (arch == Arch::kX86_64 && std::any_of(decoded.begin(), decoded.end(), pairs))
    features.emplace_back(feature_name(Feature::kAvx512Bf16));
  return features;
}

Result<Instructions> lower(const Mc& mc, const llvm::MCSubtargetInfo& model, const std::string& cpu,
                           mca::InstrBuilder& builder, std::span<const llvm::MCInst> decoded) {
  const std::unique_ptr<mca::InstrPostProcess> post(mc.target->createInstrPostProcess(model, *mc.instructions));
  Instructions lowered;
  for (const llvm::MCInst& inst : decoded) {
    auto made = builder.createInstruction(inst, {});
    if (!made) {
      const std::string why = llvm::toString(made.takeError());
      return unsupported(fmt::format("the scheduling model of {} lacks {}: {}", cpu, mc.name(inst), why));
    }
    lowered.push_back(std::move(*made));
    if (post) post->postProcessInstruction(lowered.back(), inst);
  }
  return lowered;
}

// What one iteration demands of dispatch and of each resource, whatever the order.
struct Demand {
  unsigned uops = 0;
  std::vector<unsigned> cycles;  // by resource
  double bound = 0;
  int resource = -1;  // that gives the bound; -1: dispatch does
};

Demand demand_of(const llvm::MCSchedModel& model, const Instructions& instructions) {
  llvm::SmallVector<uint64_t, 64> masks(model.getNumProcResourceKinds(), 0);
  mca::computeProcResourceMasks(model, masks);
  std::map<unsigned, unsigned> resource_of;  // by the position of the highest bit in its mask
  for (unsigned i = 1; i < masks.size(); ++i) resource_of[mca::getResourceStateIndex(masks[i])] = i;
  Demand demand{.cycles = std::vector<unsigned>(masks.size(), 0)};
  for (const auto& instruction : instructions) {
    demand.uops += instruction->getDesc().NumMicroOps;
    for (const auto& [mask, usage] : instruction->getDesc().Resources)
      demand.cycles[resource_of[mca::getResourceStateIndex(mask)]] += usage.size();
  }
  demand.bound = mca::computeBlockRThroughput(model, model.IssueWidth, demand.uops, demand.cycles);
  double most = static_cast<double>(demand.uops) / model.IssueWidth;
  for (unsigned i = 1; i < masks.size(); ++i) {
    const double needed = static_cast<double>(demand.cycles[i]) / model.getProcResource(i)->NumUnits;
    if (needed <= most) continue;
    most = needed;
    demand.resource = static_cast<int>(i);
  }
  return demand;
}

std::string unit_name(const llvm::MCSchedModel& model, const mca::ResourceRef& unit) {
  const llvm::MCProcResourceDesc* resource = model.getProcResource(static_cast<unsigned>(unit.first));
  if (resource->NumUnits == 1) return resource->Name;
  return fmt::format("{}.{}", resource->Name, llvm::countr_zero(unit.second));
}

// A group goes by its units: models have several groups of the same ones.
std::string resource_name(const llvm::MCSchedModel& model, unsigned index) {
  const llvm::MCProcResourceDesc* resource = model.getProcResource(index);
  if (resource->SubUnitsIdxBegin == nullptr) return resource->Name;
  std::string name;
  for (unsigned u = 0; u < resource->NumUnits; ++u)
    name += (u == 0 ? "" : "/") + std::string(model.getProcResource(resource->SubUnitsIdxBegin[u])->Name);
  return name;
}

// Where the simulation stays within 5% of what resources allow, the scarcest one is the limit. Otherwise it is what
// most often kept the schedulers full.
std::string bottleneck_of(const llvm::MCSchedModel& model, const Demand& demand, const Observer& seen) {
  if (demand.bound == 0) return "none";
  if (seen.cycles() <= 1.05 * demand.bound)
    return demand.resource < 0 ? "dispatch width"
                               : "resource " + resource_name(model, static_cast<unsigned>(demand.resource));
  const size_t resources = seen.pressure_cycles(mca::HWPressureEvent::RESOURCES),
               registers = seen.pressure_cycles(mca::HWPressureEvent::REGISTER_DEPS),
               memory = seen.pressure_cycles(mca::HWPressureEvent::MEMORY_DEPS);
  const size_t most = std::max({resources, registers, memory});
  if (most == 0) return "none";
  if (most == registers) return "register dependency";
  if (most == memory) return "memory dependency";
  const auto used = seen.used();
  const auto busiest = std::max_element(used.begin(), used.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return busiest == used.end() ? "none" : "resource " + unit_name(model, busiest->first);
}

// Enough for a steady state, and no more than a second or so for a body of thousands of instructions.
unsigned iterations_for(size_t instructions) {
  return static_cast<unsigned>(std::clamp<size_t>(200'000 / instructions, 20, 400));
}

}  // namespace

std::string host_cpu() { return llvm::sys::getHostCPUName().str(); }

Result<StaticThroughput> static_throughput(std::span<const std::byte> code, Isa isa, const std::string& cpu) {
  return static_throughput(code, isa_info(isa).arch, llvm_features(isa), cpu);
}

Result<StaticThroughput> static_throughput(std::span<const std::byte> code, Arch arch,
                                           const std::vector<std::string>& features, const std::string& cpu) {
  if (cpu.empty() && arch != host_arch())
    return invalid_argument(fmt::format("the code is for {} and this CPU is not; name a CPU", arch_name(arch)));
  StaticThroughput result{.cpu = cpu.empty() ? host_cpu() : cpu};
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Mc> mc, make_mc(arch));
  HONE_ASSIGN_OR_RETURN(const std::vector<llvm::MCInst> decoded, decode_all(*mc, code));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<llvm::MCSubtargetInfo> subtarget,
                        model_of(*mc, result.cpu, with_optional(*mc, arch, decoded, features)));
  const llvm::MCSchedModel& model = subtarget->getSchedModel();
  const mca::InstrumentManager instruments(*subtarget, *mc->instructions);
  constexpr unsigned kCallLatency = 100;  // the tool's; kernels call nothing
  mca::InstrBuilder builder(*subtarget, *mc->instructions, *mc->registers, mc->analysis.get(), instruments,
                            kCallLatency);
  HONE_ASSIGN_OR_RETURN(const Instructions lowered, lower(*mc, *subtarget, result.cpu, builder, decoded));

  const unsigned iterations = iterations_for(lowered.size());
  mca::CircularSourceMgr source(lowered, iterations);
  mca::CustomBehaviour behaviour(*subtarget, source, *mc->instructions);
  mca::Context context(*mc->registers, *subtarget);
  const mca::PipelineOptions options(/*UOPQSize=*/0, /*DecThr=*/0, /*DW=*/0, /*RFS=*/0, /*LQS=*/0, /*SQS=*/0,
                                     /*NoAlias=*/true, /*ShouldEnableBottleneckAnalysis=*/true);
  const std::unique_ptr<mca::Pipeline> pipeline = model.isOutOfOrder()
                                                      ? context.createDefaultPipeline(options, source, behaviour)
                                                      : context.createInOrderPipeline(options, source, behaviour);
  Observer seen(lowered.size(), iterations);
  pipeline->addEventListener(&seen);
  if (auto cycles = pipeline->run(); !cycles)
    return internal_error("llvm-mca's simulation failed: " + llvm::toString(cycles.takeError()));

  const Demand demand = demand_of(model, lowered);
  result.block_rthroughput = demand.bound;
  result.cycles = seen.cycles();
  result.ipc = static_cast<double>(lowered.size()) / result.cycles;
  result.uops = demand.uops;
  result.bottleneck = bottleneck_of(model, demand, seen);
  for (const auto& [unit, cycles] : seen.used()) result.pressure.emplace_back(unit_name(model, unit), cycles);
  return result;
}

}  // namespace hone::jit
