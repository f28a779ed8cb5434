// Studies as people and machines read them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/hone/codegen.h"
#include "tools/hone/json.h"
#include "tools/hone/table.h"

namespace hone::cli {

// {problem, program, ..., generators [...], ratio_llvm_to_native, ratio_ci95, bits_equal}
Json study_json(const Study& study);
// One row a generator, for csv and sql.
Table codegen_table(std::span<const Study> studies);
// What is known of one problem, for people: times, counts of all of the code and of inner loops, models, counters.
// Tables without rows are left out.
std::vector<Table> study_tables(const Study& study);
// "llvm / asmjit 0.998 [0.995, 1.001]", or why not.
std::string ratio_text(const Study& study);
// "bits equal", or why not.
std::string bits_text(const Study& study);
// All about one problem: these tables, and the inner loops of the first two generators side by side.
std::string study_text(const Study& study);
// One row a problem.
Table overview_table(std::span<const Study> studies);
// How the ratios to the native code are distributed over all problems, a row for each other generator; and what holds
// of the native code itself.
Table distribution_table(std::span<const Study> studies);

// One problem that could not be studied at all, in place of study_json().
Json failed_json(const std::string& problem, const std::string& why);

}  // namespace hone::cli
