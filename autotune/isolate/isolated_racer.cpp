// See isolated_racer.h.
#include "autotune/isolate/isolated_racer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "autotune/measure/workload.h"
#include "engine/base/log.h"
#include "engine/base/version.h"

namespace hone::autotune {
namespace {

constexpr double kStartSeconds = 20;  // loading a large executable on a busy machine
// Filling operands runs at 0.3 GB/s where every page is touched for the first time on a bad day of a virtual machine.
constexpr double kSetUpSeconds = 20;
constexpr double kSetUpBytesPerSecond = 5e7;
constexpr int kMostEnds = 3;
// Sleeping and being woken up costs 25 to 100 us: beyond this time it is no matter.
constexpr int64_t kSoonNs = 1'000'000;

std::string_view stage_text(Stage stage) {
  switch (stage) {
    case Stage::kIdle:
      return "idle";
    case Stage::kCompile:
      return "compiled";
    case Stage::kGuardedCheck:
      return "checked on guarded memory";
    case Stage::kCheck:
      return "checked on the operands";
    case Stage::kTime:
      return "timed";
  }
  return "";
}

// What came of a request.
struct Reply {
  enum Kind { kAnswered, kCrashed, kLost, kAlone, kFailed, kStopped } kind = kAnswered;
  Message message;     // kAnswered
  int64_t ns = 0;      // kAnswered: from the question to its answer
  int culprit = 0;     // kCrashed: this candidate has ended the worker
  std::string detail;  // kCrashed, kLost (the worker ended, nobody can be blamed): how
  Status status;       // kFailed: the problem cannot be set up
};

Prepared interrupted() { return {db::Outcome::kRefused, "interrupted"}; }

class IsolatedRacer final : public Racer {
 public:
  IsolatedRacer(Isolation& isolation, const op::Problem& problem, const std::vector<Candidate>& candidates,
                Clock& clock, const RacerOptions& options, double budget, const std::atomic<bool>* stop)
      : isolation_(isolation),
        problem_(problem),
        candidates_(candidates),
        clock_(clock),
        options_(options),
        budget_(budget),
        stop_(stop) {}
  ~IsolatedRacer() override { isolation_.rest(); }

  // kAnswered, kAlone, kFailed or kStopped.
  Reply set_up() {
    while (alone_ == nullptr) {
      if (isolation_.generation() == generation_) return {};
      if (stopped()) return {.kind = Reply::kStopped};
      Child* child = isolation_.child(stop_);
      if (stopped()) return {.kind = Reply::kStopped};
      if (child == nullptr) return go_alone();
      prepared_.clear();
      Message answer;
      const double bytes = operand_bytes(problem_);
      Child::Got got = Child::Got::kDeath;
      if (child->send(ProblemMessage{.text = op::to_string(problem_),
                                     .cold = options_.cache == CacheMode::kCold,
                                     .seed = options_.seed,
                                     .peak = options_.peak,
                                     .cpus = options_.cpus,
                                     .schedule = options_.schedule}))
        got = child->receive(kSetUpSeconds + bytes / kSetUpBytesPerSecond, &answer, false, stop_);
      if (got == Child::Got::kMessage && std::holds_alternative<SetUpAnswer>(answer)) {
        const Status& status = std::get<SetUpAnswer>(answer).status;
        if (!status.ok()) return {.kind = Reply::kFailed, .status = status};
        generation_ = isolation_.has_set_up();
        return {};
      }
      const std::string how = end_text(got);
      if (got == Child::Got::kStopped) return {.kind = Reply::kStopped};
      isolation_.failed_to_set_up(how);
      // Setting it up here would have the same end, and take the tuner along.
      if (how.starts_with("out of memory"))
        return {.kind = Reply::kFailed, .status = resource_exhausted(fmt::format("setting up the operands: {}", how))};
    }
    return {.kind = Reply::kAlone};
  }

  Prepared prepare(int candidate) override {
    const Candidate& c = candidates_[static_cast<size_t>(candidate)];
    const PrepareMessage question{candidate, op::to_string(c.program), c.codegen, c.threads};
    for (int ends = 1;; ++ends) {
      const Reply reply = ask(question, std::in_place_type<PrepareAnswer>);
      switch (reply.kind) {
        case Reply::kAlone:
          return alone_->prepare(candidate);
        case Reply::kFailed:
          return {db::Outcome::kRefused, reply.status.message()};
        case Reply::kStopped:
          return interrupted();
        case Reply::kCrashed:
          return {db::Outcome::kCrashed, reply.detail};
        case Reply::kLost:
          if (ends < kMostEnds) continue;
          return {db::Outcome::kCrashed, nobody_else(reply.detail, "prepared")};
        case Reply::kAnswered:
          break;
      }
      const Prepared& prepared = std::get<PrepareAnswer>(reply.message).prepared;
      if (prepared.outcome == db::Outcome::kMeasured) {
        prepared_.insert(candidate);
        if (first_prepare_ == 0) first_prepare_ = static_cast<double>(reply.ns) * 1e-9;
      }
      return prepared;
    }
  }

  std::vector<Timing> round(std::span<const int> arms) override {
    if (alone_ != nullptr) return alone_->round(arms);
    std::vector<Timing> timings;
    timings.reserve(arms.size());
    std::map<int, Timing> out;
    for (size_t at = 0; at < arms.size(); at += kMostArms) {
      std::vector<Timing> part = round_of(arms.subspan(at, std::min(kMostArms, arms.size() - at)), &out);
      std::move(part.begin(), part.end(), std::back_inserter(timings));
    }
    return timings;
  }

  void release(int candidate) override {
    if (alone_ != nullptr) return alone_->release(candidate);
    if (prepared_.erase(candidate) == 0 || !is_current()) return;
    // A worker that does not listen is found out by the next question.
    if (Child* child = isolation_.child(stop_); child != nullptr) (void)child->send(ReleaseMessage{candidate});
  }

 private:
  // Until nobody in it ends the worker any more: a round that a culprit has cut short is run again without it, so that
  // all its samples are of one moment. `out`: who is out of this round, and is not run any more, wherever.
  std::vector<Timing> round_of(std::span<const int> arms, std::map<int, Timing>* out) {
    std::string how;
    for (int ends = 0; ends < kMostEnds;) {
      const size_t out_before = out->size();
      const std::vector<int> in = get_ready(arms, out);
      if (in.empty()) return merge(arms, {}, *out);
      if (alone_ != nullptr) return merge(arms, alone_->round(in), *out);
      // One that was prepared last may have ended the worker in which the others were ready.
      Reply reply{.kind = Reply::kLost, .detail = how};
      if (std::all_of(in.begin(), in.end(), [this](int arm) { return is_ready(arm); }))
        reply = ask(RoundMessage{in}, std::in_place_type<RoundAnswer>, in.size());
      switch (reply.kind) {
        case Reply::kAlone:
          return merge(arms, alone_->round(in), *out);
        case Reply::kAnswered:
          return merge(arms, with_price(std::get<RoundAnswer>(reply.message), reply.ns), *out);
        case Reply::kCrashed:
          (*out)[reply.culprit] = {.outcome = db::Outcome::kCrashed, .detail = reply.detail};
          break;
        case Reply::kFailed:
          for (int arm : in) (*out)[arm] = {.outcome = db::Outcome::kRefused, .detail = reply.status.message()};
          break;
        case Reply::kStopped:
          for (int arm : in) (*out)[arm] = {.outcome = db::Outcome::kRefused, .detail = interrupted().detail};
          break;
        case Reply::kLost:
          how = reply.detail;
          break;
      }
      if (out->size() == out_before) ++ends;
    }
    return one_by_one(arms, how, out);
  }

  // Workers end and nobody can be blamed: whoever ends them alone is the one.
  std::vector<Timing> one_by_one(std::span<const int> arms, const std::string& how, std::map<int, Timing>* out) {
    std::set<int> different(arms.begin(), arms.end());
    std::erase_if(different, [out](int arm) { return out->contains(arm); });
    if (different.size() == 1)
      (*out)[*different.begin()] = {.outcome = db::Outcome::kCrashed, .detail = nobody_else(how, "timed")};
    std::vector<Timing> timings;
    for (size_t i = 0; i < arms.size(); ++i) {
      const std::vector<Timing> alone = round_of(arms.subspan(i, 1), out);
      timings.push_back(alone.front());
    }
    return timings;
  }

  // Those of `arms` that are not out; whoever is not ready and does not get ready goes out.
  std::vector<int> get_ready(std::span<const int> arms, std::map<int, Timing>* out) {
    std::vector<int> in;
    for (int arm : arms) {
      if (out->contains(arm)) continue;
      const Prepared prepared = is_ready(arm) ? Prepared{} : prepare(arm);
      if (prepared.outcome == db::Outcome::kMeasured) in.push_back(arm);
      if (prepared.outcome != db::Outcome::kMeasured)
        (*out)[arm] = {.outcome = prepared.outcome, .detail = prepared.detail};
    }
    std::erase_if(in, [out](int arm) { return out->contains(arm); });  // at its second mention
    return in;
  }

  // What isolation costs belongs to the time that a round takes.
  static std::vector<Timing> with_price(const RoundAnswer& answer, int64_t ns) {
    std::vector<Timing> timings = answer.timings;
    const int64_t around = std::max<int64_t>(0, ns - answer.wall_ns);
    for (Timing& t : timings) t.wall_ns += around / static_cast<int64_t>(timings.size());
    return timings;
  }

  // `timings` of those who are not out, in the order of `arms`.
  static std::vector<Timing> merge(std::span<const int> arms, std::span<const Timing> timings,
                                   const std::map<int, Timing>& out) {
    std::vector<Timing> all;
    size_t next = 0;
    for (int arm : arms) {
      const auto at = out.find(arm);
      all.push_back(at != out.end() ? at->second : timings[next++]);
    }
    return all;
  }

  bool is_current() const { return generation_ == isolation_.generation(); }
  bool is_ready(int candidate) const { return is_current() && prepared_.contains(candidate); }
  bool stopped() const { return stop_ != nullptr && stop_->load(); }

  // Asks once. `arms`: what the answer to a round must have.
  template <typename Expected>
  Reply ask(const Message& question, std::in_place_type_t<Expected>, size_t arms = 0) {
    if (Reply reply = set_up(); reply.kind != Reply::kAnswered) return reply;
    Child* child = isolation_.child(stop_);
    Reply reply;
    const double limit = step_limit(budget_, first_prepare_);
    int64_t& last_ns = answered_after_[question.index()];
    const bool watching = worth_watching(options_.cpus, most_threads(question), last_ns);
    const int64_t begin = clock_.now_ns();
    const Child::Got got =
        child->send(question) ? child->receive(limit, &reply.message, watching, stop_) : Child::Got::kDeath;
    if (got == Child::Got::kMessage && fits(std::get_if<Expected>(&reply.message), arms)) {
      reply.ns = last_ns = clock_.now_ns() - begin;
      return reply;
    }
    const Step step = child->step();
    const bool blamed = (got == Child::Got::kDeath || got == Child::Got::kSilence) && is_asked(question, step);
    const std::string how = end_text(got);
    if (got == Child::Got::kStopped) return {.kind = Reply::kStopped};
    HONE_LOG_EVENT(LogTopic::kTune, "worker_ended",
                   {{"candidate", blamed ? std::to_string(step.candidate) : "unknown"}, {"why", how}});
    if (!blamed) return {.kind = Reply::kLost, .detail = how};
    reply.kind = Reply::kCrashed;
    reply.culprit = step.candidate;
    reply.detail = got == Child::Got::kSilence
                       ? fmt::format("hung: no answer within {:.1f} s while being {}", limit, stage_text(step.stage))
                       : fmt::format("{} while being {}", how, stage_text(step.stage));
    return reply;
  }

  // Ends the worker, and says why.
  std::string end_text(Child::Got got) {
    const std::string how = isolation_.end();
    if (got == Child::Got::kSilence) return "hung";
    return got == Child::Got::kDeath ? how : "talked nonsense";
  }
  static std::string nobody_else(const std::string& how, std::string_view doing) {
    return fmt::format("{} workers in a row ended when it was to be {}, the last: {}", kMostEnds, doing, how);
  }

  static bool fits(const PrepareAnswer* answer, size_t) { return answer != nullptr; }
  static bool fits(const RoundAnswer* answer, size_t arms) {
    return answer != nullptr && answer->timings.size() == arms;
  }

  int most_threads(const Message& question) const {
    int most = 0;
    if (const auto* round = std::get_if<RoundMessage>(&question))
      for (int arm : round->arms) most = std::max(most, candidates_[static_cast<size_t>(arm)].threads);
    return most;
  }

  // The page may have been overwritten by whoever crashed: only who was asked for can be blamed.
  static bool is_asked(const Message& question, const Step& step) {
    if (step.stage == Stage::kIdle) return false;
    if (const auto* prepare = std::get_if<PrepareMessage>(&question)) return prepare->candidate == step.candidate;
    const auto* round = std::get_if<RoundMessage>(&question);
    return round != nullptr && std::find(round->arms.begin(), round->arms.end(), step.candidate) != round->arms.end();
  }

  Reply go_alone() {
    Result<std::unique_ptr<KernelRacer>> made = KernelRacer::create(problem_, candidates_, clock_, options_);
    if (!made.ok()) return {.kind = Reply::kFailed, .status = made.status()};
    alone_ = std::move(*made);
    return {.kind = Reply::kAlone};
  }

  Isolation& isolation_;
  op::Problem problem_;
  const std::vector<Candidate>& candidates_;
  Clock& clock_;
  RacerOptions options_;
  double budget_;
  const std::atomic<bool>* stop_;
  double first_prepare_ = 0;  // seconds that the first candidate to get ready has taken for it
  int generation_ = -1;       // of the worker in which the problem is set up; -1: none
  std::array<int64_t, std::variant_size_v<Message>> answered_after_{};  // ns, by kind of question, the last time
  std::set<int> prepared_;                                              // in that worker
  std::unique_ptr<KernelRacer> alone_;                                  // in this process, when there are no workers
};

}  // namespace

Isolation::Isolation(WorkerCommand command, std::function<void(const std::string&)> note)
    : command_(std::move(command)), note_(std::move(note)) {}

Child* Isolation::child(const std::atomic<bool>* stop) {
  auto stopped = [stop] { return stop != nullptr && stop->load(); };
  while (child_ == nullptr && !given_up_ && !stopped()) {
    if (Status s = start(stop); !s.ok() && !stopped()) give_up(s.message());
  }
  return child_.get();
}

// An executable that is no worker would be started in vain for every candidate, so it must say the right word first.
Status Isolation::start(const std::atomic<bool>* stop) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Child> child, Child::start(command_));
  Message hello;
  const Child::Got got = child->receive(kStartSeconds, &hello, false, stop);
  const auto* said = std::get_if<HelloMessage>(&hello);
  if (got != Child::Got::kMessage || said == nullptr) {
    const char* what = got == Child::Got::kDeath ? child->end().c_str() : "it does not answer as a worker does";
    return unavailable(fmt::format("{} is no worker: {}", command_.name(), what));
  }
  if (said->engine != engine_label())
    return unavailable(fmt::format("{} is a worker of {}, this is {}", command_.name(), said->engine, engine_label()));
  child_ = std::move(child);
  ++generation_;
  return {};
}

int Isolation::has_set_up() {
  failed_ = 0;
  return ++generation_;
}

void Isolation::failed_to_set_up(std::string_view why) {
  (void)end();
  if (++failed_ >= kMostEnds)
    give_up(fmt::format("{} workers in a row ended while they were set up, the last: {}", failed_, why));
}

std::string Isolation::end() {
  if (child_ == nullptr) return "";
  const std::string how = child_->end();
  child_.reset();
  ++generation_;
  return how;
}

void Isolation::give_up(const std::string& why) {
  if (!given_up_ && note_) note_(fmt::format("candidates run in this process, where a crash ends everything: {}", why));
  given_up_ = true;
}

double step_limit(double budget_seconds, double first_prepare_seconds) {
  if (first_prepare_seconds == 0) return std::clamp(budget_seconds / 2, 5.0, 60.0);
  const double wanted = std::min(20 * first_prepare_seconds, budget_seconds / 8);
  return std::max({wanted, 8 * first_prepare_seconds, std::clamp(budget_seconds / 4, 1.0, 2.0)});
}

bool worth_watching(int cpus, int threads, int64_t last_answer_ns) {
  return cpus > 1 && threads < cpus && last_answer_ns <= kSoonNs;
}

Result<std::unique_ptr<Racer>> make_racer(Isolation* isolation, const op::Problem& problem,
                                          const std::vector<Candidate>& candidates, Clock& clock,
                                          const RacerOptions& options, double budget_seconds,
                                          const std::atomic<bool>* stop) {
  if (isolation == nullptr) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Racer> racer, KernelRacer::create(problem, candidates, clock, options));
    return racer;
  }
  auto racer = std::make_unique<IsolatedRacer>(*isolation, problem, candidates, clock, options, budget_seconds, stop);
  // At once, so that operands for which there is no memory are an error of the problem and not of every candidate.
  if (const Reply reply = racer->set_up(); reply.kind == Reply::kFailed) return reply.status;
  return std::unique_ptr<Racer>(std::move(racer));
}

}  // namespace hone::autotune
