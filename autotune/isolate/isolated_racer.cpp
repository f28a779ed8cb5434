// See isolated_racer.h.
#include "autotune/isolate/isolated_racer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "autotune/measure/operands.h"
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
  enum Kind { kAnswered, kCrashed, kLost, kAlone, kFailed } kind = kAnswered;
  Message message;     // kAnswered
  int culprit = 0;     // kCrashed: this candidate has ended the worker
  std::string detail;  // kCrashed: how
                       // kLost: a new worker, which knows none of the arms
  Status status;       // kFailed: the problem cannot be set up
};

class IsolatedRacer final : public Racer {
 public:
  IsolatedRacer(Isolation& isolation, const matmul::MatmulProblem& problem, const std::vector<Candidate>& candidates,
                Clock& clock, const RacerOptions& options, double budget)
      : isolation_(isolation),
        problem_(problem),
        candidates_(candidates),
        clock_(clock),
        options_(options),
        budget_(budget) {}

  // kAnswered, kAlone or kFailed.
  Reply set_up() {
    while (alone_ == nullptr) {
      Child* child = isolation_.child();
      if (child == nullptr) return go_alone();
      if (generation_ == isolation_.generation()) return {};
      prepared_.clear();
      Message answer;
      const auto bytes = static_cast<double>(problem_.n) * static_cast<double>(problem_.k) * sizeof(float) +
                         static_cast<double>(elements_a(problem_) + elements_c(problem_)) * sizeof(float);
      Child::Got got = Child::Got::kDeath;
      if (child->send(ProblemMessage{.text = to_string(problem_),
                                     .cold = options_.cache == CacheMode::kCold,
                                     .seed = options_.seed,
                                     .peak = options_.peak,
                                     .cpus = options_.cpus}))
        got = child->receive(kSetUpSeconds + bytes / kSetUpBytesPerSecond, &answer);
      if (got == Child::Got::kMessage && std::holds_alternative<SetUpAnswer>(answer)) {
        const Status& status = std::get<SetUpAnswer>(answer).status;
        if (!status.ok()) return {.kind = Reply::kFailed, .status = status};
        generation_ = isolation_.renew();
        return {};
      }
      const std::string how = isolation_.end(true);
      // Setting it up here would have the same end, and take the tuner along.
      if (got == Child::Got::kDeath && how.starts_with("out of memory"))
        return {.kind = Reply::kFailed, .status = resource_exhausted(fmt::format("setting up the operands: {}", how))};
    }
    return {.kind = Reply::kAlone};
  }

  Prepared prepare(int candidate) override {
    const Candidate& c = candidates_[static_cast<size_t>(candidate)];
    const int64_t begin = clock_.now_ns();
    const Reply reply =
        ask(PrepareMessage{candidate, to_string(c.program), c.codegen, c.threads}, std::in_place_type<PrepareAnswer>);
    switch (reply.kind) {
      case Reply::kAlone:
        return alone_->prepare(candidate);
      case Reply::kFailed:
        return {db::Outcome::kRefused, reply.status.message()};
      case Reply::kCrashed:
        return {db::Outcome::kCrashed, reply.detail};
      case Reply::kLost:
      case Reply::kAnswered:
        break;
    }
    const Prepared& prepared = std::get<PrepareAnswer>(reply.message).prepared;
    if (prepared.outcome == db::Outcome::kMeasured) {
      prepared_.insert(candidate);
      if (first_prepare_ == 0) first_prepare_ = static_cast<double>(clock_.now_ns() - begin) * 1e-9;
    }
    return prepared;
  }

  std::vector<Timing> round(std::span<const int> arms) override {
    if (alone_ != nullptr) return alone_->round(arms);
    std::vector<Timing> timings;
    timings.reserve(arms.size());
    for (size_t at = 0; at < arms.size(); at += kMostArms) {
      std::vector<Timing> part = round_of(arms.subspan(at, std::min(kMostArms, arms.size() - at)));
      std::move(part.begin(), part.end(), std::back_inserter(timings));
    }
    return timings;
  }

  void release(int candidate) override {
    if (alone_ != nullptr) return alone_->release(candidate);
    if (prepared_.erase(candidate) == 0 || generation_ != isolation_.generation()) return;
    // A worker that does not listen is found out by the next question.
    if (Child* child = isolation_.child(); child != nullptr && generation_ == isolation_.generation())
      (void)child->send(ReleaseMessage{candidate});
  }

 private:
  // Until nobody in it ends the worker any more: a round that a culprit has cut short is run again without it, so that
  // all its samples are of one moment.
  std::vector<Timing> round_of(std::span<const int> arms) {
    std::map<int, Timing> out;  // who is out of this round
    while (true) {
      std::vector<int> in;
      for (int arm : arms) {
        if (out.contains(arm)) continue;
        const Prepared again = prepared_.contains(arm) && is_current() ? Prepared{} : prepare(arm);
        if (alone_ != nullptr) return alone_->round(arms);
        if (again.outcome == db::Outcome::kMeasured) in.push_back(arm);
        if (again.outcome != db::Outcome::kMeasured) out[arm] = {.outcome = again.outcome, .detail = again.detail};
      }
      // One that was prepared last may have ended the worker in which the others were ready.
      if (!std::all_of(in.begin(), in.end(), [this](int arm) { return prepared_.contains(arm) && is_current(); }))
        continue;
      if (in.empty()) return merge(arms, {}, out);
      const int64_t begin = clock_.now_ns();
      const Reply reply = ask(RoundMessage{in}, std::in_place_type<RoundAnswer>, in.size());
      if (reply.kind == Reply::kAlone) return alone_->round(arms);
      if (reply.kind == Reply::kAnswered) {
        RoundAnswer answer = std::get<RoundAnswer>(reply.message);
        // What isolation costs belongs to the time that a round takes.
        const int64_t around = std::max<int64_t>(0, clock_.now_ns() - begin - answer.wall_ns);
        for (Timing& t : answer.timings) t.wall_ns += around / static_cast<int64_t>(in.size());
        return merge(arms, answer.timings, out);
      }
      if (reply.kind == Reply::kCrashed)
        out[reply.culprit] = {.outcome = db::Outcome::kCrashed, .detail = reply.detail};
      if (reply.kind == Reply::kFailed)
        for (int arm : in) out[arm] = {.outcome = db::Outcome::kRefused, .detail = reply.status.message()};
    }
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

  // Asks until somebody answers, or there is somebody to blame. `arms`: what the answer to a round must have.
  template <typename Expected>
  Reply ask(const Message& question, std::in_place_type_t<Expected>, size_t arms = 0) {
    const bool needs_others = std::holds_alternative<RoundMessage>(question);
    while (true) {
      const bool had_others = alone_ == nullptr && is_current();
      if (Reply reply = set_up(); reply.kind != Reply::kAnswered) return reply;
      // A new worker knows none of the arms: back to whoever prepares them.
      if (needs_others && !had_others) return {.kind = Reply::kLost};
      Child* child = isolation_.child();
      Reply reply;
      const double limit = step_limit(budget_, first_prepare_);
      const int64_t begin = clock_.now_ns();
      const Child::Got got =
          child->send(question) ? child->receive(limit, &reply.message, worth_watching(question)) : Child::Got::kDeath;
      if (got == Child::Got::kMessage && fits(std::get_if<Expected>(&reply.message), arms)) {
        answered_after_[question.index()] = clock_.now_ns() - begin;
        if (needs_others) isolation_.worked();
        return reply;
      }
      const Step step = child->step();
      const bool blamed = (got == Child::Got::kDeath || got == Child::Got::kSilence) && is_asked(question, step);
      const std::string how = isolation_.end(!blamed);
      if (!blamed) continue;
      reply.kind = Reply::kCrashed;
      reply.culprit = step.candidate;
      reply.detail = got == Child::Got::kSilence
                         ? fmt::format("hung: no answer within {:.1f} s while being {}", limit, stage_text(step.stage))
                         : fmt::format("{} while being {}", how, stage_text(step.stage));
      HONE_LOG_EVENT(LogTopic::kTune, "worker_ended",
                     {{"candidate", std::to_string(step.candidate)}, {"why", reply.detail}});
      return reply;
    }
  }

  static bool fits(const PrepareAnswer* answer, size_t) { return answer != nullptr; }
  static bool fits(const RoundAnswer* answer, size_t arms) {
    return answer != nullptr && answer->timings.size() == arms;
  }

  // Watching instead of sleeping pays where the last such question was answered soon, and harms nobody where a CPU is
  // left that none of those who are timed uses. (All arms of a round or none: it may show in their times.)
  bool worth_watching(const Message& question) const {
    if (options_.cpus < 2 || answered_after_[question.index()] > kSoonNs) return false;
    const auto* round = std::get_if<RoundMessage>(&question);
    return round == nullptr || std::all_of(round->arms.begin(), round->arms.end(), [this](int arm) {
             return candidates_[static_cast<size_t>(arm)].threads < options_.cpus;
           });
  }

  // The page may have been overwritten by whoever crashed: only who was asked for can be blamed.
  static bool is_asked(const Message& question, const Step& step) {
    if (step.stage == Stage::kIdle) return false;
    if (const auto* prepare = std::get_if<PrepareMessage>(&question)) return prepare->candidate == step.candidate;
    const auto* round = std::get_if<RoundMessage>(&question);
    return round != nullptr && std::find(round->arms.begin(), round->arms.end(), step.candidate) != round->arms.end();
  }

  Reply go_alone() {
    Result<std::unique_ptr<MatmulRacer>> made = MatmulRacer::create(problem_, candidates_, clock_, options_);
    if (!made.ok()) return {.kind = Reply::kFailed, .status = made.status()};
    alone_ = std::move(*made);
    return {.kind = Reply::kAlone};
  }

  Isolation& isolation_;
  matmul::MatmulProblem problem_;
  const std::vector<Candidate>& candidates_;
  Clock& clock_;
  RacerOptions options_;
  double budget_;
  double first_prepare_ = 0;  // seconds that the first candidate to get ready has taken for it
  int generation_ = 0;        // of the worker in which the problem is set up; 0: none
  std::array<int64_t, std::variant_size_v<Message>> answered_after_{};  // ns, by kind of question, the last time
  std::set<int> prepared_;                                              // in that worker
  std::unique_ptr<MatmulRacer> alone_;                                  // in this process, when there are no workers
};

}  // namespace

Isolation::Isolation(WorkerCommand command, std::function<void(const std::string&)> note)
    : command_(std::move(command)), note_(std::move(note)) {}

Child* Isolation::child() {
  while (child_ == nullptr && !given_up_) {
    if (Status s = start(); !s.ok()) give_up(s.message());
  }
  return child_.get();
}

// An executable that is no worker would be started in vain for every candidate, so it must say the right word first.
Status Isolation::start() {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Child> child, Child::start(command_));
  Message hello;
  const Child::Got got = child->receive(kStartSeconds, &hello);
  const auto* said = std::get_if<HelloMessage>(&hello);
  if (got != Child::Got::kMessage || said == nullptr) {
    const char* what = got == Child::Got::kDeath ? child->end().c_str() : "it does not answer as a worker does";
    return unavailable(fmt::format("{} is no worker: {}", command_.executable, what));
  }
  if (said->engine != engine_label())
    return unavailable(
        fmt::format("{} is a worker of {}, this is {}", command_.executable, said->engine, engine_label()));
  child_ = std::move(child);
  ++generation_;
  return {};
}

std::string Isolation::end(bool innocent) {
  if (child_ == nullptr) return "";
  const std::string how = child_->end();
  child_.reset();
  ++generation_;
  ends_ = innocent ? ends_ + 1 : 0;
  if (ends_ >= kMostEnds)
    give_up(fmt::format("{} workers in a row ended while no candidate was running, the last: {}", ends_, how));
  return how;
}

void Isolation::give_up(const std::string& why) {
  if (!given_up_ && note_) note_(fmt::format("candidates run in this process, where a crash ends everything: {}", why));
  given_up_ = true;
}

double step_limit(double budget_seconds, double first_prepare_seconds) {
  if (first_prepare_seconds == 0) return std::max(5.0, budget_seconds / 2);
  const double wanted = std::min(20 * first_prepare_seconds, budget_seconds / 8);
  return std::max({wanted, 8 * first_prepare_seconds, std::clamp(budget_seconds / 4, 1.0, 2.0)});
}

Result<std::unique_ptr<Racer>> make_racer(Isolation* isolation, const matmul::MatmulProblem& problem,
                                          const std::vector<Candidate>& candidates, Clock& clock,
                                          const RacerOptions& options, double budget_seconds) {
  if (isolation == nullptr) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Racer> racer, MatmulRacer::create(problem, candidates, clock, options));
    return racer;
  }
  auto racer = std::make_unique<IsolatedRacer>(*isolation, problem, candidates, clock, options, budget_seconds);
  // At once, so that operands for which there is no memory are an error of the problem and not of every candidate.
  if (const Reply reply = racer->set_up(); reply.kind == Reply::kFailed) return reply.status;
  return std::unique_ptr<Racer>(std::move(racer));
}

}  // namespace hone::autotune
