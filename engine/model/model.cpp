// From a file to a plan that runs: description, graph, passes, weights and code, each timed.
#include "engine/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <set>
#include <system_error>

#include "engine/base/guarded.h"
#include "engine/model/decoder_graph.h"
#include "engine/model/files/model_file.h"
#include "engine/model/mapped_weights.h"
#include "engine/model/model_internal.h"
#include "engine/model/packed_store.h"
#include "engine/model/tokenizer/chat.h"
#include "engine/passes/pass.h"
#include "engine/plan/resolver.h"
#include "kernels/matmul/op.h"

namespace hone {

using model::ModelFile;
using model::Tokenizer;

namespace {

constexpr int64_t kDefaultContext = 4096;

class Stopwatch {
 public:
  int64_t lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::exchange(since_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

int64_t elements(const model::Weight& w) {
  int64_t count = w.present() ? 1 : 0;
  for (const int64_t n : w.shape) count *= n;
  return count;
}

int64_t parameters_of(const model::DecoderWeights& w) {
  int64_t sum = elements(w.embedding) + elements(w.output_norm) + elements(w.output);
  for (const model::LayerWeights& l : w.layers)
    for (const model::Weight* each :
         {&l.attention_norm, &l.q, &l.k, &l.v, &l.q_bias, &l.k_bias, &l.v_bias, &l.q_norm, &l.k_norm, &l.o, &l.o_bias,
          &l.ff_norm, &l.gate, &l.gate_bias, &l.up, &l.up_bias, &l.down, &l.down_bias})
      sum += elements(*each);
  return sum;
}

Status check(const ModelOptions& options) {
  if (options.context < 0 || options.context > kMaxContext)
    return invalid_argument(
        fmt::format("context {} must be from 1 to {}, or 0 for the model's own", options.context, kMaxContext));
  if (options.max_batch < 1) return invalid_argument(fmt::format("max_batch {} must be at least 1", options.max_batch));
  for (const int64_t tokens : options.expected_tokens)
    if (tokens < 1) return invalid_argument(fmt::format("expected_tokens has {}; each must be at least 1", tokens));
  return {};
}

ModelInfo info_of(const ModelFile& file, const ModelOptions& options) {
  const model::DecoderConfig& c = file.config;
  ModelInfo info{.path = file.path, .format = file.format, .architecture = c.architecture, .name = c.name};
  info.weights =
      dtype_name(file.weights.layers.empty() ? file.weights.embedding.dtype : file.weights.layers[0].q.dtype);
  info.parameters = parameters_of(file.weights);
  info.weight_bytes = file.weight_bytes;
  info.layers = c.layers, info.width = c.width, info.heads = c.heads, info.kv_heads = c.kv_heads;
  info.head_dim = c.head_dim, info.ff = c.ff, info.vocabulary = c.vocabulary;
  info.model_context = c.context;
  info.context = options.context > 0 ? options.context : std::min(std::max<int64_t>(1, c.context), kDefaultContext);
  info.max_batch = std::min(options.max_batch, info.context);
  info.sequence_bytes = 2 * c.layers * info.context * c.kv_heads * c.head_dim * int64_t{sizeof(float)};
  info.tokenizer = file.vocabulary.has_value();
  if (!file.chat_template.empty()) info.chat_template = model::recognise_chat_template(file.chat_template);
  return info;
}

std::vector<int64_t> expected_tokens(const ModelOptions& options, const ModelInfo& info) {
  std::vector<int64_t> tokens;
  for (const int64_t wanted :
       options.expected_tokens.empty() ? std::vector<int64_t>{1, info.max_batch} : options.expected_tokens)
    if (const int64_t most = std::min(wanted, info.max_batch); std::ranges::find(tokens, most) == tokens.end())
      tokens.push_back(most);
  return tokens;
}

// Of calls with the expected numbers of tokens, each once however many layers share it.
Result<std::set<const plan::PlanFacts*>> plans_of(const executable::ExecutablePlan& plan,
                                                  std::span<const int64_t> tokens) {
  std::set<const plan::PlanFacts*> plans;
  for (const int64_t count : tokens) {
    HONE_ASSIGN_OR_RETURN(const std::vector<const plan::PlanFacts*> resolved, plan.resolved(count, 0));
    plans.insert(resolved.begin(), resolved.end());
  }
  return plans;
}

ModelInfo::Plans count(const std::set<const plan::PlanFacts*>& all) {
  ModelInfo::Plans plans;
  for (const plan::PlanFacts* facts : all) {
    switch (facts->reason) {
      case plan::Reason::kExact:
        ++plans.exact;
        break;
      case plan::Reason::kNearShape:
        ++plans.near_shape;
        break;
      case plan::Reason::kNearMachine:
        ++plans.near_machine;
        break;
      case plan::Reason::kPackage:
        ++plans.package;
        break;
      case plan::Reason::kDefault:
        ++plans.by_default;
        break;
    }
  }
  return plans;
}

// Weights of one dtype have one class, whatever the number of rows.
std::string class_of(const std::set<const plan::PlanFacts*>& plans) {
  const bool dots = std::ranges::any_of(plans, [](const plan::PlanFacts* p) { return p->numerics == "bf16"; });
  return dots ? "bf16" : "ordered";
}

// What matmuls would say of themselves, one by one and without the file.
Status check_numerics(const ModelInfo& info, const std::string& numerics) {
  HONE_RETURN_IF_ERROR(matmul::Op::check_numerics(numerics));
  if (numerics != "bf16" || info.weights == "bf16") return {};
  return invalid_argument(
      fmt::format("{}: numerics 'bf16' is for weights of bf16, these are {}; 'any' takes it where there are", info.path,
                  info.weights));
}

Status no_tokenizer(const ModelInfo& info) {
  return failed_precondition(fmt::format(
      "{} has no tokenizer; name a file that has one (--tokenizer FILE, ModelOptions::tokenizer)", info.path));
}

struct TimedTokenizer {
  Result<Tokenizer> tokenizer;
  int64_t ns;
};

// Beside graph and passes where there is a second thread: it takes a fifth of a warm start, and nothing of theirs.
std::future<TimedTokenizer> make_tokenizer(model::Vocabulary vocabulary, bool beside) {
  const auto make = [of = std::make_shared<model::Vocabulary>(std::move(vocabulary))] {
    Stopwatch watch;
    Result<Tokenizer> made = guarded([&] { return Tokenizer::create(std::move(*of)); });
    return TimedTokenizer{std::move(made), watch.lap()};
  };
  if (beside) {
    try {
      return std::async(std::launch::async, make);
    } catch (const std::system_error&) {  // no thread to be had: here, then
    }
  }
  std::promise<TimedTokenizer> done;
  done.set_value(make());
  return done.get_future();
}

Result<Model> load_model(const Engine& engine, const std::string& path, const ModelOptions& options) {
  HONE_RETURN_IF_ERROR(check(options));
  Stopwatch total, part;
  HONE_ASSIGN_OR_RETURN(ModelFile file, model::open_model(path, {.tokenizer = options.tokenizer}));
  ModelInfo info = info_of(file, options);
  HONE_RETURN_IF_ERROR(check_numerics(info, options.numerics));
  info.times.open_ns = part.lap();
  std::future<TimedTokenizer> making;
  if (file.vocabulary) making = make_tokenizer(*std::move(file.vocabulary), engine.info().threads > 1);
  passes::Compilation compilation;
  HONE_ASSIGN_OR_RETURN(compilation.graph,
                        model::decoder_graph(file, {.context = info.context, .max_batch = info.max_batch}));
  HONE_RETURN_IF_ERROR(passes::run_passes(compilation).status());
  info.times.passes_ns = part.lap();
  // A tokenizer that cannot be is said before weights are packed, which may take minutes.
  std::optional<Tokenizer> tokenizer;
  if (making.valid()) {
    TimedTokenizer made = making.get();
    if (const Status& s = made.tokenizer.status(); !s.ok()) {
      if (options.tokenizer.empty()) return Status(s.code(), fmt::format("{}: {}", path, s.message()));
      return model::of_given_tokenizer({s.code(), fmt::format("{}: {}", options.tokenizer, s.message())});
    }
    tokenizer = *std::move(made.tokenizer);
    info.times.tokenizer_ns = made.ns;
  }
  (void)part.lap();
  // Chunks of other sizes compile in their first call: some 20 ms each, where all of them take longer than all else
  // here.
  executable::PlanOptions plan_options{
      .expected_tokens = expected_tokens(options, info), .warm_up = false, .numerics = options.numerics};
  model::PackedStore store(model::store_place(), file.identity, engine.info().threads);
  if (options.weight_cache) plan_options.weights = &store;
  plan_options.done_with = [mapped = model::MappedWeights(file.weights)](std::span<const std::byte> bytes) {
    (void)mapped.release(bytes);  // false: a copy, which goes with its constant
  };
  HONE_ASSIGN_OR_RETURN(executable::ExecutablePlan plan,
                        executable::ExecutablePlan::create(engine, std::move(compilation), plan_options));
  HONE_ASSIGN_OR_RETURN(const std::set<const plan::PlanFacts*> plans, plans_of(plan, plan_options.expected_tokens));
  info.plans = count(plans);
  info.numerics = class_of(plans);
  info.packed_bytes = plan.memory().packed_bytes;
  info.times.prepare_ns = part.lap();
  info.times.total_ns = total.lap();
  auto impl = std::make_shared<Model::Impl>(std::move(file.config), std::move(plan));
  impl->tokenizer = std::move(tokenizer);
  impl->info = std::move(info);
  return Model(std::move(impl));
}

Result<std::vector<int32_t>> chat_tokens(const Model::Impl& of, std::span<const ChatTurn> turns,
                                         std::string_view chat_template) {
  if (!of.tokenizer) return no_tokenizer(of.info);
  if (chat_template.empty()) chat_template = of.info.chat_template;
  if (chat_template.empty())
    return failed_precondition(fmt::format("{} has no chat template that is known; name one of: {}", of.info.path,
                                           fmt::join(model::chat_template_names(), ", ")));
  std::vector<model::ChatMessage> messages;
  for (const ChatTurn& turn : turns) messages.push_back({turn.role, turn.content});
  HONE_ASSIGN_OR_RETURN(const std::vector<model::ChatPiece> pieces,
                        model::apply_chat_template(chat_template, messages, true));
  return model::encode_chat(*of.tokenizer, pieces);
}

}  // namespace

Result<Model> Model::load(const Engine& engine, const std::string& path, const ModelOptions& options) {
  return guarded([&] { return load_model(engine, path, options); });
}

const ModelInfo& Model::info() const { return impl_->info; }

Result<Sequence> Model::sequence() const {
  return guarded([&] { return make_sequence(impl_); });
}

// ---- text ----

Result<std::vector<int32_t>> Model::tokenize(std::string_view text, const TokenizeOptions& options) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    if (!impl_->tokenizer) return no_tokenizer(impl_->info);
    return impl_->tokenizer->encode(text, {.add_bos = options.add_bos, .parse_special = options.parse_special});
  });
}

Result<std::vector<int32_t>> Model::tokenize_chat(std::span<const ChatTurn> turns,
                                                  std::string_view chat_template) const {
  return guarded([&] { return chat_tokens(*impl_, turns, chat_template); });
}

bool Model::ends_generation(int32_t id) const { return impl_->tokenizer && impl_->tokenizer->ends_generation(id); }

class TextStream::Impl {
 public:
  std::optional<model::Detokenizer> detokenizer;
};

TextStream::TextStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TextStream::TextStream(TextStream&&) noexcept = default;
TextStream& TextStream::operator=(TextStream&&) noexcept = default;
TextStream::~TextStream() = default;

std::string TextStream::push(int32_t id) { return impl_->detokenizer ? impl_->detokenizer->push(id) : std::string(); }
std::string TextStream::finish() { return impl_->detokenizer ? impl_->detokenizer->finish() : std::string(); }

TextStream Model::text_stream(bool special, bool from_start) const {
  auto stream = std::make_unique<TextStream::Impl>();
  if (impl_->tokenizer) stream->detokenizer.emplace(*impl_->tokenizer, special, from_start);
  return TextStream(std::move(stream));
}

// ---- tools ----

const model::DecoderConfig& ModelAccess::config(const Model& model) { return model.impl_->config; }
const executable::ExecutablePlan& ModelAccess::plan(const Model& model) { return model.impl_->plan; }
const model::Tokenizer* ModelAccess::tokenizer(const Model& model) {
  return model.impl_->tokenizer ? &*model.impl_->tokenizer : nullptr;
}

}  // namespace hone
