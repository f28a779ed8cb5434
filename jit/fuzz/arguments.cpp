// See arguments.h.
#include "jit/fuzz/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/base/random.h"

namespace hone::jit {
namespace {

__extension__ typedef __int128 Wide;

constexpr uint32_t kSpecials[] = {0x7fc00000, 0xffc00001, 0x7f800000, 0xff800000, 0x00000000, 0x80000000,
                                  0x000116c2, 0x80000859, 0x3f000000, 0x3fc00000, 0x40200000, 0xbf000000,
                                  0xc0200000, 0x7f61b1e6, 0x4f000000, 0xcf000000, 0x3f800000, 0x4b000001};
constexpr uint32_t kIntegers[] = {0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 2, 255, 0x3f800000};

uint64_t hash_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

Wide value_of(const ir::Kernel& kernel, const ir::Affine& e, std::span<const int64_t> params) {
  const std::vector<ir::VarId> ids = kernel.params();
  Wide v = e.constant();
  for (const ir::Affine::Term& t : e.terms())
    v += Wide{t.coef} * params[static_cast<size_t>(std::find(ids.begin(), ids.end(), t.var) - ids.begin())];
  return v;
}

// Up to the last element; most + 1 when there are more.
int64_t bytes_of(const ir::Kernel& kernel, const ir::Buffer& buffer, std::span<const int64_t> params, int64_t most) {
  Wide last = 0;
  for (size_t d = 0; d < buffer.extents.size(); ++d) {
    const Wide extent = value_of(kernel, buffer.extents[d], params);
    if (extent <= 0) return 0;
    last =
        std::min<Wide>(last + (extent - 1) * std::min<Wide>(value_of(kernel, buffer.strides[d], params), most), most);
  }
  return static_cast<int64_t>(std::min<Wide>((last + 1) * dtype_bytes(buffer.dtype), most + 1));
}

// The least bound that the kernel puts on the elements of each table of indices.
void find_tables(const ir::Kernel& kernel, const ir::Block& statements, std::span<const int64_t> params,
                 std::map<ir::BufferId, int64_t>& below) {
  auto inside = [&](const ir::Block& body) { find_tables(kernel, body, params, below); };
  for (const ir::Stmt& s : statements) {
    if (const auto* f = std::get_if<ir::For>(&s.node)) inside(f->body);
    if (const auto* p = std::get_if<ir::Specialise>(&s.node)) inside(p->body);
    if (const auto* c = std::get_if<ir::If>(&s.node)) inside(c->then_body), inside(c->else_body);
    const auto* let = std::get_if<ir::LetLoad>(&s.node);
    if (let == nullptr) continue;
    const auto bound = static_cast<int64_t>(value_of(kernel, let->below, params));
    const auto [at, added] = below.emplace(let->table.buffer, bound);
    if (!added && bound >= 1) at->second = at->second < 1 ? bound : std::min(at->second, bound);
  }
}

// On the guarded side that the alignment which the kernel asks for allows.
Result<GuardedBuffer> guarded(int64_t bytes, int64_t align, bool before) {
  return GuardedBuffer::create(bytes, before || bytes % align != 0 ? Guard::kBefore : Guard::kAfter);
}

}  // namespace

void fill_floats(std::span<uint32_t> words, uint64_t seed) {
  Random random(seed);
  const int specials = random.one_of({0, 12, 12, 50});  // percent
  for (uint32_t& word : words)
    word = random.chance(specials) ? random.element(kSpecials) : std::bit_cast<uint32_t>(random.uniform(-4, 4));
}

bool same_value(uint32_t a, uint32_t b, DType dtype) {
  if (a == b) return true;
  return dtype == DType::kF32 && std::isnan(std::bit_cast<float>(a)) && std::isnan(std::bit_cast<float>(b));
}

Result<Arguments> Arguments::create(const ir::Kernel& kernel, std::span<const int64_t> params, uint64_t seed,
                                    int64_t most) {
  const int64_t workspace_bytes = ir::workspace_size(kernel);
  if (workspace_bytes > most) return resource_exhausted(fmt::format("the workspace has {} bytes", workspace_bytes));
  HONE_ASSIGN_OR_RETURN(GuardedBuffer workspace, GuardedBuffer::create(workspace_bytes));
  Arguments made(std::move(workspace));
  made.params_.assign(params.begin(), params.end());
  made.space_ = ir::task_space(kernel, made.params_);
  std::map<ir::BufferId, int64_t> tables;
  find_tables(kernel, kernel.body, params, tables);
  for (const ir::BufferId id : kernel.arguments()) {
    const ir::Buffer& b = kernel.buffers[static_cast<size_t>(id)];
    const int64_t bytes = bytes_of(kernel, b, params, most);
    if (bytes > most) return resource_exhausted(fmt::format("buffer '{}' is larger than {} bytes", b.name, most));
    const uint64_t its_seed = seed ^ hash_of(b.name);
    Result<GuardedBuffer> memory = guarded(bytes, b.align, its_seed % 4 == 3);
    if (!memory.ok()) return resource_exhausted(fmt::format("buffer '{}': {}", b.name, memory.status().message()));
    made.arguments_.push_back({id, b.name, b.dtype, std::move(*memory), {}});
    const auto table = tables.find(id);
    made.fill(made.arguments_.back(), its_seed, table == tables.end() ? 0 : table->second);
    made.pointers_.push_back(made.arguments_.back().memory.data());
  }
  return made;
}

void Arguments::fill(Argument& argument, uint64_t seed, int64_t below) {
  Random random(seed);
  if (argument.dtype == DType::kU8) {
    for (uint8_t& byte : argument.memory.as<uint8_t>()) byte = static_cast<uint8_t>(random.next());
  } else if (is_16bit_float(argument.dtype)) {
    for (uint16_t& word : argument.memory.as<uint16_t>()) word = static_cast<uint16_t>(random.next());
  } else if (argument.dtype == DType::kF32) {
    fill_floats(argument.memory.as<uint32_t>(), seed);
  } else {
    for (uint32_t& word : argument.memory.as<uint32_t>()) {
      word = random.chance(20) ? random.element(kIntegers) : static_cast<uint32_t>(random.next());
      if (below >= 1) word = static_cast<uint32_t>(word % static_cast<uint64_t>(below)) & 0x7fffffffu;
    }
  }
  const std::span<const uint8_t> bytes = argument.memory.as<uint8_t>();
  argument.initial.assign(bytes.begin(), bytes.end());
}

void Arguments::reset() {
  for (Argument& a : arguments_) {
    a.memory.poison();
    std::copy(a.initial.begin(), a.initial.end(), a.memory.as<uint8_t>().begin());
  }
}

Arguments::Contents Arguments::contents() const {
  Contents all;
  for (const Argument& a : arguments_) {
    const std::span<const uint8_t> bytes = a.memory.as<uint8_t>();
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

std::string Arguments::difference(const Contents& expected) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const Argument& a = arguments_[i];
    if (!a.memory.slack_intact()) return fmt::format("buffer {}: a store outside it", a.name);
    const std::span<const uint8_t> bytes = a.memory.as<uint8_t>();
    if (std::ranges::equal(bytes, expected[i])) continue;
    if (dtype_bytes(a.dtype) != 4) return fmt::format("buffer {}: was written", a.name);
    const std::span<const uint32_t> got = a.memory.as<uint32_t>();
    for (size_t w = 0; w < got.size(); ++w) {
      uint32_t want = 0;
      std::memcpy(&want, expected[i].data() + 4 * w, 4);
      if (same_value(want, got[w], a.dtype)) continue;
      return fmt::format("buffer {} element {}: interpreter {} (0x{:08x}), compiled {} (0x{:08x})", a.name, w,
                         std::bit_cast<float>(want), want, std::bit_cast<float>(got[w]), got[w]);
    }
  }
  return "";
}

std::vector<const GuardedBuffer*> Arguments::memory() const {
  std::vector<const GuardedBuffer*> all;
  for (const Argument& a : arguments_) all.push_back(&a.memory);
  return all;
}

ir::ReadTable Arguments::tables() const {
  return [this](ir::BufferId table, int64_t index, int64_t) -> int64_t {
    for (const Argument& a : arguments_)
      if (a.id == table) return static_cast<int32_t>(a.memory.as<uint32_t>()[static_cast<size_t>(index)]);
    return 0;
  };
}

}  // namespace hone::jit
