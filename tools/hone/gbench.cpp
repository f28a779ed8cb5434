// See gbench.h. Field names and their order are those of Google Benchmark 1.7.
#include "tools/hone/gbench.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>
#include <numeric>
#include <thread>

#include "autotune/search/stats.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

// What work / time is: different in every repetition.
constexpr std::array<std::string_view, 2> kRates = {"gflops", "gbs"};

struct Benchmark {
  std::string name, label, error;
  int64_t threads = 1;
  double ns = 0;               // median
  std::vector<double> rounds;  // ns
  Json counters = Json::object();
};

Benchmark benchmark_of(const Table& table, const std::vector<Cell>& row) {
  Benchmark b;
  for (size_t c = 0; c < row.size(); ++c) {
    const std::string& column = table.columns[c].name;
    const Cell& cell = row[c];
    if (const auto* text = std::get_if<std::string>(&cell)) {
      if (column == "problem" || column == "impl") {
        b.name += (b.name.empty() ? "" : "/") + *text;
      } else if (column == "why_not") {
        b.error = *text;
      } else if (!text->empty()) {
        b.label += (b.label.empty() ? "" : "; ") + *text;
      }
    } else if (const auto* list = std::get_if<std::vector<double>>(&cell)) {
      b.rounds = *list;
    } else if (const auto* whole = std::get_if<int64_t>(&cell)) {
      b.threads = *whole;  // the only integer there is
    } else if (const auto* range = std::get_if<Range>(&cell)) {
      b.counters[column + "_lo"] = range->lo, b.counters[column + "_hi"] = range->hi;
    } else if (const auto* number = std::get_if<double>(&cell)) {
      if (column == "ns") b.ns = *number;
      if (column != "ns" && std::isfinite(*number)) b.counters[column] = *number;
    }
  }
  b.name += fmt::format("/threads:{}", b.threads);
  return b;
}

Json entry(const Benchmark& b, size_t family, const std::string& suffix) {
  return {{"name", b.name + suffix},
          {"family_index", family},
          {"per_family_instance_index", 0},
          {"run_name", b.name},
          {"run_type", suffix.empty() ? "iteration" : "aggregate"},
          {"repetitions", b.rounds.size()}};
}

void add_time(Json& entry, double time, std::string_view unit) {
  entry["real_time"] = entry["cpu_time"] = time;
  entry["time_unit"] = unit;
}

void add_benchmark(const Benchmark& b, size_t family, Json& all) {
  if (b.rounds.empty()) {
    Json failed = entry(b, family, "");
    failed["error_occurred"] = true;
    failed["error_message"] = b.error;
    all.push_back(std::move(failed));
    return;
  }
  for (size_t i = 0; i < b.rounds.size(); ++i) {
    Json run = entry(b, family, "");
    run["repetition_index"] = i, run["threads"] = b.threads, run["iterations"] = 1;
    add_time(run, b.rounds[i], "ns");
    for (std::string_view rate : kRates)
      if (b.counters.contains(rate))
        run[std::string(rate)] = b.counters[std::string(rate)].get<double>() * b.ns / b.rounds[i];
    run["label"] = b.label;
    all.push_back(std::move(run));
  }
  if (b.rounds.size() < 2) return;
  const auto count = static_cast<double>(b.rounds.size());
  const double mean = std::accumulate(b.rounds.begin(), b.rounds.end(), 0.0) / count;
  double squares = 0;
  for (double ns : b.rounds) squares += (ns - mean) * (ns - mean);
  const double stddev = std::sqrt(squares / (count - 1));
  const std::pair<const char*, double> aggregates[] = {
      {"mean", mean}, {"median", autotune::median(b.rounds)}, {"stddev", stddev}, {"cv", stddev / mean}};
  for (const auto& [name, value] : aggregates) {
    Json aggregate = entry(b, family, fmt::format("_{}", name));
    const bool is_share = std::string_view(name) == "cv";
    aggregate["threads"] = b.threads, aggregate["aggregate_name"] = name;
    aggregate["aggregate_unit"] = is_share ? "percentage" : "time";
    aggregate["iterations"] = b.rounds.size();
    add_time(aggregate, value, "ns");
    if (std::string_view(name) == "median") aggregate.update(b.counters);
    aggregate["label"] = b.label;
    all.push_back(std::move(aggregate));
  }
}

Json context_of(const Table* summary) {
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);  // without a name it is ""
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  Json context = {{"date", fmt::format("{:%FT%T}", local)},
                  {"host_name", host},
                  {"executable", "hone"},
                  {"num_cpus", std::thread::hardware_concurrency()},
                  {"library_build_type", "release"}};
  if (summary == nullptr) return context;
  Json& lines = context[summary->name] = Json::array();
  for (const auto& row : summary->rows) lines.push_back(row_to_json(*summary, row));
  return context;
}

}  // namespace

std::string render_gbench(const Table& table, const Table* summary) {
  Json benchmarks = Json::array();
  for (size_t i = 0; i < table.rows.size(); ++i) add_benchmark(benchmark_of(table, table.rows[i]), i, benchmarks);
  return dump(Json({{"context", context_of(summary)}, {"benchmarks", benchmarks}}), 2) + "\n";
}

}  // namespace hone::cli
