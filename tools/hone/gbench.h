// The JSON of Google Benchmark, for compare.py and the dashboards that read it.
#pragma once

#include <string>

#include "tools/hone/table.h"

namespace hone::cli {

// `table` has the columns problem, impl, threads, ns and rounds_ns. A row becomes one benchmark,
// "PROBLEM/IMPL/threads:N": a repetition for each round, then mean, median, stddev and cv when there is more than one.
// The other numbers of the row are counters of the median, its texts the label. A row without a time is an error entry.
// cpu_time equals real_time: a sample is the time of a call, on however many threads. `summary` goes into the context.
std::string render_gbench(const Table& table, const Table* summary);

}  // namespace hone::cli
