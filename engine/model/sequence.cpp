// Calls of a model's plan for one sequence: tokens in, logits of the last one out.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/base/guarded.h"
#include "engine/model/model.h"
#include "engine/model/model_internal.h"

namespace hone {

class Sequence::Impl {
 public:
  Impl(std::shared_ptr<const Model::Impl> m, executable::Session s)
      : model(std::move(m)), session(std::move(s)), logits(static_cast<size_t>(model->config.vocabulary)) {}

  Status check(std::span<const int32_t> tokens) const {
    if (tokens.empty()) return invalid_argument("there are no tokens; give at least one (a bos token)");
    for (const int32_t id : tokens)
      if (id < 0 || id >= model->config.vocabulary)
        return invalid_argument(
            fmt::format("token {} is not in the vocabulary, of 0 to {}", id, model->config.vocabulary - 1));
    const int64_t room = model->info.context - session.position(), wanted = static_cast<int64_t>(tokens.size());
    if (wanted <= room) return {};
    return resource_exhausted(
        fmt::format("the context of {} tokens is full: there is room for {} more and not for {}; "
                    "load the model with a larger context",
                    model->info.context, room, wanted));
  }

  Status call(std::span<const int32_t> tokens) {
    const std::array<int64_t, 1> count{static_cast<int64_t>(tokens.size())}, one{1};
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    const std::array<executable::InputTensor, 2> inputs{{{tokens.data(), count}, {&last, one}}};
    const std::array<executable::OutputTensor, 1> outputs{
        {{logits.data(), static_cast<int64_t>(logits.size() * sizeof(float))}}};
    return session.run(inputs, outputs);
  }

  Result<std::span<const float>> append(std::span<const int32_t> tokens) {
    HONE_RETURN_IF_ERROR(check(tokens));
    const int64_t before = session.position();
    valid = false;
    const size_t batch = static_cast<size_t>(model->info.max_batch);
    for (size_t at = 0; at < tokens.size(); at += batch) {
      const Status status = call(tokens.subspan(at, std::min(batch, tokens.size() - at)));
      if (status.ok()) continue;
      (void)session.truncate(before);  // cannot fail: the session has been there
      return status;
    }
    valid = true;
    return std::span<const float>(logits);
  }

  std::shared_ptr<const Model::Impl> model;
  executable::Session session;
  std::vector<float> logits;
  bool valid = false;
};

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::Sequence(Sequence&&) noexcept = default;
Sequence& Sequence::operator=(Sequence&&) noexcept = default;
Sequence::~Sequence() = default;

Result<std::span<const float>> Sequence::prefill(std::span<const int32_t> tokens) {
  return guarded([&] { return impl_->append(tokens); });
}
Result<std::span<const float>> Sequence::decode(int32_t token) { return prefill({&token, 1}); }

std::span<const float> Sequence::logits() const {
  return impl_->valid ? std::span<const float>(impl_->logits) : std::span<const float>();
}

int64_t Sequence::position() const { return impl_->session.position(); }
int64_t Sequence::context() const { return impl_->model->info.context; }

Status Sequence::truncate(int64_t position) {
  return guarded([&]() -> Status {
    HONE_RETURN_IF_ERROR(impl_->session.truncate(position));
    impl_->valid = false;
    return {};
  });
}

executable::Session& ModelAccess::session(Sequence& sequence) { return sequence.impl_->session; }

Result<Sequence> make_sequence(std::shared_ptr<const Model::Impl> model) {
  HONE_ASSIGN_OR_RETURN(executable::Session session, model->plan.session());
  return Sequence(std::make_unique<Sequence::Impl>(std::move(model), std::move(session)));
}

}  // namespace hone
