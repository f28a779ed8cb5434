// Any op: what the tuner, the resolver and the commands know of matmul, attention and whatever comes, so that none of
// them asks which one it has in hand.
//
// An op is a row of kernels/ops.inc and a folder of the row's name, which is also its namespace, with
//   parse_problem, parse_problems, parse_program, problem_grammar      texts
//   to_string, family, validate, flops() of its problem
//   to_string, legal, canonical, lowering_identity, kernel_name, region_work of its program and problem
//   op.h: struct Op with Problem, Program and kName, and all in which ops differ (see kernels/matmul/op.h)
// What a program costs, which are worth trying and on what memory they are measured is in autotune, as overloads that
// the compiler asks for where an op has none.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "kernels/attention/op.h"
#include "kernels/ir/ir.h"
#include "kernels/matmul/op.h"
#include "kernels/op/types.h"

namespace hone::op {

template <typename, typename... Op>
struct Rows {
  using Problem = std::variant<typename Op::Problem...>;
  using Program = std::variant<typename Op::Program...>;
};
#define HONE_OP(name) , name::Op
using Ops = Rows<void
#include "kernels/ops.inc"
                 >;
#undef HONE_OP

using Problem = Ops::Problem;
using Program = Ops::Program;
using Adapted = AdaptedOf<Program>;

// ---- problems ----

std::string_view name(const Problem& problem);  // "matmul"
std::string to_string(const Problem& problem);
// Without sizes(): problems that differ only in them are one family.
std::string family(const Problem& problem);
// What plans of one family may differ in: m of matmul; b, q and kv of attention. The first that counts rows is what the
// database calls m.
std::vector<Size> sizes(const Problem& problem);
int64_t rows(const Problem& problem);
// How far apart the sizes of two problems of one family are, in doublings.
double distance(const Problem& one, const Problem& other);
std::string sizes_text(const Problem& problem);  // "m=128"
Status validate(const Problem& problem);
// There is nothing to compute: the output has no elements.
bool empty(const Problem& problem);
double flops(const Problem& problem);
// Bytes that have to move at least once, and those of them that a decoder streams (weights; K and V).
double bytes(const Problem& problem);
double streamed_bytes(const Problem& problem);
// Multiply-adds, or those that one core does while the operands move if that is more: what region.h takes.
double region_work(const Problem& problem);

// By the word before the first ':'. Errors as the op's own parser reports them, which names a column; unsupported,
// listing the ops, for a word that is none.
Result<Problem> parse_problem(std::string_view text);
Result<std::vector<Problem>> parse_problems(std::string_view text);  // with ranges and lists
std::string problem_grammar();                                       // of all ops

// ---- programs ----

std::string to_string(const Program& program);
// A program of the problem's op.
Result<Program> parse_program(const Problem& problem, std::string_view text);
Isa isa(const Program& program);
int lanes(const Program& program);
std::string numerics(const Program& program);
// Features of a CPU that its code needs beyond those of its ISA. Who may run it asks missing().
FeatureSet features(const Program& program);
// "needs avx512bf16, which this CPU lacks"; "" where `has` is enough.
std::string missing(const Program& program, const FeatureSet& has);

// ok, or the rule that is broken and the numbers; a program of another op is not legal.
Status legal(const Problem& problem, const Program& program);
Program canonical(const Problem& problem, const Program& program);
// Equal exactly for programs with the same LoopIR, as far as an op can tell without lowering.
Program lowering_identity(const Problem& problem, const Program& program);
std::string kernel_name(const Problem& problem, const Program& program);
// The kernels to run one after the other, each over all its tasks.
Result<std::vector<ir::Kernel>> lower(const Problem& problem, const Program& program);
// A program that was tuned for `tuned`, of the same family, and what had to be changed in it: tiles that held all rows
// there hold all rows here, weights are read in panels of `panel` when that is more than 0. It need not be legal.
Adapted adapt(const Problem& problem, const Problem& tuned, const Program& program, int64_t panel);
// Width of the panels that the program reads packed weights in; 0: it reads none.
int64_t panel(const Problem& problem, const Program& program);
// unsupported when `panel` is more than 0 and the program reads weights in panels of another width.
Status panel_fits(const Problem& problem, const Program& program, int64_t panel);
// Legal for the problem (as far as a panel allows), of a class that target.numerics (checked) allows.
Program default_program(const Problem& problem, const DefaultTarget& target);

// ---- numerics ----

// `wanted`: what a caller asks for. "" or "default": the class that plans have unless told otherwise; "any"; or one
// class by name. Error: invalid_argument listing the forms, or saying what the problem would have to be.
Status check_numerics(const Problem& problem, std::string_view wanted);
bool numerics_allowed(const Problem& problem, std::string_view wanted, std::string_view offered);
// `wanted` (checked) as plans for a CPU of `arch` with `features` are chosen under it: "any" becomes one class where
// all sizes of the problem must have the same.
std::string narrow_numerics(const Problem& problem, std::string_view wanted, const FeatureSet& features, Arch arch);
// The class that the op's precompiled kernel runs in for a caller who wants `wanted` (checked); "": it has none of
// them.
std::string precompiled_class(const Problem& problem, std::string_view wanted);

}  // namespace hone::op
