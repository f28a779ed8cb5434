// The default AttentionProgram: chosen from shape, ISA and cache sizes alone. A pure function.
#pragma once

#include <optional>
#include <string_view>

#include "engine/base/machine.h"
#include "kernels/attention/program.h"

namespace hone::attention {

// What plan may be chosen. "" or "default": class online(kDefaultKeyBlock) only; "any": every class; else one class by
// name. Error: invalid_argument listing the forms.
Status check_numerics(std::string_view wanted);
bool numerics_allowed(std::string_view wanted, std::string_view offered);

// What a class by name says of a program: the cheapest algorithm that has it, its blocks of keys (0 for ordered, which
// has none) and splits. Nothing for a name that is no class.
struct NumericsClass {
  Algorithm algorithm = Algorithm::kOnline;
  int64_t bk = 0;
  int64_t splits = 1;
};
std::optional<NumericsClass> parse_class(std::string_view name);

// Of a class that `numerics` (checked) allows. Legal, unless no task of that class fits a workspace (ordered with
// millions of keys, split with thousands of rows): legal() says so.
AttentionProgram default_program(const AttentionProblem& problem, Isa isa, const BlockingCaches& caches,
                                 std::string_view numerics = {});

// What is done without a fused kernel, to compare with: all scores, their softmax, the values. As many rows in a task
// as its workspace allows. Class ordered.
AttentionProgram materialised_program(const AttentionProblem& problem, Isa isa, const BlockingCaches& caches);

// Keys between the two times that a line is announced (program.h, lead): 1 KB apart, a quarter of a page, in which the
// prefetcher of L2 finds its way (announce.cpp).
int64_t lead_keys(const AttentionProblem& problem);

// Multiply-adds of a problem, or those that one core does while K, V, Q and O move to and from memory if these are
// more.
double region_work(const AttentionProblem& problem);

}  // namespace hone::attention
