// See emitted.h.
#include "tests/jit/inspect/emitted.h"

#include <algorithm>

namespace hone::jit {

namespace {

InnerLoop inner_loop(const CodeFacts& facts, int index) {
  InnerLoop loop{.counts = facts.loops[static_cast<size_t>(index)].counts};
  std::copy_if(facts.instructions.begin(), facts.instructions.end(), std::back_inserter(loop.instructions),
               [&](const Instruction& i) { return i.loop == index; });
  return loop;
}

std::string_view mnemonic_of(const Instruction& i) { return std::string_view(i.text).substr(0, i.text.find(' ')); }

}  // namespace

int InnerLoop::mnemonic(std::string_view name) const {
  return static_cast<int>(std::count_if(instructions.begin(), instructions.end(),
                                        [&](const Instruction& i) { return mnemonic_of(i) == name; }));
}

int InnerLoop::with(std::string_view part) const {
  return static_cast<int>(std::count_if(instructions.begin(), instructions.end(),
                                        [&](const Instruction& i) { return i.text.find(part) != std::string::npos; }));
}

int InnerLoop::vector_moves() const {
  return static_cast<int>(std::count_if(instructions.begin(), instructions.end(), [](const Instruction& i) {
    return mnemonic_of(i).starts_with("vmov") && i.classes.vector && !i.classes.load && !i.classes.store;
  }));
}

std::string InnerLoop::text() const {
  std::string all;
  for (const Instruction& i : instructions) all += i.text + "\n";
  return all;
}

std::vector<InnerLoop> Emitted::inner_loops() const {
  std::vector<InnerLoop> loops;
  for (size_t i = 0; i < facts.loops.size(); ++i)
    if (facts.loops[i].innermost) loops.push_back(inner_loop(facts, static_cast<int>(i)));
  return loops;
}

InnerLoop Emitted::hot_loop() const { return facts.hottest < 0 ? InnerLoop{} : inner_loop(facts, facts.hottest); }

bool Emitted::has(std::string_view text) const {
  return std::any_of(facts.instructions.begin(), facts.instructions.end(),
                     [&](const Instruction& i) { return i.text.find(text) != std::string::npos; });
}

Result<Emitted> emit(CodeGenerator& generator, const ir::Kernel& kernel, Isa isa) {
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<CompiledKernel> compiled,
                        generator.compile(kernel, isa, {.cpu = features_of(isa_info(isa).arch)}));
  Emitted emitted{.code = {compiled->code().begin(), compiled->code().end()}};
  HONE_ASSIGN_OR_RETURN(emitted.facts, inspect(emitted.code, isa));
  return emitted;
}

}  // namespace hone::jit
