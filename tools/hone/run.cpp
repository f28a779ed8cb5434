// hone run: text from a model file. Text goes to stdout as it comes, with --json one object at the end; what it took to
// stderr.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <optional>

#include "hone/model.hpp"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/new_file.h"
#include "tools/hone/npy.h"
#include "tools/hone/stop_text.h"

namespace hone::cli {
namespace {

constexpr const char* kOfTheModel = "auto";
constexpr size_t kMostPrompt = size_t{1} << 30;

struct RunArgs {
  std::string model, tokenizer, db, logits, chat_template;
  std::optional<std::string> prompt, file, system;
  std::vector<std::string> stops;
  int64_t count = 128, context = 0, batch = 512;
  int threads = 0;
  SamplerOptions sampling;
  bool tokens = false, json = false, special = false, ignore_eos = false;
};

// ---- the prompt ----

// All of a file, without the newline that editors and echo put at the end.
Result<std::string> read_text(const std::string& path) {
  FilePtr opened(path == "-" ? nullptr : std::fopen(path.c_str(), "rb"));
  std::FILE* const file = path == "-" ? stdin : opened.get();
  if (file == nullptr) return typed(cannot("read", path));
  std::string text;
  char block[1 << 14];
  for (size_t n = 0; (n = std::fread(block, 1, sizeof block, file)) > 0;) {
    text.append(block, n);
    if (text.size() > kMostPrompt) return invalid_argument(fmt::format("{} is longer than 1 GiB", path));
  }
  if (std::ferror(file) != 0) return typed(cannot("read", path));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

Result<std::string> prompt_text(const RunArgs& args) {
  if (args.prompt.has_value() == args.file.has_value())
    return invalid_argument("give the prompt with either -p TEXT (- is stdin) or -f FILE");
  if (args.file) return read_text(*args.file);
  return *args.prompt == "-" ? read_text("-") : *args.prompt;
}

Result<std::vector<int32_t>> prompt_tokens(const RunArgs& args, const Model& model, const std::string& text) {
  if (args.chat_template.empty() && !args.system)
    return model.tokenize(text, {.add_bos = {}, .parse_special = args.special});
  std::vector<ChatTurn> turns;
  if (args.system) turns.push_back({"system", *args.system});
  turns.push_back({"user", text});
  const bool own = args.chat_template.empty() || args.chat_template == kOfTheModel;
  Result<std::vector<int32_t>> tokens = model.tokenize_chat(turns, own ? "" : args.chat_template);
  return tokens.ok() ? std::move(tokens) : typed(tokens.status());
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
    HONE_ASSIGN_OR_RETURN(const int32_t id, sampler_.sample(sequence_.logits()));
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

Status write_logits(const RunArgs& args, const Generation& g, int64_t vocabulary) {
  if (args.logits.empty()) return {};
  const int64_t steps = static_cast<int64_t>(g.logits.size()) / vocabulary;
  HONE_ASSIGN_OR_RETURN(NpyArray array, make_array(DType::kF32, {steps, vocabulary}));
  if (!g.logits.empty()) std::memcpy(array.data.data(), g.logits.data(), g.logits.size() * sizeof(float));
  return write_npy(args.logits, array);
}

int64_t peak_rss() {
  struct rusage usage = {};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

Json report_json(const Model& model, std::span<const int32_t> prompt, const Generation& g) {
  const ModelInfo& info = model.info();
  return {{"model", info.path},
          {"architecture", info.architecture},
          {"weights", info.weights},
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
          {"prefill", phase_json(g.prefill)},
          {"decode", phase_json(g.decode)},
          {"plans",
           {{"exact", info.plans.exact},
            {"near_shape", info.plans.near_shape},
            {"near_machine", info.plans.near_machine},
            {"package", info.plans.package},
            {"default", info.plans.by_default}}},
          {"peak_rss", peak_rss()}};
}

void note_times(const Model& model, const Generation& g) {
  const auto phase = [](const char* name, const Phase& p) {
    return fmt::format("{} {} tokens in {:.1f} ms ({:.1f} tokens/s)", name, p.tokens, static_cast<double>(p.ns) / 1e6,
                       p.per_second());
  };
  note(fmt::format("load {:.0f} ms, {}, {}, {} MiB at most", static_cast<double>(model.info().times.total_ns) / 1e6,
                   phase("prefill", g.prefill), phase("decode", g.decode), peak_rss() >> 20));
}

Result<bool> run(const RunArgs& args) {
  HONE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create(args.sampling));
  HONE_ASSIGN_OR_RETURN(const std::string text, prompt_text(args));
  HONE_ASSIGN_OR_RETURN(const Engine engine, Engine::create({.database = args.db, .threads = args.threads}));
  if (const std::string& message = engine.info().database_message; !message.empty()) note(message);
  const Result<Model> model =
      Model::load(engine, args.model, {.tokenizer = args.tokenizer, .context = args.context, .max_batch = args.batch});
  if (!model.ok()) return model.status().code() == Code::kNotFound ? typed(model.status()) : model.status();
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, prompt_tokens(args, *model, text));
  HONE_ASSIGN_OR_RETURN(Sequence sequence, model->sequence());
  Generation generation(args, *model, sequence, sampler);
  HONE_RETURN_IF_ERROR(generation.run(prompt));
  HONE_RETURN_IF_ERROR(write_logits(args, generation, model->info().vocabulary));
  if (args.json) print("{}\n", dump(report_json(*model, prompt, generation)));
  note_times(*model, generation);
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
  c->add_option("-n,--count", args->count, "Tokens to generate at most (128)")->check(CLI::NonNegativeNumber);
  SamplerOptions& s = args->sampling;
  c->add_option(
      "--temp", s.temperature,
      "0 (the default) takes the most probable token; else tokens are drawn, 1 by the model's own probabilities");
  c->add_option("--top-k", s.top_k, "Of the K most probable (40; 0: all)");
  c->add_option("--top-p", s.top_p, "Of the fewest whose probabilities add up to P (0.95; 1: all)");
  c->add_option("--min-p", s.min_p, "Of those at least P times as probable as the first (0.05; 0: all)");
  c->add_option("--repeat-penalty", s.repeat_penalty, "Makes tokens among the last 64 less probable (1: does not)");
  c->add_option("--seed", s.seed, "Of the draws (0)")->check(seed());
  c->add_option("--threads", args->threads, "Threads at most")->check(CLI::Range(1, 4096));
  c->add_option("--stop", args->stops, "Ends before this text; may be given several times")
      ->check(not_empty())
      ->allow_extra_args(false);
  c->add_flag("--ignore-eos", args->ignore_eos, "Goes on after tokens that end an answer");
  c->add_flag("--special", args->special, "Texts of special tokens count as these in the prompt, and are shown");
  c->add_option("--chat-template", args->chat_template,
                "The prompt is what a user says, in the words of this template: a name, or auto, which is the model's")
      ->check(not_empty());
  c->add_option("--system", args->system, "What the system says before (implies --chat-template auto)");
  c->add_flag("--tokens", args->tokens, "Ids of tokens instead of text");
  c->add_option("--logits", args->logits, "Writes the logits of each step to this .npy file: f32 [steps, vocabulary]")
      ->check(not_empty());
  c->add_flag("--json", args->json, "One JSON object at the end instead of text as it comes");
  c->add_option("--context", args->context, "Tokens that are kept at most (the model's, up to 4096)")
      ->check(CLI::PositiveNumber);
  c->add_option("--batch", args->batch, "Tokens of the prompt in one call (512)")->check(CLI::PositiveNumber);
  c->add_option("--tokenizer", args->tokenizer, "Takes the tokenizer from this file")->check(not_empty());
  c->add_option("--db", args->db, "Database of tuned plans")->check(not_empty());
  c->callback([args, &run_command] {
    run_command = [args] {
      const Result<bool> done = run(*args);
      if (!done.ok()) return fail(done.status());
      return *done ? kInterrupted : kDone;
    };
  });
}

}  // namespace hone::cli
