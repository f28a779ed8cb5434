// What a model answers greedily, and what an independent engine answered.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "hone/model.hpp"

namespace hone::model_testing {

using Json = nlohmann::json;

inline Engine default_engine(int threads) {
  return Engine::create({.use_database = false, .threads = threads}).value();
}

inline Json expected_cases(const std::string& path) { return Json::parse(std::ifstream(path))["cases"]; }

inline void expect_top5(std::span<const float> logits, const Json& want) {
  for (const Json& pair : want)
    EXPECT_NEAR(logits[pair[0].get<size_t>()], pair[1].get<double>(), 1e-3) << "token " << pair[0];
  std::vector<float> sorted(logits.begin(), logits.end());
  std::ranges::sort(sorted, std::greater<>());
  EXPECT_NEAR(sorted[4], want[4][1].get<double>(), 1e-3) << "there is another among the five largest";
}

// The greedy continuation of a prompt that is given in chunks of at most `chunk` tokens, with the logits after both.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> first, last;
};

inline Result<Answer> greedy(const Model& model, std::span<const int32_t> prompt, size_t count, size_t chunk) {
  Answer run;
  HONE_ASSIGN_OR_RETURN(Sequence sequence, model.sequence());
  HONE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::create());
  for (size_t at = 0; at < prompt.size(); at += chunk)
    HONE_RETURN_IF_ERROR(sequence.prefill(prompt.subspan(at, std::min(chunk, prompt.size() - at))).status());
  run.first.assign(sequence.logits().begin(), sequence.logits().end());
  while (run.tokens.size() < count) {
    HONE_ASSIGN_OR_RETURN(const int32_t id, sampler.sample(sequence.logits()));
    run.tokens.push_back(id);
    HONE_RETURN_IF_ERROR(sequence.decode(id).status());
  }
  run.last.assign(sequence.logits().begin(), sequence.logits().end());
  return run;
}

}  // namespace hone::model_testing
