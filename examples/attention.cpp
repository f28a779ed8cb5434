// A decoder's attention: grouped heads, a paged cache of keys and values that the engine keeps, a prompt and then steps
// of one token. The steps give the bits that the prompt as a whole would have given.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "hone/attention.hpp"

static int fail(const hone::Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

int main() {
  hone::Result<hone::Engine> engine = hone::Engine::create();
  if (!engine.ok()) return fail(engine.status());

  constexpr int64_t heads = 8, kv_heads = 2, dim = 64, prompt = 48, steps = 16, tokens = prompt + steps;
  hone::AttentionSpec spec{.heads = heads, .kv_heads = kv_heads, .head_dim = dim};
  spec.layout = hone::HeadLayout::kRowsFirst;  // [token][head][dim], as projections give it
  spec.causal = true;
  spec.cache = true;
  spec.page = 16;
  spec.expected = {{1, 4096}, {512, 512}};  // what matters most: a long decode, a prompt
  hone::Result<hone::Attention> attention = engine->prepare(spec);
  if (!attention.ok()) return fail(attention.status());

  // One cache serves many sequences; this one has two, and a pool of pages for both.
  hone::Result<hone::KvCache> cache = attention->cache({.sequences = 2, .capacity = 1024, .pages = 100});
  if (!cache.ok()) return fail(cache.status());

  std::vector<float> q(tokens * heads * dim), k(tokens * kv_heads * dim), v(k.size()), all(q.size()), stepped(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 19) / 16 - 0.5f;
  for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 23) / 16 - 0.5f;
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 29) / 16 - 0.5f;

  // Appends tokens [from, to) to a sequence and lets them attend to all that it has.
  const auto forward = [&](int64_t sequence, int64_t from, int64_t to, float* out) {
    const int64_t kv_at = from * kv_heads * dim, at = from * heads * dim;
    hone::Status s = cache->append(sequence, {.tokens = to - from, .key = &k[kv_at], .value = &v[kv_at]});
    if (!s.ok()) return s;
    return attention->run({.q = to - from, .query = &q[at], .out = out + at, .cached = sequence}, &*cache);
  };
  if (hone::Status s = forward(0, 0, tokens, all.data()); !s.ok()) return fail(s);
  if (hone::Status s = forward(1, 0, prompt, stepped.data()); !s.ok()) return fail(s);
  for (int64_t t = prompt; t < tokens; ++t)
    if (hone::Status s = forward(1, t, t + 1, stepped.data()); !s.ok()) return fail(s);
  if (!std::equal(all.begin(), all.end(), stepped.begin())) return fail({hone::Code::kInternal, "steps differ"});

  for (const hone::AttentionSpec::Shape& shape : spec.expected) {
    const hone::Result<hone::PlanInfo> plan = attention->plan(shape.q, shape.kv);
    if (!plan.ok()) return fail(plan.status());
    std::printf("%s\n  %s plan, %s, %d thread(s), %s\n  %s\n", plan->problem.c_str(), plan->reason.c_str(),
                plan->codegen.c_str(), plan->threads, plan->numerics.c_str(), plan->program.c_str());
  }
}
