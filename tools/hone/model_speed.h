// How fast a model runs: the calls that llama-bench makes, by several configurations in turns. A configuration is a
// number of threads, the numerics that are allowed, and whether what was tuned counts; all have the same file, and read
// the same packed weights where those are kept on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/machine.h"
#include "engine/model/config.h"
#include "hone/model.hpp"

namespace hone::cli {

struct ModelVariant {
  int threads = 1;
  bool tuned = true;
  std::string numerics = {};  // as ModelOptions::numerics; "": ModelSpeedOptions::numerics
  bool operator==(const ModelVariant&) const = default;
};

// A prompt of `prompt` tokens, or `generate` tokens one by one, after `depth` tokens that are not timed.
struct ModelWork {
  int64_t prompt = 0, generate = 0, depth = 0;
  int64_t tokens() const { return prompt + generate; }
  std::string name() const;  // "pp512", "tg128", "tg128 @ d512"
  bool operator==(const ModelWork&) const = default;
};

// The calls that a work makes.
struct ModelCall {
  int64_t tokens = 0, position = 0;
};
std::vector<ModelCall> calls_of(const ModelWork& work, int64_t max_batch);

// What a call has to do at least: multiply-adds of matmuls and of visible scores, bytes of weights and of cached keys
// and values.
struct ModelDemand {
  double flops = 0;  // of matmuls
  double scores = 0;
  double bytes = 0;
};
ModelDemand demand_of(const model::DecoderConfig& config, int64_t bytes_per_weight, const ModelCall& call);

struct ModelSpeedOptions {
  std::string database;  // a file, or "" for the default
  int64_t max_batch = 512;
  int64_t context = 0;        // of sequences: what the works need
  std::string numerics = {};  // as ModelOptions::numerics, of variants that name none
};

class ModelSpeed {
 public:
  // Loads the file once for each variant. Errors: those of Engine::create and Model::load.
  static Result<ModelSpeed> create(const std::string& path, const std::vector<ModelVariant>& variants,
                                   const ModelSpeedOptions& options);

  // Told after each call of a work (calls_of) what its steps took.
  using OnCall = std::function<void(size_t call, std::span<const int64_t> step_ns)>;

  // Nanoseconds of the calls of `work`, one after the other. Tokens are drawn from the vocabulary by a fixed seed; what
  // an earlier work has left of those before `depth` is not computed again. Steps are timed where `on_call` is given.
  // Nothing when it was interrupted, between two calls.
  Result<std::optional<int64_t>> run(size_t variant, const ModelWork& work, const OnCall& on_call = {});
  // Loads the variant again, as the database has become.
  Status reload(size_t variant);

  const Model& model(size_t variant) const { return variants_[variant].model; }
  size_t size() const { return variants_.size(); }

 private:
  struct Variant {
    ModelVariant how;
    Model model;
    Sequence sequence;
  };
  ModelSpeed(std::string path, ModelSpeedOptions options) : path_(std::move(path)), options_(std::move(options)) {}
  Result<Variant> load(const ModelVariant& how) const;

  std::string path_;
  ModelSpeedOptions options_;
  std::vector<Variant> variants_;
};

// Weights that are still in a core's caches when their turn comes again.
bool fits_in_cache(int64_t weight_bytes, const Machine& machine);

// Bytes of the largest resident set that this process has had; 0 where the system does not say.
int64_t peak_resident_bytes();

}  // namespace hone::cli
