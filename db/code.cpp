// What code generators made of programs: one row a generator and measurement; its counts, models and times in tables of
// their own, as not every one of them was had.
#include <algorithm>
#include <tuple>

#include "db/store_internal.h"
#include "db/transfer_internal.h"

namespace hone::db {
namespace {

constexpr const char* kParts[] = {"whole", "loop"};

void bind_or_null(Query& q, const char* name, double value) {
  if (value > 0) {
    q.bind(name, value);
  } else {
    q.bind_null(name);
  }
}

void insert_part(Connection& connection, int64_t code, const char* name, const CodePart& p) {
  connection
      .query(
          "INSERT INTO code_parts(code_id, part, bytes, total, vector, fma, load, store, branch, address, stack, "
          "spills, "
          "reloads) VALUES(:code, :part, :bytes, :total, :vector, :fma, :load, :store, :branch, :address, :stack, "
          ":spills, :reloads)")
      .bind(":code", code)
      .bind(":part", std::string(name))
      .bind(":bytes", p.bytes)
      .bind(":total", p.total)
      .bind(":vector", p.vector)
      .bind(":fma", p.fma)
      .bind(":load", p.load)
      .bind(":store", p.store)
      .bind(":branch", p.branch)
      .bind(":address", p.address)
      .bind(":stack", p.stack)
      .bind(":spills", p.spills)
      .bind(":reloads", p.reloads)
      .run();
}

std::optional<CodePart> read_part(Connection& connection, int64_t code, const char* name) {
  Query q = connection.query(
      "SELECT bytes, total, vector, fma, load, store, branch, address, stack, spills, reloads FROM code_parts WHERE "
      "code_id = :code AND part = :part");
  if (!q.bind(":code", code).bind(":part", std::string(name)).step()) return std::nullopt;
  return CodePart{.bytes = q.integer("bytes"),
                  .total = q.integer("total"),
                  .vector = q.integer("vector"),
                  .fma = q.integer("fma"),
                  .load = q.integer("load"),
                  .store = q.integer("store"),
                  .branch = q.integer("branch"),
                  .address = q.integer("address"),
                  .stack = q.integer("stack"),
                  .spills = q.integer("spills"),
                  .reloads = q.integer("reloads")};
}

std::vector<CodeModel> read_models(Connection& connection, int64_t code) {
  std::vector<CodeModel> models;
  Query q = connection.query(
      "SELECT cpu, block_rthroughput, cycles, ipc, uops, bottleneck FROM code_models WHERE code_id = :code ORDER BY "
      "cpu");
  q.bind(":code", code);
  while (q.step())
    models.push_back({.cpu = q.text("cpu"),
                      .block_rthroughput = q.real("block_rthroughput"),
                      .cycles = q.real("cycles"),
                      .ipc = q.real("ipc"),
                      .uops = q.real("uops"),
                      .bottleneck = q.text("bottleneck")});
  return models;
}

std::vector<int64_t> read_rounds(Connection& connection, int64_t code) {
  std::vector<int64_t> rounds;
  Query q = connection.query("SELECT ns FROM code_samples WHERE code_id = :code ORDER BY round");
  q.bind(":code", code);
  while (q.step()) rounds.push_back(q.integer("ns"));
  return rounds;
}

// A column that is NULL reads as 0, which the record means by it.
CodeRecord read_code(Connection& connection, const Query& q) {
  const int64_t id = q.integer("id");
  return {.machine = {.key = q.text("key"), .label = q.text("label")},
          .build = {.engine = q.text("engine"), .codegens = q.text("codegens")},
          .problem = {.text = q.text("problem"), .family = q.text("family"), .m = q.integer("m")},
          .candidate = {.program = q.text("program"),
                        .codegen = q.text("codegen"),
                        .codegen_version = q.text("codegen_version"),
                        .threads = threads_of(q.integer("threads")),
                        .numerics = q.text("numerics")},
          .cache_mode = q.text("cache_mode"),
          .bits = q.text("bits"),
          .compile_ns = q.real("compile_ns"),
          .whole = read_part(connection, id, kParts[0]),
          .loop = read_part(connection, id, kParts[1]),
          .spilling_loops = q.integer("spilling_loops"),
          .models = read_models(connection, id),
          .rounds_ns = read_rounds(connection, id),
          .ns = q.real("ns"),
          .ratio = q.real("ratio"),
          .ratio_lo = q.real("ratio_lo"),
          .ratio_hi = q.real("ratio_hi"),
          .measured_at = q.integer("measured_at")};
}

}  // namespace

Status SqliteStore::save_codes(const std::vector<CodeRecord>& records) {
  std::vector<CodeRecord> dated = records;
  for (CodeRecord& record : dated) {
    if (record.measured_at == 0) record.measured_at = unix_now();
    if (const Status s = check(record); !s.ok()) return invalid_argument("code: " + s.message());
  }
  return write([&]() -> Status {
    for (const CodeRecord& record : dated) {
      HONE_ASSIGN_OR_RETURN(const int64_t there, code_row(record));
      if (there != 0)
        for (const char* sql : kEraseCode) connection_->query(sql).bind(":id", there).run();
      HONE_RETURN_IF_ERROR(insert_code(record));
    }
    return {};
  });
}

Result<int64_t> SqliteStore::code_row(const CodeRecord& like) {
  HONE_ASSIGN_OR_RETURN(const int64_t problem, problem_id(like.problem));
  const int64_t machine = machine_id(like.machine), build = build_id(like.build),
                candidate = candidate_id(like.candidate);
  Query q = connection_->query(
      "SELECT id FROM codes WHERE machine_id = :machine AND build_id = :build AND problem_id = :problem AND "
      "candidate_id "
      "= :candidate AND cache_mode = :cache AND measured_at = :at");
  q.bind(":machine", machine).bind(":build", build).bind(":problem", problem).bind(":candidate", candidate);
  return q.bind(":cache", like.cache_mode).bind(":at", like.measured_at).step() ? q.integer("id") : 0;
}

Status SqliteStore::insert_code(const CodeRecord& r) {
  HONE_ASSIGN_OR_RETURN(const int64_t problem, problem_id(r.problem));
  const int64_t machine = machine_id(r.machine), build = build_id(r.build), candidate = candidate_id(r.candidate);
  {
    Query q = connection_->query(
        "INSERT INTO codes(machine_id, build_id, problem_id, candidate_id, cache_mode, bits, spilling_loops, "
        "compile_ns, "
        "ns, ratio, ratio_lo, ratio_hi, measured_at) VALUES(:machine, :build, :problem, :candidate, :cache, :bits, "
        ":spilling, :compile_ns, :ns, :ratio, :lo, :hi, :at)");
    q.bind(":machine", machine).bind(":build", build).bind(":problem", problem).bind(":candidate", candidate);
    q.bind(":cache", r.cache_mode).bind(":bits", r.bits).bind(":spilling", r.spilling_loops);
    for (const auto& [name, value] : {std::pair{":compile_ns", r.compile_ns},
                                      {":ns", r.ns},
                                      {":ratio", r.ratio},
                                      {":lo", r.ratio_lo},
                                      {":hi", r.ratio_hi}})
      bind_or_null(q, name, value);
    q.bind(":at", r.measured_at).run();
  }
  const int64_t id = connection_->database().getLastInsertRowid();
  if (r.whole) insert_part(*connection_, id, kParts[0], *r.whole);
  if (r.loop) insert_part(*connection_, id, kParts[1], *r.loop);
  for (const CodeModel& m : r.models) {
    connection_
        ->query(
            "INSERT INTO code_models(code_id, cpu, block_rthroughput, cycles, ipc, uops, bottleneck) VALUES(:code, "
            ":cpu, "
            ":block, :cycles, :ipc, :uops, :bottleneck)")
        .bind(":code", id)
        .bind(":cpu", m.cpu)
        .bind(":block", m.block_rthroughput)
        .bind(":cycles", m.cycles)
        .bind(":ipc", m.ipc)
        .bind(":uops", m.uops)
        .bind(":bottleneck", m.bottleneck)
        .run();
  }
  for (size_t round = 0; round < r.rounds_ns.size(); ++round) {
    connection_->query("INSERT INTO code_samples(code_id, round, ns) VALUES(:code, :round, :ns)")
        .bind(":code", id)
        .bind(":round", static_cast<int64_t>(round))
        .bind(":ns", r.rounds_ns[round])
        .run();
  }
  return {};
}

Status read_codes(Connection& connection, const CodeFilter& filter,
                  const std::function<Status(const CodeRecord&)>& sink) {
  Query q = connection.query(
      "SELECT c.id AS id, m.key AS key, m.label AS label, b.engine AS engine, b.codegens AS codegens, p.text AS "
      "problem, "
      "p.family AS family, p.m AS m, g.text AS program, k.codegen AS codegen, k.codegen_version AS codegen_version, "
      "k.threads AS threads, k.numerics AS numerics, c.cache_mode AS cache_mode, c.bits AS bits, c.spilling_loops AS "
      "spilling_loops, c.compile_ns AS compile_ns, c.ns AS ns, c.ratio AS ratio, c.ratio_lo AS ratio_lo, c.ratio_hi AS "
      "ratio_hi, c.measured_at AS measured_at FROM codes c JOIN machines m ON m.id = c.machine_id "
      "JOIN builds b ON b.id = c.build_id JOIN problems p ON p.id = c.problem_id JOIN candidates k ON k.id = "
      "c.candidate_id JOIN programs g ON g.id = k.program_id WHERE (:id = 0 OR c.id = :id) AND (:problem = '' OR "
      "p.text = "
      ":problem) AND (:machine = '' OR m.key = :machine) ORDER BY c.measured_at, p.text, g.text, k.codegen, "
      "k.codegen_version, k.threads, "
      "k.numerics, c.cache_mode, m.key, m.label, b.engine, b.codegens");
  q.bind(":id", filter.id).bind(":problem", filter.problem).bind(":machine", filter.machine_key);
  while (q.step()) HONE_RETURN_IF_ERROR(sink(read_code(connection, q)));
  return {};
}

Result<std::vector<CodeRecord>> SqliteStore::codes() {
  return read([&]() -> Result<std::vector<CodeRecord>> {
    std::vector<CodeRecord> all;
    HONE_RETURN_IF_ERROR(read_codes(*connection_, {}, [&](const CodeRecord& record) {
      all.push_back(record);
      return Status{};
    }));
    std::stable_sort(all.begin(), all.end(),
                     [](const CodeRecord& a, const CodeRecord& b) { return a.measured_at > b.measured_at; });
    return all;
  });
}

}  // namespace hone::db
