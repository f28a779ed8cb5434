// hone info: what machine is this, what can it do, what does hone have.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/cpu_library.h"
#include "engine/base/env.h"
#include "engine/base/perf_counters.h"
#include "engine/base/version.h"
#include "engine/model/packed_store.h"
#include "jit/cache/disk_cache.h"
#include "jit/codegen.h"
#include "jit/exec_memory.h"
#include "tools/hone/cli.h"
#include "tools/hone/info.h"
#include "tools/hone/json.h"
#include "tools/hone/regions.h"

namespace hone::cli {
namespace {

struct InfoArgs {
  bool json = false;
  std::string output = "text";
  bool measure = false;
  bool cpus = false;
  std::string db;
};

Json codegens_json(const Machine& machine) {
  Json all = Json::array();
  for (const jit::CodeGenerator* g : jit::code_generators()) {
    Json isas = Json::array();
    for (Isa isa : all_isas())
      if (machine.supports(isa) && g->emits(isa)) isas.push_back(isa_info(isa).name);
    all.push_back({{"name", g->name()}, {"version", g->version()}, {"isa", isas}});
  }
  return all;
}

// "ok" or why there is none, for each.
Json counters_json() {
  const PerfCounters counters = PerfCounters::of_this_thread();
  Json all = Json::object();
  for (const Counter c : kAllCounters) {
    const std::string& why = counters.why_not(c);
    all[std::string(counter_name(c))] = why.empty() ? "ok" : why;
  }
  return all;
}

// Counters with one answer share a line.
void print_counters(const Json& counters) {
  std::vector<std::pair<std::string, std::string>> groups;  // answer, names
  for (const auto& [name, answer] : counters.items()) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == answer; });
    if (same == groups.end()) {
      groups.emplace_back(answer, name);
    } else {
      same->second += ", " + name;
    }
  }
  for (const auto& [answer, names] : groups)
    print("{:12}{} ({})\n", &names == &groups.front().second ? "counters" : "", names, answer);
}

// The database as it is.
Json db_json(const Result<std::unique_ptr<db::Store>>& store, const std::string& path) {
  if (!store.ok()) return {{"path", path}, {"state", store.status().message()}, {"schema", nullptr}};
  const std::string& why = (*store)->message();
  const Result<std::string> wanted = path.empty() ? db::default_path() : Result<std::string>(path);
  return {{"path", wanted.ok() ? *wanted : (*store)->path()},
          {"state", why.empty() ? "ok" : why},
          {"schema", (*store)->schema_version()}};
}

// Compiled kernels on disk.
Json kernel_cache_json() {
  const std::shared_ptr<jit::DiskCache> cache = jit::disk_cache();
  const std::string why = cache->why_unused();
  const jit::CacheUsage usage = cache->usage();
  return {{"path", cache->place().folder},
          {"state", why.empty() ? "ok" : why},
          {"entries", usage.entries},
          {"bytes", usage.bytes},
          {"budget", cache->budget()}};
}

std::string kernel_cache_text(const Json& cache) {
  const std::string path = cache["path"].get<std::string>(), state = cache["state"].get<std::string>();
  if (state != "ok") return fmt::format("not used: {}", state);
  constexpr double kMiB = 1 << 20;
  const int64_t entries = cache["entries"].get<int64_t>();
  return fmt::format("{} ({} {}, {:.1f} of {:.0f} MiB)", path, entries, entries == 1 ? "kernel" : "kernels",
                     cache["bytes"].get<double>() / kMiB, cache["budget"].get<double>() / kMiB);
}

// Packed weights on disk.
Json weights_json() {
  const model::StorePlace place = model::store_place();
  const model::StoreUsage usage = model::stored_models(place);
  return {{"path", place.folder},
          {"state", usage.why_unused.empty() ? "ok" : usage.why_unused},
          {"models", usage.models.size()},
          {"bytes", usage.bytes()},
          {"limit", place.limit}};
}

std::string weights_text(const Json& weights) {
  const std::string state = weights["state"].get<std::string>();
  if (state != "ok") return fmt::format("not stored: {}", state);
  constexpr double kMiB = 1 << 20;
  const auto models = weights["models"].get<int64_t>();
  return fmt::format("{} ({} {}, {:.1f} of {:.0f} MiB)", weights["path"].get<std::string>(), models,
                     models == 1 ? "model" : "models", weights["bytes"].get<double>() / kMiB,
                     weights["limit"].get<double>() / kMiB);
}

std::string size_text(const Json& cache) {
  const int64_t bytes = cache["bytes"].get<int64_t>();
  const std::string size = bytes == 0 ? "unknown" : fmt::format("{} KiB", bytes / 1024);
  return fmt::format("{} ({})", size, cache["source"].get<std::string>());
}

std::string labelled(std::string_view label, const Json& text) {
  const std::string value = text.get<std::string>();
  return value.empty() ? "" : fmt::format("{}{}", label, value);
}

std::string cores_text(const Json& machine) {
  const Json& cores = machine["core_classes"];
  const int64_t all = cores["all"].get<int64_t>(), performance = cores["performance"].get<int64_t>();
  if (performance == 0) return all == 0 ? "unknown" : fmt::format("{} of one class", all);
  return fmt::format("{} ({} performance, {} efficient)", all, performance, cores["efficient"].dump());
}

void print_text(const Json& info) {
  const Json& m = info["machine"];
  print("hone {}\n", info["version"].get<std::string>());
  print("machine     {}{}\n", m.value("brand", m["vendor"].get<std::string>()),
        info["hone_cpu"].is_null() ? "" : fmt::format(" (HONE_CPU={})", info["hone_cpu"].get<std::string>()));
  print("            {} family {} model {} stepping {}{}{}\n", m["vendor"].get<std::string>(), m["family"].dump(),
        m["model"].dump(), m["stepping"].dump(), labelled(", microarchitecture ", m["microarch"]),
        labelled(", hypervisor ", m["hypervisor"]));
  print("key         {}\n", m["key"].get<std::string>());
  if (!m["isa_masked"].empty()) print("masked      {}\n", m["isa_masked"].dump());
  print("cpus        {} usable ({}), {} numa node(s), {} thread(s) per core\n", m["cpus_usable"].dump(),
        m["cpus_source"].get<std::string>(), m["numa_nodes"].dump(), m["threads_per_core"].dump());
  print("core class  {}{}\n", cores_text(m), labelled(", from ", m["core_classes"]["source"]));
  print("threads     {} ({})\n", info["threads"]["value"].dump(), info["threads"]["source"].get<std::string>());
  print("schedule    {}\n", regions_text(info["schedule"], "\n            "));
  print("caches      l1d {}, l2 {}, l3 {}\n", size_text(m["l1d"]), size_text(m["l2"]), size_text(m["l3"]));
  for (const Json& g : info["codegens"])
    print("codegen     {} {} {}\n", g["name"].get<std::string>(), g["version"].get<std::string>(), g["isa"].dump());
  print("code memory {}\n", info["exec_memory"].get<std::string>());
  print("kernels     {}\n", kernel_cache_text(info["kernel_cache"]));
  print("weights     {}\n", weights_text(info["weights"]));
  print_counters(info["counters"]);
  print("database    {} ({})\n", info["db"]["path"].get<std::string>(), info["db"]["state"].get<std::string>());
  if (!info["peak"].is_null()) {
    const Json& p = info["peak"];
    print("peak        {:.1f} GFLOP/s on 1 thread, {:.1f} on all; read {:.1f} and {:.1f} GB/s; L2 {:.0f} GB/s\n",
          p["f32_gflops_1t"].get<double>(), p["f32_gflops_all"].get<double>(), p["read_gbs_1t"].get<double>(),
          p["read_gbs_all"].get<double>(), p["l2_gbs_1t"].get<double>());
    if (const double one = p["bf16_gflops_1t"].get<double>(); one > 0)
      print("            dot products of bf16 {:.1f} GFLOP/s on 1 thread, {:.1f} on all\n", one,
            p["bf16_gflops_all"].get<double>());
  }
}

// The descriptions that HONE_CPU takes by name.
int run_cpus(const InfoArgs& args) {
  Json cpus = Json::array();
  for (const CpuDescription& cpu : cpu_library()) {
    const Result<Machine> machine = parse_machine_description(cpu.json);
    if (!machine.ok()) return fail(internal_error(fmt::format("{}: {}", cpu.name, machine.status().message())));
    const Result<Isa> isa = machine->best_isa();
    cpus.push_back({{"name", cpu.name},
                    {"best_isa", isa.ok() ? isa_info(*isa).name : ""},
                    {"source", Json::parse(cpu.json)["source"]},
                    {"machine", Json::parse(machine_to_json(*machine))}});
  }
  if (args.json || args.output == "json") {
    print("{}\n", dump({{"cpus", cpus}}, 2));
    return kDone;
  }
  for (const Json& cpu : cpus) {
    const Json& m = cpu["machine"];
    auto kib = [&](const char* cache) { return m[cache]["bytes"].get<int64_t>() / 1024; };
    print("{:17} {:7} {:42} {:36} l1d {} KiB, l2 {} KiB, l3 {} KiB\n", cpu["name"].get<std::string>(),
          cpu["best_isa"].get<std::string>(), m["brand"].get<std::string>(), "cpus " + cores_text(m), kib("l1d"),
          kib("l2"), kib("l3"));
  }
  return kDone;
}

int run_info(const InfoArgs& args) {
  if (args.cpus) return run_cpus(args);
  // Measuring runs code; everything else is a question, which HONE_CPU may ask about another machine.
  const Result<Machine> machine = args.measure ? executing_machine() : described_machine();
  if (!machine.ok()) return fail(machine.status());
  const ThreadSetting threads = threads_in_force(*machine);
  const Status exec = jit::exec_memory_available();
  const std::optional<std::string> hone_cpu = env("HONE_CPU");
  // Looking at a database must not create it.
  const Result<std::unique_ptr<db::Store>> store = db::open({.path = args.db, .mode = db::OpenMode::kReadOnly});
  const Result<plan::RegionPolicy> policy =
      region_policy_in_force(store.ok() ? store->get() : nullptr, *machine, threads.threads);
  if (!policy.ok()) return fail(policy.status());
  Json info = {{"version", version()},
               {"hone_cpu", hone_cpu ? Json(*hone_cpu) : Json(nullptr)},
               {"machine", Json::parse(machine_to_json(*machine))},
               {"threads", {{"value", threads.threads}, {"source", threads.source}}},
               {"schedule", regions_json(*policy)},
               {"peak", nullptr},
               {"codegens", codegens_json(*machine)},
               {"exec_memory", exec.ok() ? "ok" : exec.message()},
               {"kernel_cache", kernel_cache_json()},
               {"weights", weights_json()},
               {"counters", counters_json()},
               {"db", db_json(store, args.db)}};
  if (args.measure) {
    const Result<Json> peak = measured_peak(*machine);
    if (!peak.ok()) return fail(peak.status());
    info["peak"] = *peak;
  }
  if (args.json || args.output == "json") {
    print("{}\n", dump(info, 2));
  } else {
    print_text(info);
  }
  return kDone;
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("info", "what this machine is, and what hone has on it");
  auto args = std::make_shared<InfoArgs>();
  command->add_flag("--json", args->json, "one JSON object");
  command->add_option("-o,--output", args->output, "text or json")->check(CLI::IsMember({"text", "json"}));
  CLI::Option* measure =
      command->add_flag("--measure", args->measure, "also measure FMA peak and read bandwidth (about a second)");
  CLI::Option* cpus = command->add_flag("--cpus", args->cpus, "the machines that HONE_CPU knows by name");
  cpus->excludes(measure);
  command->add_option("--db", args->db, "database file")->check(not_empty());
  command->callback([args, &run] { run = [args] { return run_info(*args); }; });
}

}  // namespace hone::cli
