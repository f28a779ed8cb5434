// The C API is the C++ API behind opaque handles. Every function that can fail goes through `call`.
#include "hone/hone.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "engine/base/version.h"
#include "engine/c_api_internal.h"
#include "hone/engine.hpp"

struct hone_matmul {
  hone::Matmul matmul;
};

namespace hone::c_api {
namespace {
thread_local std::string last_error;
}  // namespace

hone_status fail(hone_status code, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();  // no memory for the message; the code still says what it was
  }
  return code;
}

hone_plan* make_plan(PlanInfo info) {
  auto made = std::make_unique<hone_plan>(hone_plan{std::move(info), {}});
  const PlanInfo& p = made->plan;
  made->info = {.problem = p.problem.c_str(),
                .program = p.program.c_str(),
                .codegen = p.codegen.c_str(),
                .numerics = p.numerics.c_str(),
                .reason = p.reason.c_str(),
                .from = p.from ? p.from->problem.c_str() : nullptr,
                .from_difference = p.from ? p.from->difference.c_str() : nullptr,
                .threads = p.threads,
                .rejected_length = p.rejected.size(),
                .schedule = p.schedule.c_str(),
                .package = p.from && !p.from->package.empty() ? p.from->package.c_str() : nullptr};
  return made.release();
}

}  // namespace hone::c_api

namespace {

using hone::Status;
using hone::c_api::call;
using hone::c_api::null_argument;

// One list for both enumerations: a status of C is a code of C++, a step of the epilogue likewise.
static_assert(static_cast<int>(hone::Code::kOk) == HONE_OK && static_cast<int>(hone::Code::kInternal) == HONE_INTERNAL);
static_assert(static_cast<int>(hone::Code::kResourceExhausted) == HONE_RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(hone::Epilogue::kBias) == HONE_EPILOGUE_BIAS &&
              static_cast<int>(hone::Epilogue::kSilu) == HONE_EPILOGUE_SILU &&
              static_cast<int>(hone::Epilogue::kResidual) == HONE_EPILOGUE_RESIDUAL &&
              static_cast<int>(hone::Epilogue::kSwiglu) == HONE_EPILOGUE_SWIGLU &&
              static_cast<int>(hone::Epilogue::kRowScale) == HONE_EPILOGUE_ROW_SCALE);

static_assert(static_cast<int>(hone::WeightType::kF32) == HONE_WEIGHT_F32 &&
              static_cast<int>(hone::WeightType::kF16) == HONE_WEIGHT_F16);

const char* text(const char* s) { return s == nullptr ? "" : s; }

hone::Result<hone::MatmulSpec> spec_from_c(const hone_matmul_spec& c) {
  if (c.epilogue_length > HONE_MAX_EPILOGUE)
    return hone::invalid_argument("epilogue_length=" + std::to_string(c.epilogue_length) +
                                  " exceeds HONE_MAX_EPILOGUE");
  if (c.expected_m_length > HONE_MAX_EXPECTED_M)
    return hone::invalid_argument("expected_m_length=" + std::to_string(c.expected_m_length) +
                                  " exceeds HONE_MAX_EXPECTED_M");
  const int b = hone::c_api::number_of(c.b);
  if (b != HONE_LAYOUT_NN && b != HONE_LAYOUT_NT) return hone::invalid_argument("b is not a hone_layout");
  const int type = hone::c_api::number_of(c.weight_type);
  if (type < HONE_WEIGHT_F32 || type > HONE_WEIGHT_F16)
    return hone::invalid_argument("weight_type is not a hone_weight_type");
  const size_t numerics = strnlen(c.numerics, HONE_MAX_NUMERICS);
  if (numerics == HONE_MAX_NUMERICS) return hone::invalid_argument("numerics does not end within HONE_MAX_NUMERICS");
  hone::MatmulSpec spec{.n = c.n,
                        .k = c.k,
                        .b = b == HONE_LAYOUT_NN ? hone::Layout::kNn : hone::Layout::kNt,
                        .weight_type = static_cast<hone::WeightType>(type),
                        .lda = c.lda,
                        .ldb = c.ldb,
                        .ldc = c.ldc,
                        .batch = c.batch,
                        .stride_a = c.stride_a,
                        .stride_b = c.stride_b,
                        .stride_c = c.stride_c,
                        .alpha = c.alpha,
                        .beta = c.beta,
                        .epilogue = {},
                        .expected_m = {c.expected_m, c.expected_m + c.expected_m_length},
                        .max_m = c.max_m,
                        .numerics = {c.numerics, numerics}};
  for (size_t i = 0; i < c.epilogue_length; ++i) {
    const int step = hone::c_api::number_of(c.epilogue[i]);
    if (step < HONE_EPILOGUE_BIAS || step > HONE_EPILOGUE_ROW_SCALE)
      return hone::invalid_argument("epilogue[" + std::to_string(i) + "] is not a hone_epilogue");
    spec.epilogue.push_back(static_cast<hone::Epilogue>(step));
  }
  return spec;
}

Status spec_to_c(const hone::MatmulSpec& spec, hone_matmul_spec* c) {
  if (spec.epilogue.size() > HONE_MAX_EPILOGUE)
    return hone::unsupported("the epilogue has more than HONE_MAX_EPILOGUE steps");
  if (spec.expected_m.size() > HONE_MAX_EXPECTED_M)
    return hone::unsupported("m has more than HONE_MAX_EXPECTED_M values");
  *c = {};
  c->n = spec.n, c->k = spec.k;
  c->b = spec.b == hone::Layout::kNn ? HONE_LAYOUT_NN : HONE_LAYOUT_NT;
  c->weight_type = static_cast<hone_weight_type>(spec.weight_type);
  c->lda = spec.lda, c->ldb = spec.ldb, c->ldc = spec.ldc;
  c->batch = spec.batch, c->stride_a = spec.stride_a, c->stride_b = spec.stride_b, c->stride_c = spec.stride_c;
  c->alpha = spec.alpha, c->beta = spec.beta;
  c->epilogue_length = spec.epilogue.size();
  std::transform(spec.epilogue.begin(), spec.epilogue.end(), c->epilogue,
                 [](hone::Epilogue e) { return static_cast<hone_epilogue>(e); });
  c->expected_m_length = spec.expected_m.size();
  std::copy(spec.expected_m.begin(), spec.expected_m.end(), c->expected_m);
  c->max_m = spec.max_m;
  return {};
}

// Shared by both ways to prepare.
template <typename Prepare>
hone_status prepare(const hone_engine* engine, const hone_matmul_spec* spec, hone_matmul** matmul, Prepare body) {
  if (matmul != nullptr) *matmul = nullptr;
  return call([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (spec == nullptr) return null_argument("spec");
    if (matmul == nullptr) return null_argument("matmul");
    hone::Result<hone::MatmulSpec> converted = spec_from_c(*spec);
    if (!converted.ok()) return converted.status();
    hone::Result<hone::Matmul> made = body(engine->engine, *converted);
    if (!made.ok()) return made.status();
    *matmul = new hone_matmul{*std::move(made)};
    return {};
  });
}

}  // namespace

extern "C" {

const char* hone_status_name(hone_status status) {
  const int code = hone::c_api::number_of(status);
  if (code < HONE_OK || code > HONE_INTERNAL) return "unknown";
  return hone::code_name(static_cast<hone::Code>(code)).data();  // literals, so NUL terminated
}

const char* hone_last_error(void) { return hone::c_api::last_error.c_str(); }

const char* hone_version(void) { return hone::version().data(); }

hone_status hone_engine_create(const hone_engine_options* options, hone_engine** engine) {
  if (engine != nullptr) *engine = nullptr;
  return call([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    hone::EngineOptions o;
    if (options != nullptr) {
      o.database = text(options->database);
      o.use_database = options->no_database == 0;
      o.threads = options->threads;
      o.codegen = text(options->codegen);
      o.schedule = text(options->schedule);
      if (options->log != nullptr) {
        o.log = [log = options->log, context = options->log_context](std::string_view line) {
          log(line.data(), line.size(), context);
        };
      }
    }
    hone::Result<hone::Engine> made = hone::Engine::create(o);
    if (!made.ok()) return made.status();
    hone::EngineInfo info = made->info();
    *engine = new hone_engine{*std::move(made), std::move(info)};
    return {};
  });
}

hone_status hone_engine_load_package(hone_engine* engine, const char* path) {
  return call([&]() -> Status {
    if (engine == nullptr) return null_argument("engine");
    if (path == nullptr) return null_argument("path");
    return engine->engine.load_package(path);
  });
}

void hone_engine_destroy(hone_engine* engine) { delete engine; }
int hone_engine_threads(const hone_engine* engine) { return engine == nullptr ? 0 : engine->info.threads; }
int64_t hone_engine_decisions(const hone_engine* engine) { return engine == nullptr ? 0 : engine->info.decisions; }
const char* hone_engine_schedule(const hone_engine* engine) {
  return engine == nullptr ? "" : engine->info.schedule.c_str();
}
const char* hone_engine_schedule_requested(const hone_engine* engine) {
  return engine == nullptr ? "" : engine->info.schedule_requested.c_str();
}
const char* hone_engine_message(const hone_engine* engine) {
  return engine == nullptr ? "" : engine->info.database_message.c_str();
}

hone_status hone_matmul_spec_init(hone_matmul_spec* spec, int64_t n, int64_t k) {
  return call([&]() -> Status {
    if (spec == nullptr) return null_argument("spec");
    return spec_to_c({.n = n, .k = k, .epilogue = {}}, spec);
  });
}

hone_status hone_matmul_spec_parse(hone_matmul_spec* spec, const char* problem) {
  return call([&]() -> Status {
    if (spec == nullptr) return null_argument("spec");
    if (problem == nullptr) return null_argument("problem");
    hone::Result<hone::MatmulSpec> parsed = hone::MatmulSpec::parse(problem);
    return parsed.ok() ? spec_to_c(*parsed, spec) : parsed.status();
  });
}

hone_status hone_matmul_prepare(const hone_engine* engine, const hone_matmul_spec* spec, hone_matmul** matmul) {
  return prepare(engine, spec, matmul, [](const hone::Engine& e, const hone::MatmulSpec& s) { return e.prepare(s); });
}

hone_status hone_matmul_prepare_weights(const hone_engine* engine, const hone_matmul_spec* spec, const void* weights,
                                        hone_matmul** matmul) {
  return prepare(engine, spec, matmul,
                 [&](const hone::Engine& e, const hone::MatmulSpec& s) { return e.prepare(s, weights); });
}

void hone_matmul_destroy(hone_matmul* matmul) { delete matmul; }

hone_status hone_matmul_run(const hone_matmul* matmul, const hone_matmul_call* c) {
  return call([&]() -> Status {
    if (matmul == nullptr) return null_argument("matmul");
    if (c == nullptr) return null_argument("call");
    return matmul->matmul.run({.m = c->m,
                               .a = c->a,
                               .b = c->b,
                               .c = c->c,
                               .bias = c->bias,
                               .gate = c->gate,
                               .residual = c->residual,
                               .row_scale = c->row_scale});
  });
}

hone_status hone_matmul_plan(const hone_matmul* matmul, int64_t m, hone_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return call([&]() -> Status {
    if (matmul == nullptr) return null_argument("matmul");
    if (plan == nullptr) return null_argument("plan");
    hone::Result<hone::PlanInfo> info = matmul->matmul.plan(m);
    if (!info.ok()) return info.status();
    *plan = hone::c_api::make_plan(*std::move(info));
    return {};
  });
}

void hone_plan_destroy(hone_plan* plan) { delete plan; }
const hone_plan_info* hone_plan_get(const hone_plan* plan) { return plan == nullptr ? nullptr : &plan->info; }

const char* hone_plan_rejected_program(const hone_plan* plan, size_t index) {
  return plan == nullptr || index >= plan->plan.rejected.size() ? nullptr : plan->plan.rejected[index].program.c_str();
}

const char* hone_plan_rejected_why(const hone_plan* plan, size_t index) {
  return plan == nullptr || index >= plan->plan.rejected.size() ? nullptr : plan->plan.rejected[index].why.c_str();
}

}  // extern "C"
