// Small texts: options of commands, environment variables, files of the cgroup. The first line says which.
#include <cmath>

#include "engine/base/cpu_quota.h"
#include "engine/base/env.h"
#include "engine/base/log.h"
#include "engine/runtime/schedule.h"
#include "jit/announce/announce.h"
#include "kernels/op/op.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/hone/cli.h"
#include "tools/hone/fuzz_case.h"

using namespace hone;

namespace {

// Commands print through note(), which escapes.
template <typename T>
void require_of_command(const Result<T>& result) {
  if (!result.ok()) HONE_FUZZ_REQUIRE(!result.status().message().empty());
}
template <typename T>
void require(const Result<T>& result) {
  if (!result.ok()) fuzz::require_message(result.status());
}

void duration(const std::string& text) {
  const Result<double> seconds = cli::parse_duration(text);
  require_of_command(seconds);
  if (seconds.ok()) HONE_FUZZ_REQUIRE(std::isfinite(*seconds) && *seconds > 0);
}

void threads(const std::string& text) {
  const Result<std::vector<int>> counts = cli::parse_threads(text);
  require_of_command(counts);
  if (counts.ok())
    for (const int n : *counts) HONE_FUZZ_REQUIRE(n >= 1);
  Machine machine;
  machine.cpus_usable = 3;
  const int in_force = resolve_threads(text, machine).threads;
  HONE_FUZZ_REQUIRE(in_force >= 1 && in_force <= kMaxThreads);
}

void quota(const std::string& text) {
  std::string_view rest = text;
  const std::string_view first = fuzz::take_line(rest);
  for (const std::optional<CpuQuota>& q : {parse_cpu_max(text), parse_cfs_quota(first, rest)}) {
    if (q) HONE_FUZZ_REQUIRE(q->cpus > 0 && std::isfinite(q->cpus));
    HONE_FUZZ_REQUIRE(usable_cpus(4, q).count >= 1 && usable_cpus(4, q).count <= 4);
  }
}

void names(const std::string& text) {
  (void)parse_log_topics(text);
  (void)jit::parse_announcees(text);
  (void)parse_feature(text);
  (void)parse_isa(text);
  (void)parse_dtype(text);
  require(runtime::parse_schedule_kind(text));
  require(cli::parse_codegens(text));
}

void numerics(const std::string& text) {
  static const std::vector<op::Problem> problems = {
      op::parse_problem("matmul:f32:m=1,n=1,k=1").value(),
      op::parse_problem("attention:f32:b=1,hq=1,hkv=1,q=1,kv=1,d=1").value()};
  for (const op::Problem& p : problems) {
    const Status known = op::check_numerics(p, text);
    if (!known.ok()) fuzz::require_message(known);
    if (known.ok()) (void)op::precompiled_class(p, text);
  }
}

void repeat_file(const std::string& text) {
  const Result<cli::FuzzCase> c = cli::parse_case(text);
  require(c);
  if (!c.ok()) return;
  const Result<cli::FuzzCase> again = cli::parse_case(cli::to_text(*c));
  HONE_FUZZ_REQUIRE(again.ok() && *again == *c);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  const std::string_view which = fuzz::take_line(text);
  const std::string rest(text);
  if (which == "duration") duration(rest);
  if (which == "threads") threads(rest);
  if (which == "quota") quota(rest);
  if (which == "names") names(rest);
  if (which == "numerics") numerics(rest);
  if (which == "repeat") repeat_file(rest);
  return 0;
}
