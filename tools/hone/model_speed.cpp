#include "tools/hone/model_speed.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "autotune/measure/clock.h"
#include "engine/base/random.h"
#include "engine/model/model.h"
#include "tools/hone/cli.h"
#include "tools/hone/model_status.h"

namespace hone::cli {

std::string ModelWork::name() const {
  const std::string what = prompt > 0 ? fmt::format("pp{}", prompt) : fmt::format("tg{}", generate);
  return depth > 0 ? fmt::format("{} @ d{}", what, depth) : what;
}

std::vector<ModelCall> calls_of(const ModelWork& work, int64_t max_batch) {
  std::vector<ModelCall> calls;
  for (int64_t done = 0; done < work.prompt; done += max_batch)
    calls.push_back({std::min(max_batch, work.prompt - done), work.depth + done});
  for (int64_t i = 0; i < work.generate; ++i) calls.push_back({1, work.depth + work.prompt + i});
  return calls;
}

ModelDemand demand_of(const model::DecoderConfig& c, int64_t bytes_per_weight, const ModelCall& call) {
  const auto tokens = static_cast<double>(call.tokens), before = static_cast<double>(call.position);
  const auto width = static_cast<double>(c.width), head = static_cast<double>(c.head_dim);
  const double q = static_cast<double>(c.heads) * head, kv = static_cast<double>(c.kv_heads) * head;
  const double layer = width * (q + 2 * kv) + q * width + 3 * width * static_cast<double>(c.ff);
  const double layers = static_cast<double>(c.layers), output = width * static_cast<double>(c.vocabulary);
  // Row i of the call sees what came before it, and itself; in a window, its last `window` keys.
  double seen = 0, read = 0;  // of all layers
  for (size_t i = 0; i < static_cast<size_t>(c.layers); ++i) {
    const double window = model::window_of(c, i) > 0 ? static_cast<double>(model::window_of(c, i)) : INFINITY;
    seen += std::min(tokens * before + tokens * (tokens + 1) / 2, tokens * window);
    read += std::min(before + tokens, window + tokens);
  }
  // One row of the output projection: only the last token is asked for what comes next.
  return {.flops = 2 * (layers * layer * tokens + output),
          .scores = 4 * q * seen,
          .bytes = (layers * layer + output) * static_cast<double>(bytes_per_weight) + 2 * kv * 4 * read};
}

Result<ModelSpeed> ModelSpeed::create(const std::string& path, const std::vector<ModelVariant>& variants,
                                      const ModelSpeedOptions& options) {
  ModelSpeed speed(path, options);
  for (const ModelVariant& how : variants) {
    HONE_ASSIGN_OR_RETURN(Variant variant, speed.load(how));
    speed.variants_.push_back(std::move(variant));
  }
  return speed;
}

Result<ModelSpeed::Variant> ModelSpeed::load(const ModelVariant& how) const {
  HONE_ASSIGN_OR_RETURN(
      const Engine engine,
      Engine::create({.database = options_.database, .use_database = how.tuned, .threads = how.threads}));
  Result<Model> model = Model::load(engine, path_,
                                    {.context = options_.context,
                                     .max_batch = options_.max_batch,
                                     .numerics = how.numerics.empty() ? options_.numerics : how.numerics});
  if (!model.ok()) return model_status(model.status());
  HONE_ASSIGN_OR_RETURN(Sequence sequence, model->sequence());
  return Variant{how, *std::move(model), std::move(sequence)};
}

// The old one goes first, as its weights may be all that fits into memory beside the others'.
Status ModelSpeed::reload(size_t variant) {
  const auto at = variants_.begin() + static_cast<std::ptrdiff_t>(variant);
  const ModelVariant how = at->how;
  variants_.erase(at);
  HONE_ASSIGN_OR_RETURN(Variant again, load(how));
  variants_.insert(variants_.begin() + static_cast<std::ptrdiff_t>(variant), std::move(again));
  return {};
}

Result<std::optional<int64_t>> ModelSpeed::run(size_t variant, const ModelWork& work, const OnCall& on_call) {
  Variant& v = variants_[variant];
  Random random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(work.depth + work.tokens()));
  for (int32_t& t : tokens) t = static_cast<int32_t>(random.below(v.model.info().vocabulary));
  const auto append = [&](int64_t position, int64_t count) {
    return v.sequence.prefill(std::span(tokens).subspan(static_cast<size_t>(position), static_cast<size_t>(count)));
  };
  HONE_RETURN_IF_ERROR(v.sequence.truncate(std::min(work.depth, v.sequence.position())));
  const int64_t most = v.model.info().max_batch;
  for (int64_t at = v.sequence.position(); at < work.depth && !interrupted(); at = v.sequence.position())
    HONE_RETURN_IF_ERROR(append(at, std::min(most, work.depth - at)).status());
  executable::Session& session = ModelAccess::session(v.sequence);
  session.measure_steps(static_cast<bool>(on_call));
  const std::vector<ModelCall> calls = calls_of(work, most);
  autotune::SteadyClock clock;
  int64_t total = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (interrupted()) return std::optional<int64_t>();
    const int64_t begin = clock.now_ns();
    HONE_RETURN_IF_ERROR(append(calls[i].position, calls[i].tokens).status());
    total += clock.now_ns() - begin;
    if (on_call) on_call(i, session.step_ns());
  }
  return std::optional<int64_t>(total);
}

bool fits_in_cache(int64_t weight_bytes, const Machine& machine) {
  const BlockingCaches caches = blocking_caches(machine);
  return weight_bytes <= caches.l2 + caches.l3_share;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<int64_t>(usage.ru_maxrss) * 1024 : 0;
}

}  // namespace hone::cli
