// Running a plan. The hot path reads from top to bottom in Session::Impl::run.
#include <fmt/format.h>

#include <chrono>

#include "engine/base/guarded.h"
#include "engine/executable/plan_internal.h"
#include "engine/graph/tensor.h"

namespace hone::executable {

// ---- sizes ----

namespace {

Status violated(const ExecutablePlan::Impl::Check& c, int64_t left, int64_t right) {
  const char* relation = c.kind == passes::Guard::Kind::kEqual     ? "must be"
                         : c.kind == passes::Guard::Kind::kAtMost  ? "must be at most"
                         : c.kind == passes::Guard::Kind::kAtLeast ? "must be at least"
                                                                   : "must be a multiple of";
  return invalid_argument(fmt::format("{} is {} and {} {}: {}", c.what, left, relation, right, c.rule));
}

bool holds(passes::Guard::Kind kind, int64_t left, int64_t right) {
  switch (kind) {
    case passes::Guard::Kind::kEqual:
      return left == right;
    case passes::Guard::Kind::kAtMost:
      return left <= right;
    case passes::Guard::Kind::kAtLeast:
      return left >= right;
    case passes::Guard::Kind::kMultiple:
      return right == 0 || left % right == 0;
  }
  return false;
}

}  // namespace

Status ExecutablePlan::Impl::bind(std::span<const InputTensor> tensors, int64_t position,
                                  std::span<int64_t> values) const {
  if (tensors.size() != inputs.size())
    return invalid_argument(fmt::format("{} inputs are given, the graph has {}", tensors.size(), inputs.size()));
  std::fill(values.begin(), values.end(), -1);
  if (position_symbol >= 0) values[static_cast<size_t>(position_symbol)] = position;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (tensors[i].shape.size() != inputs[i].dims.size())
      return invalid_argument(fmt::format("input {} has {} dimensions and must have {}", inputs[i].name,
                                          tensors[i].shape.size(), inputs[i].dims.size()));
    for (size_t d = 0; d < inputs[i].dims.size(); ++d) {
      const int symbol = inputs[i].dims[d].binds;
      if (tensors[i].shape[d] < 0)
        return invalid_argument(fmt::format("input {}, dimension {} is {}", inputs[i].name, d, tensors[i].shape[d]));
      if (symbol >= 0 && values[static_cast<size_t>(symbol)] < 0)
        values[static_cast<size_t>(symbol)] = tensors[i].shape[d];
    }
  }
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0) values[i] = least[i];
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t d = 0; d < inputs[i].dims.size(); ++d) {
      const int64_t must = inputs[i].dims[d].size.at(values);
      if (tensors[i].shape[d] == must) continue;
      const std::string& rule = inputs[i].rules[d];
      const std::string value = std::to_string(must);
      return invalid_argument(fmt::format("input {}, dimension {} is {} and must be {}{}", inputs[i].name, d,
                                          tensors[i].shape[d], value, rule == value ? "" : " = " + rule));
    }
  for (const Check& c : checks) {
    const int64_t left = c.left.at(values), right = c.right.at(values);
    if (!holds(c.kind, left, right)) return violated(c, left, right);
  }
  return {};
}

// ---- sessions ----

class Session::Impl {
 public:
  static Result<std::unique_ptr<Impl>> create(std::shared_ptr<const ExecutablePlan::Impl> plan) {
    auto session = std::make_unique<Impl>();
    HONE_ASSIGN_OR_RETURN(session->arena_, AlignedBuffer::allocate(plan->memory.arena_bytes));
    for (const Preparation::CacheNeed& need : plan->caches) {
      HONE_ASSIGN_OR_RETURN(KvCache cache, need.attention->cache({.sequences = 1, .capacity = need.capacity}));
      session->caches_.push_back(std::move(cache));
    }
    session->values_.resize(plan->symbols.size());
    session->bases_.resize(plan->constants.size());
    for (size_t i = 0; i < session->bases_.size(); ++i) {
      session->bases_[i] = const_cast<std::byte*>(plan->constants[i]);
      if (plan->arena_offsets[i] >= 0) session->bases_[i] = session->arena_.data() + plan->arena_offsets[i];
    }
    session->ns_.resize(plan->steps.size());
    session->plan_ = std::move(plan);
    return session;
  }

  Status run(std::span<const InputTensor> inputs, std::span<const OutputTensor> outputs) {
    HONE_RETURN_IF_ERROR(plan_->bind(inputs, position_, values_));
    HONE_RETURN_IF_ERROR(set_operands(inputs, outputs));
    HONE_RETURN_IF_ERROR(forget(position_));  // what a call has left that ended in an exception
    const Call call{.symbols = values_, .bases = bases_, .caches = caches_};
    Status status;
    for (size_t i = 0; i < plan_->steps.size() && status.ok(); ++i) status = run_step(call, i);
    if (status.ok()) {
      position_ += plan_->tokens.at(values_);
      return {};
    }
    if (Status undone = forget(position_); !undone.ok()) return undone;
    return status;
  }

  Result<std::vector<std::vector<int64_t>>> output_shapes(std::span<const InputTensor> inputs) const {
    std::vector<int64_t> values(values_.size());
    HONE_RETURN_IF_ERROR(plan_->bind(inputs, position_, values));
    std::vector<std::vector<int64_t>> shapes;
    for (const ExecutablePlan::Impl::Output& o : plan_->outputs) {
      shapes.emplace_back();
      for (const Size& d : o.dims) shapes.back().push_back(d.at(values));
    }
    return shapes;
  }

  Status truncate(int64_t position) {
    if (position < 0 || position > position_)
      return invalid_argument(
          fmt::format("position {} is not from 0 to {}, where the session is", position, position_));
    HONE_RETURN_IF_ERROR(forget(position));
    position_ = position;
    return {};
  }

  int64_t position() const { return position_; }
  void measure_steps(bool on) { measure_ = on; }
  std::span<const int64_t> step_ns() const { return ns_; }
  std::vector<std::string> step_names() const {
    std::vector<std::string> names;
    for (const auto& step : plan_->steps) names.push_back(step->name);
    return names;
  }

 private:
  Status run_step(const Call& call, size_t i) {
    const Step& step = *plan_->steps[i];
    const runtime::NodeScope scope(step.name, step.split);
    if (!measure_) return step.run(call);
    const auto begin = std::chrono::steady_clock::now();
    Status status = step.run(call);
    ns_[i] = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    return status;
  }

  Status set_operands(std::span<const InputTensor> inputs, std::span<const OutputTensor> outputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].data == nullptr && has_elements(inputs[i].shape))
        return invalid_argument(fmt::format("input {} is null", plan_->inputs[i].name));
      if (plan_->inputs[i].truth) {
        size_t bytes = 1;
        for (const int64_t d : inputs[i].shape) bytes *= static_cast<size_t>(d);
        HONE_RETURN_IF_ERROR(
            graph::check_truth_values(plan_->inputs[i].name, {static_cast<const std::byte*>(inputs[i].data), bytes}));
      }
      bases_[static_cast<size_t>(plan_->inputs[i].buffer)] = static_cast<std::byte*>(const_cast<void*>(inputs[i].data));
    }
    if (outputs.size() != plan_->outputs.size())
      return invalid_argument(
          fmt::format("memory for {} outputs is given, the graph has {}", outputs.size(), plan_->outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ExecutablePlan::Impl::Output& o = plan_->outputs[i];
      int64_t bytes = o.element_bytes;
      for (const Size& d : o.dims) bytes *= d.at(values_);
      if (outputs[i].bytes < bytes)
        return invalid_argument(fmt::format("output {} has {} bytes and needs {}", o.name, outputs[i].bytes, bytes));
      if (outputs[i].data == nullptr && bytes > 0) return invalid_argument(fmt::format("output {} is null", o.name));
      bases_[static_cast<size_t>(o.buffer)] = static_cast<std::byte*>(outputs[i].data);
    }
    return {};
  }

  static bool has_elements(std::span<const int64_t> shape) {
    for (const int64_t d : shape)
      if (d == 0) return false;
    return true;
  }

  // Keys and values of tokens from `position` on.
  Status forget(int64_t position) {
    for (KvCache& cache : caches_)
      if (cache.length(0) > position) HONE_RETURN_IF_ERROR(cache.truncate(0, position));
    return {};
  }

  std::shared_ptr<const ExecutablePlan::Impl> plan_;
  AlignedBuffer arena_;
  std::vector<KvCache> caches_;
  std::vector<int64_t> values_;    // of symbols
  std::vector<std::byte*> bases_;  // of buffers
  std::vector<int64_t> ns_;
  int64_t position_ = 0;
  bool measure_ = false;
};

// ---- the face ----

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Result<Session> ExecutablePlan::session() const {
  return guarded([&]() -> Result<Session> {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Session::Impl> impl, Session::Impl::create(impl_));
    return Session(std::move(impl));
  });
}

Status Session::run(std::span<const InputTensor> inputs, std::span<const OutputTensor> outputs) {
  return guarded([&] { return impl_->run(inputs, outputs); });
}
Result<std::vector<std::vector<int64_t>>> Session::output_shapes(std::span<const InputTensor> inputs) const {
  return guarded([&] { return impl_->output_shapes(inputs); });
}
int64_t Session::position() const { return impl_->position(); }
Status Session::truncate(int64_t position) {
  return guarded([&] { return impl_->truncate(position); });
}
void Session::measure_steps(bool on) { impl_->measure_steps(on); }
std::span<const int64_t> Session::step_ns() const { return impl_->step_ns(); }
std::vector<std::string> Session::step_names() const { return impl_->step_names(); }

}  // namespace hone::executable
