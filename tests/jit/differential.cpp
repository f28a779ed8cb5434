// See differential.h.
#include "tests/jit/differential.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <ostream>
#include <random>

#include "engine/base/guarded_buffer.h"
#include "kernels/ir/interpret.h"
#include "kernels/ir/text.h"
#include "kernels/ir/verify.h"

namespace hone::jit {

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (CodeGenerator* g : code_generators())
    for (Isa isa : all_isas())
      if (g->name() != "interp") targets.push_back({g, isa});
  return targets;
}

void PrintTo(const Target& target, std::ostream* out) { *out << target_name({target, 0}); }

std::string target_name(const testing::TestParamInfo<Target>& info) {
  return std::string(info.param.generator->name()) + "_" + std::string(isa_info(info.param.isa).name);
}

void fill_random(std::span<uint32_t> words, uint32_t seed) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  static const float specials[] = {std::nanf(""), kInf,         -kInf,         0.0f, -0.0f,    1e-40f,
                                   -3e-42f,       0.5f,         1.5f,          2.5f, -0.5f,    -2.5f,
                                   3e38f,         2147483648.f, -2147483648.f, 1.0f, 8388609.f};
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(-4.0f, 4.0f);
  for (uint32_t& word : words) {
    const bool special = rng() % 8 == 0;
    word = std::bit_cast<uint32_t>(special ? specials[rng() % std::size(specials)] : uniform(rng));
  }
}

bool same_value(uint32_t a, uint32_t b, DType dtype) {
  if (a == b) return true;
  return dtype == DType::kF32 && std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b));
}

namespace {

int64_t value_of(const ir::Kernel& kernel, const ir::Affine& e, const std::vector<int64_t>& params) {
  const std::vector<ir::VarId> ids = kernel.params();
  int64_t v = e.constant();
  for (const ir::Affine::Term& t : e.terms())
    v += t.coef * params[static_cast<size_t>(std::find(ids.begin(), ids.end(), t.var) - ids.begin())];
  return v;
}

int64_t buffer_bytes(const ir::Kernel& kernel, const ir::Buffer& buffer, const std::vector<int64_t>& params) {
  int64_t last = 0;
  for (size_t d = 0; d < buffer.extents.size(); ++d) {
    const int64_t extent = value_of(kernel, buffer.extents[d], params);
    if (extent == 0) return 0;
    last += (extent - 1) * value_of(kernel, buffer.strides[d], params);
  }
  return (last + 1) * dtype_bytes(buffer.dtype);
}

// The least bound that the kernel puts on the elements of each table of indices.
void find_tables(const ir::Kernel& kernel, const ir::Block& statements, const std::vector<int64_t>& params,
                 std::map<ir::BufferId, int64_t>& below) {
  auto inside = [&](const ir::Block& body) { find_tables(kernel, body, params, below); };
  for (const ir::Stmt& s : statements) {
    if (const auto* f = std::get_if<ir::For>(&s.node)) inside(f->body);
    if (const auto* p = std::get_if<ir::Specialise>(&s.node)) inside(p->body);
    if (const auto* c = std::get_if<ir::If>(&s.node)) inside(c->then_body), inside(c->else_body);
    const auto* let = std::get_if<ir::LetLoad>(&s.node);
    if (let == nullptr) continue;
    const int64_t bound = value_of(kernel, let->below, params);
    const auto [at, added] = below.emplace(let->table.buffer, bound);
    if (!added) at->second = std::min(at->second, bound);
  }
}

// The arguments of one run: equal seeds give equal contents. A mapping that fails aborts the test (Result::value).
struct Arguments {
  Arguments(const ir::Kernel& kernel, const std::vector<int64_t>& params, uint32_t seed)
      : workspace(GuardedBuffer::create(ir::workspace_size(kernel)).value()) {
    for (ir::BufferId b : kernel.arguments()) {
      const ir::Buffer& decl = kernel.buffers[static_cast<size_t>(b)];
      buffers.push_back(GuardedBuffer::create(buffer_bytes(kernel, decl, params)).value());
      if (decl.dtype == DType::kU8) {
        std::mt19937 rng(seed + static_cast<uint32_t>(b));
        for (uint8_t& byte : buffers.back().as<uint8_t>()) byte = static_cast<uint8_t>(rng());
      } else {
        fill_random(buffers.back().as<uint32_t>(), seed + static_cast<uint32_t>(b));
      }
      pointers.push_back(buffers.back().data());
    }
    keep_promises(kernel, params);
  }
  void keep_promises(const ir::Kernel& kernel, const std::vector<int64_t>& params) {
    std::map<ir::BufferId, int64_t> tables;
    find_tables(kernel, kernel.body, params, tables);
    const std::vector<ir::BufferId> ids = kernel.arguments();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto table = tables.find(ids[i]);
      if (table == tables.end() || table->second < 1) continue;
      for (uint32_t& word : buffers[i].as<uint32_t>()) word %= static_cast<uint32_t>(table->second);
    }
  }
  template <typename Run>
  void run_all(const ir::Kernel& kernel, const std::vector<int64_t>& params, const Run& run) {
    const ir::TaskSpace space = ir::task_space(kernel, params);
    std::vector<int64_t> tasks(space.axes.size() + 1);
    for (int64_t i = 0; i < space.count; ++i) {
      space.values(i, tasks.data());
      workspace.poison();
      run(pointers.data(), params.data(), tasks.data(), workspace.data());
    }
  }
  std::vector<GuardedBuffer> buffers;
  std::vector<void*> pointers;
  GuardedBuffer workspace;
};

void compare(const ir::Kernel& kernel, const Arguments& expected, const Arguments& actual, const std::string& what) {
  const std::vector<ir::BufferId> ids = kernel.arguments();
  for (size_t b = 0; b < ids.size(); ++b) {
    const ir::Buffer& decl = kernel.buffers[static_cast<size_t>(ids[b])];
    if (decl.dtype == DType::kU8) {
      EXPECT_TRUE(std::ranges::equal(expected.buffers[b].as<uint8_t>(), actual.buffers[b].as<uint8_t>()));
      continue;
    }
    const std::span<const uint32_t> x = expected.buffers[b].as<uint32_t>(), y = actual.buffers[b].as<uint32_t>();
    EXPECT_TRUE(actual.buffers[b].slack_intact()) << what << ": buffer " << decl.name << ": store before its start";
    for (size_t i = 0; i < x.size(); ++i) {
      if (same_value(x[i], y[i], decl.dtype)) continue;
      ADD_FAILURE() << what << ": buffer " << decl.name << " element " << i << ": interpreter "
                    << std::bit_cast<float>(x[i]) << " (0x" << std::hex << x[i] << "), compiled "
                    << std::bit_cast<float>(y[i]) << " (0x" << y[i] << ")\n"
                    << ir::print(kernel);
      return;
    }
  }
}

}  // namespace

void expect_like_interpreter(const KernelCase& test, const Target& target, uint32_t seed) {
  if (test.verified) {
    const Status legal = ir::verify(test.kernel);
    ASSERT_TRUE(legal.ok()) << test.name << ": " << legal.to_string() << "\n" << ir::print(test.kernel);
  }
  auto compiled = target.generator->compile(test.kernel, target.isa);
  ASSERT_TRUE(compiled.ok()) << test.name << ": " << compiled.status().to_string();
  const ir::Interpreter interpreter(test.kernel);
  for (const std::vector<int64_t>& params : test.params) {
    Arguments expected(test.kernel, params, seed), actual(test.kernel, params, seed);
    expected.run_all(test.kernel, params, [&](auto... args) { interpreter.run(args...); });
    actual.run_all(test.kernel, params, [&](auto... args) { compiled.value()->run(args...); });
    std::string what =
        test.name + " on " + std::string(isa_info(target.isa).name) + " seed " + std::to_string(seed) + " params";
    for (int64_t p : params) what += " " + std::to_string(p);
    compare(test.kernel, expected, actual, what);
  }
}

}  // namespace hone::jit
