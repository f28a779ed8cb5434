// See packages.h.
#include "engine/plan/packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kernels/ir/text.h"

namespace hone::plan {
namespace {

Status named(const jit::Package& package, const jit::PackageOp& op, const Status& status) {
  return {status.code(), fmt::format("package {}: {}: {}", package.path(), op.problem, status.message())};
}

Result<std::vector<std::string>> lowered(const op::Problem& problem, const op::Program& program) {
  HONE_ASSIGN_OR_RETURN(const std::vector<ir::Kernel> kernels, op::lower(problem, program));
  std::vector<std::string> texts;
  for (const ir::Kernel& kernel : kernels) texts.push_back(ir::print(kernel));
  return texts;
}

// What is first on a line of one text and not of the other.
std::string first_difference(std::string_view ours, std::string_view theirs) {
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const size_t at = static_cast<size_t>(a - ours.begin());
  const auto line = [at](std::string_view text) {
    const size_t begin = at == 0 ? 0 : text.rfind('\n', std::min(at, text.size()) - 1) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  return fmt::format("line {}: '{}', here '{}'", 1 + std::count(ours.begin(), a, '\n'), line(theirs), line(ours));
}

Status check_lowering(const jit::PackageVariant& variant, const PackagedOp& op) {
  const Result<std::vector<std::string>> ours = lowered(op.problem, op.program);
  if (!ours.ok()) return ours.status();
  if (ours->size() != variant.kernels.size())
    return unsupported(fmt::format("this build lowers it to {} kernels, the package has {}; compile it again",
                                   ours->size(), variant.kernels.size()));
  for (size_t k = 0; k < ours->size(); ++k)
    if ((*ours)[k] != op.loop_ir[k])
      return unsupported(fmt::format("this build lowers it otherwise, compile it again ({}, {})",
                                     variant.kernels[k].loop_ir, first_difference((*ours)[k], op.loop_ir[k])));
  return {};
}

Result<PackagedOp> admit_op(const jit::Package& package, const jit::PackageOp& op, const jit::PackageHost& host) {
  HONE_ASSIGN_OR_RETURN(const size_t chosen, jit::choose_variant(op, host));
  const jit::PackageVariant& variant = op.variants[chosen];
  HONE_ASSIGN_OR_RETURN(op::Problem problem, op::parse_problem(op.problem));
  HONE_ASSIGN_OR_RETURN(op::Program program, op::parse_program(problem, variant.program));
  HONE_RETURN_IF_ERROR(op::legal(problem, program));
  if (isa_info(op::isa(program)).name != variant.isa)
    return invalid_argument(
        fmt::format("the program is for {}, the variant for {}", isa_info(op::isa(program)).name, variant.isa));
  if (op::numerics(program) != variant.numerics)
    return invalid_argument(
        fmt::format("the program has numerics '{}', the variant says '{}'", op::numerics(program), variant.numerics));
  PackagedOp packaged{.package = package.path(),
                      .engine = package.manifest().engine,
                      .codegen = variant.codegen,
                      .problem = std::move(problem),
                      .program = std::move(program),
                      .threads = static_cast<int>(variant.threads),
                      .loop_ir = {},
                      .variant = chosen};
  for (const jit::PackageKernel& kernel : variant.kernels) packaged.loop_ir.push_back(package.loop_ir(kernel));
  HONE_RETURN_IF_ERROR(check_lowering(variant, packaged));
  return packaged;
}

}  // namespace

Result<PackagedOp> admit(const jit::Package& package, const jit::PackageOp& op, const jit::PackageHost& host) {
  Result<PackagedOp> admitted = admit_op(package, op, host);
  if (!admitted.ok()) return named(package, op, admitted.status());
  return admitted;
}

void Packages::add(PackagedOp op) {
  std::vector<PackagedOp>& family = families_[op::family(op.problem)];
  std::erase_if(family,
                [&](const PackagedOp& known) { return known.problem == op.problem && known.program == op.program; });
  family.insert(family.begin(), std::move(op));
}

std::span<const PackagedOp> Packages::of_family(const std::string& family) const {
  const auto it = families_.find(family);
  if (it == families_.end()) return {};
  return it->second;
}

size_t Packages::size() const {
  return std::accumulate(families_.begin(), families_.end(), size_t{0},
                         [](size_t sum, const auto& family) { return sum + family.second.size(); });
}

bool is_lowering_of(const op::Problem& problem, const op::Program& program, std::span<const std::string> loop_ir) {
  const Result<std::vector<std::string>> ours = lowered(problem, program);
  return ours.ok() && std::ranges::equal(*ours, loop_ir);
}

}  // namespace hone::plan
