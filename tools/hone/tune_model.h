// hone tune --model FILE: tunes the problems that a model's plans contain, and says what that is worth for the whole.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/op/shape_file.h"
#include "tools/hone/cli.h"
#include "tools/hone/model_trial.h"
#include "tools/hone/tune_report.h"

namespace hone::cli {

// What --model adds to the options of a tune.
struct TuneModelArgs {
  std::string file;  // "": no model
  int64_t prompt = 512, generate = 128;
  int64_t max_batch = 512;
  std::string numerics = {};  // as ModelOptions::numerics: --numerics of the command

  void add_to(CLI::App& command);
};

// A prompt and an answer to it: which problems run, and how often.
class ModelTune {
 public:
  // `threads`: what the model runs with, afterwards. Errors: those of loading the model, and of typing.
  static Result<ModelTune> create(const TuneModelArgs& args, const std::string& database, int threads);

  // The problems, weighted by their calls.
  std::vector<op::Shape> shapes() const;
  // Packed weights: what a token reads.
  int64_t weight_bytes() const { return weight_bytes_; }

  // Width of the panels that each of these problems finds its packed weights in; 0: it has none. One layout serves all
  // calls of a weight, so they are tuned on the one that the model has by default: a plan for another would be adapted,
  // and drag those of other calls along.
  std::vector<int64_t> panels() const;
  // Of each, the class that the model runs it in; "": its default.
  std::vector<std::string> numerics() const;

  // Measures both works with the default plans and with what is stored now, in turns, takes back what costs, and prints
  // what was taken back, what was expected of the kept rows and what came of it: on stdout where the format has a place
  // for it, else on stderr.
  Status report(const std::vector<TuneRow>& rows, Format format, db::Store& store, const Machine& machine) const;

 private:
  struct Use {
    op::Problem problem;
    int64_t panel = 0;
    std::string numerics = {};
    std::vector<double> calls;  // by work
  };
  explicit ModelTune(TrialOptions options) : options_(std::move(options)) {}
  Status count_calls(const Model& model);
  double expected_saving_ns(const std::vector<TuneRow>& rows, const TrialReport& trial, size_t work) const;

  TrialOptions options_;
  std::map<std::string, Use> uses_;  // by the problem's text
  int64_t weight_bytes_ = 0;
};

}  // namespace hone::cli
