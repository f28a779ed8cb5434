// See fuzz_campaign.h. The parent hands out numbers and collects verdicts; it makes no program and compiles nothing, so
// that whatever a program does, it does to a worker.
#include "tools/hone/fuzz_campaign.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "tools/hone/fuzz_shrink.h"

namespace hone::cli {
namespace {

using Answer = FuzzWorker::Answer;

// What code generators keep of each kernel (names of symbols) goes with the worker.
constexpr int kProgramsOfWorker = 5000;
constexpr const char* kGenerating = "the program is made";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Request: the number of a program, or the text of one. Answer: its kind and the verdict.
FuzzWorker::Work work_of(const FuzzPlan& plan) {
  return [&plan](const std::string& request, const jit::Progress& progress) {
    progress(kGenerating);
    uint64_t index = 0;
    const auto [end, error] = std::from_chars(request.data(), request.data() + request.size(), index);
    FuzzCase c;
    if (error == std::errc() && end == request.data() + request.size()) {
      c = random_case(plan.seed, index, plan.kinds);
    } else {
      const Result<FuzzCase> parsed = parse_case(request);
      if (!parsed.ok()) return "?\n" + encode(Verdict::failed("no program", parsed.status().message()));
      c = *parsed;
    }
    return c.kind + "\n" + encode(check_case(c, plan.generators, progress));
  };
}

struct Judged {
  std::string kind;  // "" when it is not known
  Verdict verdict;
};

Judged judged(const Answer& answer) {
  if (answer.kind == Answer::Kind::kText) {
    const size_t end = std::min(answer.text.find('\n'), answer.text.size());
    return {answer.text.substr(0, end),
            decode_verdict(std::string_view(answer.text).substr(std::min(end + 1, answer.text.size())))};
  }
  return {"", Verdict::failed(fmt::format("{}: {}", answer.stage, answer.text), "")};
}

class Campaign {
 public:
  Campaign(const FuzzPlan& plan, const std::atomic<bool>& stop, const std::function<void(const FuzzOutcome&)>& report)
      : plan_(plan), stop_(stop), report_(report), work_(work_of(plan)), next_(plan.first), started_(now()) {}

  Result<FuzzOutcome> run() {
    seats_.resize(static_cast<size_t>(plan_.jobs));
    while (true) {
      for (Seat& seat : seats_)
        if (!seat.index && more()) HONE_RETURN_IF_ERROR(give(seat));
      if (std::ranges::none_of(seats_, [](const Seat& s) { return s.index.has_value(); })) break;
      wait();
      for (Seat& seat : seats_)
        if (seat.index)
          if (const std::optional<Answer> answer = seat.worker->poll(plan_.limit)) take(seat, *answer);
      if (stop_.load()) break;  // what is under way is not waited for
      outcome_.seconds = now() - started_;
      report_(outcome_);
    }
    outcome_.seconds = now() - started_;
    outcome_.stopped = stop_.load();
    std::ranges::sort(outcome_.failures, {}, [](const FuzzFailure& f) { return f.index.value_or(0); });
    return std::move(outcome_);
  }

 private:
  struct Seat {
    std::unique_ptr<FuzzWorker> worker;
    std::optional<uint64_t> index;  // under way
    int programs = 0;               // of this worker
  };

  bool more() const {
    const bool time_left = plan_.seconds <= 0 || now() - started_ < plan_.seconds;
    return next_ < plan_.end && time_left && !stop_.load() && outcome_.failures.size() < plan_.max_failures;
  }

  Status give(Seat& seat) {
    if (seat.programs >= kProgramsOfWorker) seat.worker.reset();
    for (int tried = 0; tried < 3; ++tried) {
      if (seat.worker == nullptr) {
        HONE_ASSIGN_OR_RETURN(seat.worker, FuzzWorker::start(work_));
        seat.programs = 0;
      }
      if (seat.worker->send(std::to_string(next_))) {
        seat.index = next_++;
        ++seat.programs;
        return {};
      }
      seat.worker.reset();  // it died between two programs
    }
    return unavailable("worker processes end before they are asked anything");
  }

  void wait() const {
    std::vector<pollfd> ready;
    for (const Seat& seat : seats_)
      if (seat.index) ready.push_back({seat.worker->descriptor(), POLLIN, 0});
    constexpr int kLookMs = 100;
    (void)poll(ready.data(), ready.size(), kLookMs);
  }

  void take(Seat& seat, const Answer& answer) {
    const uint64_t index = *seat.index;
    seat.index.reset();
    Judged j = judged(answer);
    if (answer.kind != Answer::Kind::kText) {
      seat.worker.reset();
      if (answer.stage != kGenerating) j.kind = random_case(plan_.seed, index, plan_.kinds).kind;
    }
    FuzzCounts& counts = outcome_.kinds[j.kind.empty() ? "?" : j.kind];
    ++counts.programs;
    counts.compiled += j.verdict.compiled;
    if (j.verdict.kind == Verdict::Kind::kRefused) ++counts.refused;
    if (j.verdict.kind == Verdict::Kind::kInvalid) ++counts.invalid;
    if (j.verdict.kind != Verdict::Kind::kFaulty) return;
    ++counts.failed;
    FuzzFailure failure{index, j.verdict.fault, j.verdict.details, std::nullopt};
    if (!j.kind.empty()) failure.program = random_case(plan_.seed, index, plan_.kinds);
    outcome_.failures.push_back(std::move(failure));
  }

  const FuzzPlan& plan_;
  const std::atomic<bool>& stop_;
  const std::function<void(const FuzzOutcome&)>& report_;
  const FuzzWorker::Work work_;
  std::vector<Seat> seats_;
  uint64_t next_;
  double started_;
  FuzzOutcome outcome_;
};

}  // namespace

FuzzCounts FuzzOutcome::total() const {
  FuzzCounts all;
  for (const auto& [kind, c] : kinds) {
    all.programs += c.programs, all.compiled += c.compiled, all.refused += c.refused;
    all.invalid += c.invalid, all.failed += c.failed;
  }
  return all;
}

Result<FuzzOutcome> run_campaign(const FuzzPlan& plan, const std::atomic<bool>& stop,
                                 const std::function<void(const FuzzOutcome&)>& report) {
  return Campaign(plan, stop, report).run();
}

std::optional<Verdict> FuzzJudge::judge(const FuzzCase& c, double limit) {
  const std::string text = to_text(c);
  for (int tried = 0; tried < 2; ++tried) {
    if (worker_ == nullptr) {
      Result<std::unique_ptr<FuzzWorker>> started = FuzzWorker::start(work_of(plan_));
      if (!started.ok()) return std::nullopt;
      worker_ = std::move(*started);
    }
    if (!worker_->send(text)) {
      worker_.reset();
      continue;
    }
    const std::optional<Answer> answer = worker_->wait(limit, stop_);
    if (!answer || answer->kind != Answer::Kind::kText) worker_.reset();
    if (!answer) return std::nullopt;
    return judged(*answer).verdict;
  }
  return std::nullopt;
}

FuzzCase shrink_failure(const FuzzFailure& failure, const FuzzPlan& plan, double seconds, const std::atomic<bool>& stop,
                        std::string* from) {
  // A program that is smaller than those that take some milliseconds hangs when it takes as long as this. Each of them
  // takes all of it.
  constexpr double kLongForASmallOne = 0.25;
  const bool hangs = failure.fault.ends_with(kHangs);
  const double limit = hangs ? std::min(plan.limit, kLongForASmallOne) : plan.limit, deadline = now() + seconds;
  FuzzJudge judge(plan, stop);
  auto still_fails = [&](const FuzzCase& c) {
    if (stop.load() || now() > deadline) return false;
    const std::optional<Verdict> verdict = judge.judge(c, limit);
    return verdict && verdict->kind == Verdict::Kind::kFaulty && verdict->fault == failure.fault;
  };
  FuzzCase small = shrink_case(*failure.program, still_fails);
  if (small.kind == kLoopIr) return small;
  for (const FuzzCase& lowered : lowered_cases(small)) {
    if (!still_fails(lowered)) continue;
    *from = fmt::format("{} | {}", small.problem, small.program);
    return shrink_case(lowered, still_fails);
  }
  return small;
}

}  // namespace hone::cli
