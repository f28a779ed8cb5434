// hone tokenize: what the tokenizer of a model makes of a text. Shows why a prompt is as long as it is, and is compared
// with other programs' tokenizers by scripts.
#include <fmt/format.h>

#include "engine/model/files/model_file.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/model_status.h"
#include "tools/hone/read_text.h"

namespace hone::cli {
namespace {

struct TokenizeArgs {
  std::string model, text, file = "-";
  bool given = false;  // --text, which may be empty
  bool special = false, no_bos = false, ids = false, json = false;
};

void print_json(const model::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json pieces = Json::array();
  for (const int32_t id : ids) pieces.push_back(std::string(tokenizer.bytes(id, true)));
  print("{}\n", dump({{"count", ids.size()}, {"ids", ids}, {"pieces", pieces}}));
}

// A line each.
void print_lines(const model::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string lines;
  for (const int32_t id : ids) lines += fmt::format("{:>7}  '{}'\n", id, printable(tokenizer.bytes(id, true)));
  write_results(lines);
}

int run_tokenize(const TokenizeArgs& args) {
  Result<model::Vocabulary> vocabulary = model::open_vocabulary(args.model);
  if (!vocabulary.ok()) return fail(model_status(vocabulary.status()));
  const Result<model::Tokenizer> tokenizer = model::Tokenizer::create(std::move(*vocabulary));
  if (!tokenizer.ok())
    return fail(
        model_status({tokenizer.status().code(), fmt::format("{}: {}", args.model, tokenizer.status().message())}));
  const Result<std::string> text = args.given ? args.text : read_text(args.file);
  if (interrupted()) return kInterrupted;
  if (!text.ok()) return fail(text.status());
  const Result<std::vector<int32_t>> ids = tokenizer->encode(
      *text, {.add_bos = args.no_bos ? std::optional(false) : std::nullopt, .parse_special = args.special});
  if (!ids.ok()) return fail(ids.status());
  if (args.json) {
    print_json(*tokenizer, *ids);
  } else if (args.ids) {
    cli::print("{}\n", fmt::join(*ids, " "));
  } else {
    print_lines(*tokenizer, *ids);
  }
  return kDone;
}

}  // namespace

void add_tokenize(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("tokenize", "show the tokens that a model's tokenizer makes of a text");
  auto args = std::make_shared<TokenizeArgs>();
  command->add_option("model", args->model, "a model file, or one with a vocabulary only")
      ->required()
      ->check(not_empty());
  CLI::Option* text = command->add_option("--text", args->text, "the text (default: what stdin has)");
  command->add_option("-f,--file", args->file, "a file with the text, - for stdin")->check(not_empty())->excludes(text);
  command->add_flag("--special", args->special, "text of special tokens, such as <|im_end|>, is these tokens");
  command->add_flag("--no-bos", args->no_bos, "only the text, without the tokens that the vocabulary puts around one");
  CLI::Option* ids = command->add_flag("--ids", args->ids, "the ids on one line");
  command->add_flag("--json", args->json, "one JSON object: count, ids, pieces")->excludes(ids);
  command->callback([args, text, &run] {
    args->given = text->count() > 0;
    run = [args] { return run_tokenize(*args); };
  });
}

}  // namespace hone::cli
