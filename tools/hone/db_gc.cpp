// hone db gc: drop what no build can use, one line an entry; from the database, from the kernels and the packed weights
// on disk.
#include "db/gc.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "engine/model/packed_store.h"
#include "jit/cache/disk_cache.h"
#include "jit/codegen.h"
#ifdef HONE_WITH_LLVM
#include "jit/llvm/cached_object.h"
#endif
#include "tools/hone/db.h"
#include "tools/hone/json.h"

namespace hone::cli {
namespace {

struct GcArgs : DbArgs {
  bool dry_run = false, other_builds = false;
  std::string older_than;
};

// "90d", "12h", "2w" -> seconds.
Result<int64_t> parse_age(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double scale = unit == "h" ? 3600 : unit == "d" ? 86'400 : unit == "w" ? 7 * 86'400 : 0;
  if (error != std::errc() || scale == 0 || !(value > 0) || value * scale > 1e11)
    return invalid_argument(fmt::format("'{}' is not an age: write 90d, 12h or 2w", text));
  return std::llround(value * scale);
}

std::string current_lowering([[maybe_unused]] const jit::EntryLabel& label) {
#ifdef HONE_WITH_LLVM
  return jit::current_lowering(label.generator, label.isa);
#else
  return "";
#endif
}

// Why an entry is of no use. What another version or a generator that this build lacks has made is another build's, and
// goes only when that is asked for, as in the database. Of this version, no build but one of other sources has it.
std::string worthless(const jit::EntryLabel& label, bool other_builds) {
  const Result<jit::CodeGenerator*> generator = jit::find_code_generator(label.generator);
  const std::string ours = generator.ok() ? (*generator)->version() : "no " + label.generator;
  if (ours != label.version)
    return other_builds ? fmt::format("made by {}, this build has {}", label.version, ours) : "";
  const std::string lowering = current_lowering(label);
  if (lowering.empty() || lowering == label.lowering) return "";
  return fmt::format("made by lowering {} of {}, this build has {}", label.lowering, label.version, lowering);
}

Json json_of(const std::vector<jit::CacheDrop>& files) {
  Json all = Json::array();
  for (const jit::CacheDrop& d : files)
    all.push_back({{"file", d.file}, {"kernel", d.kernel}, {"bytes", d.bytes}, {"reason", d.reason}});
  return all;
}

Json json_of(const jit::DiskCache& cache, const jit::CacheReport& report) {
  const std::string why = cache.why_unused();
  return {{"path", cache.place().folder},         {"state", why.empty() ? "ok" : why},
          {"dropped", json_of(report.dropped)},   {"temporary", json_of(report.temporary)},
          {"not_removed", json_of(report.stuck)}, {"bytes_before", report.before.bytes},
          {"bytes_after", report.after.bytes}};
}

void print_text(const jit::CacheReport& report, bool dry_run) {
  const auto line = [](const jit::CacheDrop& d, std::string_view prefix) {
    if (d.file.starts_with('.')) {
      print("{}temporary file {}: {}\n", prefix, d.file, d.reason);
    } else {
      print("{}kernel {}: {}: {}\n", prefix, d.file.substr(0, 12), d.kernel.empty() ? "unreadable" : d.kernel,
            d.reason);
    }
  };
  for (const jit::CacheDrop& d : report.dropped) line(d, "");
  for (const jit::CacheDrop& d : report.temporary) line(d, "");
  for (const jit::CacheDrop& d : report.stuck) line(d, "not removed: ");
  if (report.before.bytes == 0 && report.before.entries == 0) return;
  std::string more;
  if (const size_t n = report.temporary.size(); n > 0)
    more += fmt::format(", {} temporary file{}", n, n == 1 ? "" : "s");
  if (const size_t n = report.stuck.size(); n > 0) more += fmt::format(", {} not removed", n);
  print("kernels on disk: {} {} of {}{}; {} -> {} bytes\n", dry_run ? "would drop" : "dropped", report.dropped.size(),
        report.before.entries, more, report.before.bytes, report.after.bytes);
}

Json json_of(const std::vector<model::StoreDrop>& weights) {
  Json all = Json::array();
  for (const model::StoreDrop& d : weights) all.push_back({{"file", d.name}, {"bytes", d.bytes}, {"reason", d.reason}});
  return {{"path", model::store_place().folder}, {"dropped", all}};
}

void print_text(const std::vector<model::StoreDrop>& weights, bool dry_run) {
  int64_t bytes = 0;
  for (const model::StoreDrop& d : weights) {
    bytes += d.bytes;
    print("weights {}: {}\n", d.name.substr(0, 12), d.reason);
  }
  if (!weights.empty())
    print("packed weights on disk: {} {}, {} bytes\n", dry_run ? "would drop" : "dropped", weights.size(), bytes);
}

Json json_of(const db::GcReport& report, bool dry_run) {
  Json dropped = Json::array();
  for (const db::GcDrop& d : report.dropped)
    dropped.push_back({{"what", d.what}, {"id", d.id}, {"name", d.name}, {"reason", d.reason}});
  Json rows = Json::object();
  for (const db::TableCount& t : report.rows) rows[t.table] = t.rows;
  return {{"dry_run", dry_run},
          {"dropped", dropped},
          {"rows", rows},
          {"bytes_before", report.bytes_before},
          {"bytes_after", report.bytes_after},
          {"not_compacted", report.not_compacted.empty() ? Json(nullptr) : Json(report.not_compacted)}};
}

void print_text(const db::GcReport& report, bool dry_run) {
  for (const db::GcDrop& d : report.dropped) print("{} {}: {}: {}\n", d.what, d.id, d.name, d.reason);
  std::string rows;
  for (const db::TableCount& t : report.rows)
    if (t.rows > 0) rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", t.rows, t.table);
  print("{}: {}; {} -> {} bytes\n", dry_run ? "would drop" : "dropped", rows.empty() ? "nothing" : rows,
        report.bytes_before, report.bytes_after);
  if (!report.not_compacted.empty()) note("the file was not made smaller: " + report.not_compacted);
}

Result<db::GcReport> collect_database(const GcArgs& args, std::optional<int64_t> older_than) {
  db::GcOptions options{.judge = {}, .dry_run = args.dry_run, .other_builds = args.other_builds};
  if (older_than) options.older_than = *older_than;
  Result<std::unique_ptr<db::Store>> store = open_existing(args.db, "drop");
  // A file of which nothing can be read is there, and opening it to change it makes a new one.
  if (!store.ok() && (args.dry_run || store.status().code() != Code::kDataLoss)) return store.status();
  if (!args.dry_run) {
    if (store.ok()) store->reset();
    store = open_to_change(args.db);
    if (!store.ok()) return store.status();
  }
  const Result<std::vector<db::StoredDecision>> decisions = (*store)->all_decisions();
  if (!decisions.ok()) return decisions.status();
  const Result<Judge> judge = Judge::make(*decisions);
  if (!judge.ok()) return judge.status();
  options.judge = [&](const db::StoredDecision& d) { return judge->worth(d); };
  return db::collect_garbage(**store, options);
}

int run_gc(const GcArgs& args) {
  std::optional<int64_t> older_than;
  if (!args.older_than.empty()) {
    const Result<int64_t> age = parse_age(args.older_than);
    if (!age.ok()) return fail(age.status());
    older_than = *age;
  }
  const Result<db::GcReport> report = collect_database(args, older_than);
  if (!report.ok() && report.status().code() == Code::kInvalidArgument) return fail(report.status());
  // Without a database there may still be kernels.
  const std::shared_ptr<jit::DiskCache> cache = jit::disk_cache();
  const jit::CacheReport kernels =
      cache->collect({.judge = [&](const jit::EntryLabel& label) { return worthless(label, args.other_builds); },
                      .dry_run = args.dry_run,
                      .other_formats = args.other_builds});
  const std::vector<model::StoreDrop> weights =
      model::collect_stored(model::store_place(), {.dry_run = args.dry_run, .older_than = older_than});
  if (const std::string why = cache->why_unused(); !why.empty() && !cache->place().folder.empty())
    note(fmt::format("kernels on disk were left alone: {}", why));
  if (!report.ok()) {
    if (args.json) {
      const Json json = {{"dry_run", args.dry_run},
                         {"dropped", nullptr},
                         {"kernels", json_of(*cache, kernels)},
                         {"weights", json_of(weights)}};
      print("{}\n", dump(json, 2));
    } else {
      print_text(kernels, args.dry_run);
      print_text(weights, args.dry_run);
    }
    return fail(report.status());
  }
  if (args.json) {
    Json json = json_of(*report, args.dry_run);
    json["kernels"] = json_of(*cache, kernels);
    json["weights"] = json_of(weights);
    print("{}\n", dump(json, 2));
  } else {
    print_text(*report, args.dry_run);
    print_text(kernels, args.dry_run);
    print_text(weights, args.dry_run);
  }
  return kDone;
}

}  // namespace

void add_db_gc(CLI::App& db, Run& run) {
  auto args = std::make_shared<GcArgs>();
  CLI::App* verb = add_verb(db, run, args, "gc", "drop what no build can use, each entry with its reason", run_gc);
  verb->add_flag("--dry-run", args->dry_run, "the same list, and nothing is changed");
  verb->add_flag("--other-builds", args->other_builds,
                 "also what other builds measured (but never the last decision of a problem and machine) or compiled");
  verb->add_option("--older-than", args->older_than, "also what is older: 90d, 12h, 2w (but never the last)")
      ->check(not_empty());
  verb->add_option("-o,--output", args->output, "json")
      ->check(CLI::IsMember({"json"}))
      ->each([args](const std::string&) { args->json = true; });
  verb->add_flag("--json", args->json, "same as -o json");
}

}  // namespace hone::cli
