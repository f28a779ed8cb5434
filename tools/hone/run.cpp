// hone run: text from a model file. Text goes to stdout as it comes, with --json one object at the end; what it took to
// stderr.
#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>

#include "engine/base/env.h"
#include "engine/model/model.h"
#include "engine/model/tokenizer/chat.h"
#include "hone/model.hpp"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/model_speed.h"
#include "tools/hone/model_status.h"
#include "tools/hone/new_file.h"
#include "tools/hone/npy.h"
#include "tools/hone/read_text.h"
#include "tools/hone/stop_text.h"

namespace hone::cli {
namespace {

constexpr const char* kOfTheModel = "auto";
constexpr int64_t kMostBatch = 65536;  // as bench and tune
constexpr int64_t kMostTopK = int64_t{1} << 30;

struct RunArgs {
  std::string model, tokenizer, db, logits, chat_template, numerics;
  std::optional<std::string> prompt, file, system;
  std::vector<std::string> stops;
  int64_t count = 128, context = 0, batch = 512;
  int threads = 0;
  SamplerOptions sampling;
  bool tokens = false, json = false, special = false, ignore_eos = false;
};

// ---- the prompt ----

// Without the newline that editors and echo put at the end.
Result<std::string> without_newline(Result<std::string> text) {
  if (text.ok() && text->ends_with('\n')) text->pop_back();
  if (text.ok() && text->ends_with('\r')) text->pop_back();
  return text;
}

Result<std::string> prompt_text(const RunArgs& args) {
  if (args.prompt.has_value() == args.file.has_value())
    return invalid_argument("give the prompt with either -p TEXT (- is stdin) or -f FILE");
  if (args.file) return without_newline(read_text(*args.file));
  return *args.prompt == "-" ? without_newline(read_text("-")) : *args.prompt;
}

// Tables of embeddings have rows to spare, for the sake of hardware: Qwen2.5's 151936 have 271 above its last token.
bool is_padding(int64_t tokens, int64_t rows) { return rows % 64 == 0 && (rows - tokens) * 100 < rows; }

// What makes text of another vocabulary than the model was trained with, and no error.
void note_vocabulary(const Model& model, const std::string& chat_template) {
  const model::Tokenizer& tokenizer = *ModelAccess::tokenizer(model);
  const auto tokens = static_cast<int64_t>(tokenizer.vocabulary().tokens.size());
  if (tokens < model.info().vocabulary && !is_padding(tokens, model.info().vocabulary))
    note(fmt::format("the tokenizer has {} tokens, the model {}: those above have no text", tokens,
                     model.info().vocabulary));
  if (const auto lacking = model::markers_lacking(tokenizer, chat_template); !lacking.empty())
    note(fmt::format("the vocabulary lacks {}, which the chat template {} marks turns with: read as plain text",
                     fmt::join(lacking, " "), chat_template));
}

Result<std::vector<int32_t>> tokens_of(const RunArgs& args, const Model& model, const std::string& text) {
  if (args.chat_template.empty() && !args.system) {
    note_vocabulary(model, "");
    return model.tokenize(text, {.add_bos = {}, .parse_special = args.special});
  }
  std::vector<ChatTurn> turns;
  if (args.system) turns.push_back({"system", *args.system});
  turns.push_back({"user", text});
  const bool own = args.chat_template.empty() || args.chat_template == kOfTheModel;
  note_vocabulary(model, own ? model.info().chat_template : args.chat_template);
  Result<std::vector<int32_t>> tokens = model.tokenize_chat(turns, own ? "" : args.chat_template);
  return tokens.ok() ? std::move(tokens) : typed(tokens.status());
}

Result<std::vector<int32_t>> prompt_tokens(const RunArgs& args, const Model& model, const std::string& text) {
  const ModelInfo& info = model.info();
  if (!info.tokenizer)
    return invalid_argument(fmt::format(
        "{} has no tokenizer; give --tokenizer FILE (a GGUF file, tokenizer.json, or tokenizer.bin of llama2.c)",
        info.path));
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokens_of(args, model, text));
  if (static_cast<int64_t>(tokens.size()) > info.context)
    return invalid_argument(
        fmt::format("the prompt has {} tokens, the context of {} tokens has no room for it: give "
                    "--context {} or more, or a shorter prompt",
                    tokens.size(), info.context, tokens.size()));
  return tokens;
}

// ---- generation ----

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Phase {
  int64_t tokens = 0, ns = 0;
  double per_second() const { return ns == 0 ? 0 : static_cast<double>(tokens) * 1e9 / static_cast<double>(ns); }
};

Json phase_json(const Phase& p) {
  return {{"tokens", p.tokens}, {"ns", p.ns}, {"tok_s", p.tokens == 0 ? Json(nullptr) : Json(p.per_second())}};
}

// Compiles what calls of the prompt's sizes need and what the first token after it does, as far as loading has not.
// Nanoseconds.
Result<int64_t> prepare_calls(const Model& model, int64_t prompt) {
  const int64_t begin = now_ns(), batch = model.info().max_batch;
  std::set<std::pair<int64_t, uint64_t>> done;  // plans of attention differ by powers of two of the keys
  const auto prepare = [&](int64_t tokens, int64_t position) -> Status {
    if (!done.emplace(tokens, std::bit_ceil(static_cast<uint64_t>(position + tokens))).second) return {};
    return ModelAccess::plan(model).report(tokens, position).status();
  };
  for (int64_t at = 0; at < prompt && !interrupted(); at += batch)
    HONE_RETURN_IF_ERROR(prepare(std::min(batch, prompt - at), at));
  if (prompt < model.info().context) HONE_RETURN_IF_ERROR(prepare(1, prompt));
  return now_ns() - begin;
}

class Generation {
 public:
  Generation(const RunArgs& args, const Model& model, Sequence& sequence, Sampler& sampler)
      : args_(args),
        model_(model),
        sequence_(sequence),
        sampler_(sampler),
        text_(model.text_stream(args.special)),
        stop_(args.stops) {}

  Status run(std::span<const int32_t> prompt) {
    HONE_RETURN_IF_ERROR(read(prompt));
    while (ended_by.empty()) {
      if (interrupted())
        ended_by = "interrupt";
      else if (static_cast<int64_t>(tokens.size()) == args_.count)
        ended_by = "length";
      else
        HONE_RETURN_IF_ERROR(step());
    }
    if (!stop_.met()) show(stop_.push(text_.finish()) + stop_.finish());
    if (!args_.json) write_results("\n");
    return {};
  }

  std::vector<int32_t> tokens;
  std::string text, ended_by;
  std::vector<float> logits;  // of all steps, where they are wanted
  int64_t prepare_ns = 0;
  Phase prefill, decode;

 private:
  // A piece at a time, so that an interrupt does not wait for all of a long prompt.
  Status read(std::span<const int32_t> prompt) {
    sampler_.accept(prompt);
    const size_t batch = static_cast<size_t>(model_.info().max_batch);
    const int64_t begin = now_ns();
    for (size_t at = 0; at < std::max<size_t>(prompt.size(), 1) && ended_by.empty(); at += batch) {
      const auto piece = prompt.subspan(at, std::min(batch, prompt.size() - at));
      HONE_RETURN_IF_ERROR(sequence_.prefill(piece).status());
      prefill.tokens += static_cast<int64_t>(piece.size());
      if (interrupted()) ended_by = "interrupt";
    }
    prefill.ns = now_ns() - begin;
    return {};
  }

  Status step() {
    if (!tokens.empty()) {
      if (sequence_.position() == sequence_.context()) {
        note(fmt::format("the context of {} tokens is full; --context takes more", sequence_.context()));
        ended_by = "context";
        return {};
      }
      const int64_t begin = now_ns();
      HONE_RETURN_IF_ERROR(sequence_.decode(tokens.back()).status());
      decode.ns += now_ns() - begin;
      ++decode.tokens;
    }
    if (!args_.logits.empty()) logits.insert(logits.end(), sequence_.logits().begin(), sequence_.logits().end());
    const Result<int32_t> sampled = sampler_.sample(sequence_.logits());
    if (!sampled.ok())  // no numbers come from a damaged file, and nothing that was typed
      return model_status(
          {sampled.status().code(), fmt::format("{}: {}", model_.info().path, sampled.status().message())});
    const int32_t id = *sampled;
    if (!args_.ignore_eos && model_.ends_generation(id)) {
      ended_by = "eos";
      return {};
    }
    tokens.push_back(id);
    if (args_.tokens && !args_.json) print("{}{}", tokens.size() == 1 ? "" : " ", id);
    show(stop_.push(text_.push(id)));
    if (stop_.met()) ended_by = "stop";
    return {};
  }

  void show(const std::string& piece) {
    text += piece;
    if (!args_.json && !args_.tokens && !piece.empty()) write_results(piece);
  }

  const RunArgs& args_;
  const Model& model_;
  Sequence& sequence_;
  Sampler& sampler_;
  TextStream text_;
  StopText stop_;
};

// ---- what came out ----

Status write_logits(NewFile& file, const Generation& g, int64_t vocabulary) {
  const int64_t steps = static_cast<int64_t>(g.logits.size()) / vocabulary;
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(DType::kF32, {steps, vocabulary}));
  if (!g.logits.empty()) std::memcpy(array.data.data(), g.logits.data(), g.logits.size() * sizeof(float));
  return write_npy(file, array);
}

Json report_json(const Model& model, std::span<const int32_t> prompt, const Generation& g) {
  const ModelInfo& info = model.info();
  return {{"model", info.path},
          {"architecture", info.architecture},
          {"weights", info.weights},
          {"numerics", info.numerics},
          {"prompt_tokens", prompt},
          {"tokens", g.tokens},
          {"text", g.text},
          {"ended_by", g.ended_by},
          {"load",
           {{"ns", info.times.total_ns},
            {"open_ns", info.times.open_ns},
            {"tokenizer_ns", info.times.tokenizer_ns},
            {"passes_ns", info.times.passes_ns},
            {"prepare_ns", info.times.prepare_ns}}},
          {"prepare", {{"ns", g.prepare_ns}}},
          {"prefill", phase_json(g.prefill)},
          {"decode", phase_json(g.decode)},
          {"plans",
           {{"exact", info.plans.exact},
            {"near_shape", info.plans.near_shape},
            {"near_machine", info.plans.near_machine},
            {"package", info.plans.package},
            {"default", info.plans.by_default}}},
          {"peak_rss", peak_resident_bytes()}};
}

void note_times(const Model& model, const Generation& g) {
  const auto phase = [](const char* name, const Phase& p) {
    return fmt::format("{} {} tokens in {:.1f} ms ({:.1f} tokens/s)", name, p.tokens, static_cast<double>(p.ns) / 1e6,
                       p.per_second());
  };
  note(fmt::format("load {:.0f} ms, prepare {:.0f} ms, {}, {}, {} MiB at most",
                   static_cast<double>(model.info().times.total_ns) / 1e6, static_cast<double>(g.prepare_ns) / 1e6,
                   phase("prefill", g.prefill), phase("decode", g.decode), peak_resident_bytes() >> 20));
}

Result<std::optional<NewFile>> logits_file(const RunArgs& args) {
  if (args.logits.empty()) return std::optional<NewFile>();
  if (args.logits == "-") return invalid_argument("--logits - would mix them with the text on stdout; name a file");
  HONE_ASSIGN_OR_RETURN(NewFile file, create_npy(args.logits));
  return std::optional<NewFile>(std::move(file));
}

Result<Model> load_model(const RunArgs& args, const Engine& engine) {
  note_weights_limit();
  Result<Model> model = Model::load(
      engine, args.model,
      {.tokenizer = args.tokenizer, .context = args.context, .max_batch = args.batch, .numerics = args.numerics});
  if (model.ok()) return model;
  const bool of_tokenizer = !args.tokenizer.empty() && model.status().message().starts_with(args.tokenizer + ": ");
  const bool misfit = of_tokenizer && model.status().code() == Code::kInvalidArgument;  // another model's was typed
  return misfit ? model.status() : model_status(model.status());
}

// Whether it was interrupted.
Result<bool> run(const RunArgs& args) {
  HONE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(args.sampling));
  HONE_ASSIGN_OR_RETURN(std::optional<NewFile> logits, logits_file(args));
  const Result<std::string> text = prompt_text(args);
  if (interrupted()) return true;
  if (!text.ok()) return text.status();
  HONE_RETURN_IF_ERROR(check_model_numerics(args.numerics));
  HONE_RETURN_IF_ERROR(executing_machine().status());  // says what of the environment is in force, and what is not
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create({.database = args.db, .threads = args.threads}));
  if (const std::string& message = engine.info().database_message; !message.empty()) note(message);
  HONE_ASSIGN_OR_RETURN(const Model model, load_model(args, engine));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, prompt_tokens(args, model, *text));
  HONE_ASSIGN_OR_RETURN(Sequence sequence, model.sequence());
  Generation generation(args, model, sequence, sampler);
  HONE_ASSIGN_OR_RETURN(generation.prepare_ns, prepare_calls(model, static_cast<int64_t>(prompt.size())));
  HONE_RETURN_IF_ERROR(generation.run(prompt));
  const Status written = logits ? write_logits(*logits, generation, model.info().vocabulary) : Status();
  if (args.json) print("{}\n", dump(report_json(model, prompt, generation)));  // also where that disk was full
  note_times(model, generation);
  HONE_RETURN_IF_ERROR(written);
  return generation.ended_by == "interrupt";
}

}  // namespace

void add_run(CLI::App& app, Run& run_command) {
  CLI::App* c = app.add_subcommand("run", "Continue a text with a model: GGUF, safetensors or llama2.c");
  auto args = std::make_shared<RunArgs>();
  c->add_option("model", args->model, "A .gguf file, a folder with safetensors, or a llama2.c .bin")
      ->required()
      ->check(not_empty());
  c->add_option("-p,--prompt", args->prompt, "Text to continue; - reads it from stdin (without a newline at its end)");
  c->add_option("-f,--file", args->file, "The same, from a file")->check(not_empty());
  c->add_option("-n,--count", args->count, "Tokens to generate at most (128)")->check(whole(0, kMaxContext));
  SamplerOptions& s = args->sampling;
  c->add_option(
      "--temp", s.temperature,
      "0 (the default) takes the most probable token; else tokens are drawn, 1 by the model's own probabilities");
  c->add_option("--top-k", s.top_k, "Of the K most probable (40; 0: all)")->check(whole(0, kMostTopK));
  c->add_option("--top-p", s.top_p, "Of the fewest whose probabilities add up to P (0.95; 1: all)");
  c->add_option("--min-p", s.min_p, "Of those at least P times as probable as the first (0.05; 0: all)");
  c->add_option("--repeat-penalty", s.repeat_penalty, "Makes tokens among the last 64 less probable (1: does not)");
  c->add_option("--seed", s.seed, "Of the draws (0)")->check(seed());
  c->add_option("--threads", args->threads, "Threads at most")->check(whole(1, kMaxThreads));
  c->add_option("--stop", args->stops, "Ends before this text; may be given several times")
      ->check(not_empty())
      ->allow_extra_args(false);
  c->add_flag("--ignore-eos", args->ignore_eos, "Goes on after tokens that end an answer");
  c->add_flag("--special", args->special, "Texts of special tokens count as these in the prompt, and are shown");
  c->add_option("--chat-template", args->chat_template,
                fmt::format("The prompt is what a user says, in the words of this template: auto, which is the "
                            "model's, or {}",
                            fmt::join(model::chat_template_names(), ", ")))
      ->check(not_empty());
  c->add_option("--system", args->system, "What the system says before (implies --chat-template auto)");
  c->add_flag("--tokens", args->tokens, "Ids of tokens instead of text");
  c->add_option("--logits", args->logits, "Writes the logits of each step to this .npy file: f32 [steps, vocabulary]")
      ->check(not_empty());
  c->add_flag("--json", args->json, "One JSON object at the end instead of text as it comes");
  c->add_option("--context", args->context, "Tokens that are kept at most (0: the model's, up to 4096)")
      ->check(whole(0, kMaxContext));
  c->add_option("--batch", args->batch, "Tokens of the prompt in one call (512)")->check(whole(1, kMostBatch));
  c->add_option("--tokenizer", args->tokenizer,
                "Takes the tokenizer from this file: GGUF, tokenizer.json, tokenizer.bin")
      ->check(not_empty());
  c->add_option("--db", args->db, "Database of tuned plans")->check(not_empty());
  c->add_option("--numerics", args->numerics,
                "Classes of matmuls with weights of bf16: ordered (default), bf16 (activations are rounded to bf16, by "
                "AVX512_BF16), any (bf16 where it can be had)")
      ->check(not_empty());
  c->callback([args, &run_command] {
    run_command = [args] {
      const Result<bool> done = run(*args);
      if (!done.ok()) return fail(done.status());
      return *done ? kInterrupted : kDone;
    };
  });
}

}  // namespace hone::cli
