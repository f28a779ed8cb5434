// Records on their way between stores: read.cpp of a store -> Record -> text or another store.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "db/store_internal.h"
#include "db/transfer.h"

namespace hone::db {

struct SessionRecord {
  std::string uid;
  MachineLabel machine;
  BuildLabel build;
  std::string settings;
  int64_t started_at = 0;
};

struct RunRecord {
  std::string uid;
  MachineLabel machine;
  BuildLabel build;
  std::string session;  // uid; "": none
  ProblemKey problem;   // text "": not known
  int64_t started_at = 0;
  int64_t seed = 0;
  std::string cache_mode;
  double noise_bound = 0;
  int64_t spent_ns = 0;
  std::string settings;
};

// Of one candidate in one run; very many are split over several records.
struct SamplesRecord {
  std::string run;
  ProblemKey problem;
  Candidate candidate;
  std::vector<Sample> samples;
};

struct OutcomeRecord {
  std::string run;
  ProblemKey problem;
  Candidate candidate;
  std::string outcome, detail, command;
  int64_t noted_at = 0;
};

struct DecisionRecord {
  std::string run;
  std::string verdict;
  Decision decision;  // but for the verdict
};

using Record = std::variant<MachineLabel, ProblemKey, SessionRecord, RunRecord, SamplesRecord, OutcomeRecord,
                            DecisionRecord, Ranker, ScheduleChoice, CodeRecord>;
// Names of the alternatives: as the type of a line, and counted.
inline constexpr std::string_view kRecordTypes[] = {"machine", "problem",  "session", "run",      "samples",
                                                    "outcome", "decision", "ranker",  "schedule", "code"};
inline constexpr std::string_view kRecordCounts[] = {"machines", "problems",  "sessions", "runs",      "samples",
                                                     "outcomes", "decisions", "rankers",  "schedules", "codes"};

// "FIELD: what is wrong" of the values of a record, whatever it refers to.
Status check(const Record& record);

// A record comes after those that it refers to. Reads one snapshot of the store.
using RecordSink = std::function<Status(const Record&)>;
Status read_records(SqliteStore& store, const ExportOptions& options, const RecordSink& sink);

// Puts records into a store, inside a transaction of the caller.
class RecordWriter {
 public:
  explicit RecordWriter(SqliteStore& store) : store_(store), c_(store.connection()) {}
  Status add(const Record& record);
  std::vector<TransferCount> counts() const;

 private:
  Status put(const MachineLabel& machine);
  Status put(const ProblemKey& problem);
  Status put(const SessionRecord& session);
  Status put(const RunRecord& run);
  Status put(const SamplesRecord& samples);
  Status put(const OutcomeRecord& outcome);
  Status put(const DecisionRecord& decision);
  Status put(const Ranker& ranker);
  Status put(const ScheduleChoice& choice);
  Status put(const CodeRecord& code);
  Status meet(const RunRecord& run, const Query& stored);
  Result<int64_t> run_row(const std::string& uid) const;
  void count(size_t type, bool added);

  SqliteStore& store_;
  Connection& c_;
  std::unordered_map<std::string, int64_t> runs_, sessions_;  // row by uid
  bool met_ = false;                                          // the run being put is one that is here
  TransferCount counts_[std::variant_size_v<Record>];
};

// Text form. A machine is written once and then named by a digest of it.
std::string header_line();
std::string end_line();
std::string to_line(const Record& record);

// Lines back to records. Errors say "TYPE: FIELD: what", without file and line.
class LineReader {
 public:
  // nullopt: a line without a record (header, end, blank).
  Result<std::optional<Record>> read(const std::string& line);
  // Whether the last end record closed everything; the error says what is missing.
  Status at_end() const;

 private:
  std::map<std::string, MachineLabel> machines_;  // by digest
  std::map<std::string, ProblemKey> problems_;    // by text
  std::set<std::string> sessions_, runs_;         // uids
  bool in_export_ = false;                        // between a header and its end
  bool any_ = false;
  friend class LineParser;
};

}  // namespace hone::db
