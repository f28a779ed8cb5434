// See fault.h. Each fault is the real thing where that is possible (ud2, a load from an unmapped page, a file that
// shrank under its mapping), as a signal that is only raised could be handled differently from one that happens.
#include "jit/fault.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "engine/base/memory.h"
#include "kernels/ir/edit.h"

namespace hone::jit {
namespace {

// Elements of an argument buffer for these parameters; extents and strides are constants or one parameter.
struct Extent {
  int argument = -1;
  std::vector<std::pair<ir::Affine, ir::Affine>> dims;  // extent, stride
  std::map<ir::VarId, size_t> position;                 // of a parameter

  int64_t value(const ir::Affine& e, const int64_t* params) const {
    int64_t sum = e.constant();
    for (const ir::Affine::Term& t : e.terms()) sum += t.coef * params[position.at(t.var)];
    return sum;
  }
  int64_t elements(const int64_t* params) const {
    int64_t last = 0;
    for (const auto& [extent, stride] : dims) {
      const int64_t count = value(extent, params);
      if (count <= 0) return 0;
      last += (count - 1) * value(stride, params);
    }
    return last + 1;
  }
};

Extent output_of(const ir::Kernel& kernel) {
  Extent extent;
  const std::vector<ir::VarId> params = kernel.params();
  for (size_t i = 0; i < params.size(); ++i) extent.position[params[i]] = i;
  const std::vector<ir::BufferId> arguments = kernel.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ir::Buffer& buffer = kernel.buffers[static_cast<size_t>(arguments[i])];
    if (buffer.scope == ir::Scope::kIn) continue;
    extent.argument = static_cast<int>(i);
    for (size_t d = 0; d < buffer.extents.size(); ++d) extent.dims.emplace_back(buffer.extents[d], buffer.strides[d]);
    break;
  }
  return extent;
}

void illegal_instruction() { __builtin_trap(); }

void invalid_access() {
  volatile uintptr_t address = 64;  // the first page is never mapped; the compiler must not know
  (void)*reinterpret_cast<volatile int*>(address);
}

void shrunk_file() {
  constexpr size_t kPage = 4096;
  const int fd = memfd_create("hone-fault", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kPage) != 0) return;
  void* page = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED || ftruncate(fd, 0) != 0) return;
  (void)*static_cast<volatile int*>(page);
}

void busy_forever() {
  std::atomic<bool> never{false};
  while (!never.load()) {
  }
}

void asleep_forever() {
  while (true) pause();
}

// By hand, without a limit on the process, this must not take the machine along: an eighth of the memory is left, and
// the end is the one that a limit would have brought.
void eat_memory() {
  constexpr size_t kChunk = size_t{64} << 20;
  const int64_t reserve = available_memory("") / 8;
  while (true) {
    if (available_memory("") < reserve) throw std::bad_alloc();
    std::memset(::operator new(kChunk), 1, kChunk);
  }
}

void leave() { _exit(3); }

// ---- faults that only some kernels show ----

template <typename Node>
bool any(const ir::Kernel& kernel, bool (*wanted)(const Node&)) {
  bool found = false;
  ir::each_statement(const_cast<ir::Kernel&>(kernel).body, [&](ir::Stmt& s) {
    const Node* node = std::get_if<Node>(&s.node);
    found = found || (node != nullptr && wanted(*node));
  });
  return found;
}
bool shifts(const ir::Kernel& kernel) {
  return any<ir::Unary>(kernel, [](const ir::Unary& u) { return u.op == ir::UnaryOp::kShl; });
}
bool rounds(const ir::Kernel& kernel) {
  return any<ir::Unary>(kernel, [](const ir::Unary& u) { return u.op == ir::UnaryOp::kRound; });
}

// min(a, b) is b when either is NaN, and of two zeros too.
void swap_min(ir::Kernel& kernel) {
  ir::each_statement(kernel.body, [](ir::Stmt& s) {
    if (auto* b = std::get_if<ir::Binary>(&s.node); b != nullptr && b->op == ir::BinaryOp::kMin) std::swap(b->a, b->b);
  });
}
void drop_lane(ir::Kernel& kernel) {
  ir::each_statement(kernel.body, [](ir::Stmt& s) {
    if (auto* m = std::get_if<ir::LaneMask>(&s.node)) m->count -= 1;
  });
}

enum class When { kCompiling, kRunning, kAfterwards };

struct Fault {
  std::string_view name;
  When when;
  void (*happen)();                               // null: the output is changed
  bool (*concerns)(const ir::Kernel&) = nullptr;  // null: every kernel
  void (*miscompile)(ir::Kernel&) = nullptr;
};

constexpr std::array kFaults = {
    Fault{"fault-sigill", When::kRunning, illegal_instruction},
    Fault{"fault-sigsegv", When::kRunning, invalid_access},
    Fault{"fault-sigbus", When::kRunning, shrunk_file},
    Fault{"fault-hang", When::kRunning, busy_forever},
    Fault{"fault-deadlock", When::kRunning, asleep_forever},
    Fault{"fault-oom", When::kRunning, eat_memory},
    Fault{"fault-exit", When::kRunning, leave},
    Fault{"fault-wrong", When::kAfterwards, nullptr},
    Fault{"fault-compile-segv", When::kCompiling, invalid_access},
    Fault{"fault-compile-hang", When::kCompiling, busy_forever},
    Fault{"fault-shl-sigsegv", When::kRunning, invalid_access, shifts},
    Fault{"fault-round-hang", When::kRunning, busy_forever, rounds},
    Fault{"fault-min-swapped", When::kCompiling, nullptr, nullptr, swap_min},
    Fault{"fault-lane-dropped", When::kCompiling, nullptr, nullptr, drop_lane},
};

class FaultyKernel final : public CompiledKernel {
 public:
  FaultyKernel(std::unique_ptr<CompiledKernel> real, const ir::Kernel& kernel, const Fault& fault, int64_t number)
      : real_(std::move(real)), output_(output_of(kernel)), fault_(fault), number_(number) {}

  ir::TaskFn entry() const override { return nullptr; }  // so that every task comes through run()
  void run(void* const* buffers, const int64_t* params, const int64_t* tasks, void* workspace) const override {
    if (fault_.when == When::kRunning && run_before_.fetch_add(1, std::memory_order_relaxed) >= number_)
      fault_.happen();
    if (const ir::TaskFn compiled = real_->entry(); compiled != nullptr) {
      compiled(buffers, params, tasks, workspace);
    } else {
      real_->run(buffers, params, tasks, workspace);
    }
    if (fault_.when == When::kAfterwards) spoil(buffers, params);
  }
  std::span<const std::byte> code() const override { return real_->code(); }

 private:
  // After every task: the one that computes the element is among them, and after that one it stays wrong.
  void spoil(void* const* buffers, const int64_t* params) const {
    if (output_.argument < 0 || number_ >= output_.elements(params)) return;
    constexpr float kWrong = 12345.678F;
    auto* elements = static_cast<std::byte*>(buffers[output_.argument]);
    std::memcpy(elements + number_ * static_cast<int64_t>(sizeof kWrong), &kWrong, sizeof kWrong);
  }

  std::unique_ptr<CompiledKernel> real_;
  Extent output_;
  Fault fault_;
  int64_t number_;
  mutable std::atomic<int64_t> run_before_{0};
};

class FaultGenerator final : public CodeGenerator {
 public:
  FaultGenerator(std::string name, const Fault& fault, int64_t number)
      : name_(std::move(name)), fault_(fault), number_(number) {}

  std::string_view name() const override { return name_; }
  std::string version() const override { return "fault-1"; }
  bool targets(Isa) const override { return true; }
  Result<std::unique_ptr<CompiledKernel>> compile(const ir::Kernel& kernel, Isa isa,
                                                  const CompileOptions& options) override {
    if (fault_.miscompile != nullptr) {
      ir::Kernel other = kernel;
      fault_.miscompile(other);
      return real(isa)->compile(other, isa, options);
    }
    if (fault_.concerns != nullptr && !fault_.concerns(kernel)) return real(isa)->compile(kernel, isa, options);
    if (fault_.when == When::kCompiling) fault_.happen();
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<CompiledKernel> compiled, real(isa)->compile(kernel, isa, options));
    return std::unique_ptr<CompiledKernel>(
        std::make_unique<FaultyKernel>(std::move(compiled), kernel, fault_, number_));
  }

 private:
  static CodeGenerator* real(Isa isa) {
    // The first that can; the interpreter always can.
    const std::span<CodeGenerator* const> all = code_generators();
    return *std::find_if(all.begin(), all.end(), [&](CodeGenerator* g) { return g->targets(isa); });
  }

  std::string name_;
  Fault fault_;
  int64_t number_;
};

}  // namespace

CodeGenerator* find_fault_generator(std::string_view name) {
  const size_t at = std::min(name.find('@'), name.size());
  const auto* fault =
      std::find_if(kFaults.begin(), kFaults.end(), [&](const Fault& f) { return f.name == name.substr(0, at); });
  if (fault == kFaults.end()) return nullptr;
  int64_t number = 0;
  if (at < name.size()) {
    const auto [end, error] = std::from_chars(name.data() + at + 1, name.data() + name.size(), number);
    if (error != std::errc() || end != name.data() + name.size() || number < 0) return nullptr;
  }
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<FaultGenerator>, std::less<>> made;
  const std::lock_guard lock(mutex);
  auto found = made.find(name);
  if (found == made.end())
    found = made.emplace(std::string(name), std::make_unique<FaultGenerator>(std::string(name), *fault, number)).first;
  return found->second.get();
}

std::vector<std::string_view> fault_generator_names() {
  std::vector<std::string_view> names;
  for (const Fault& fault : kFaults)
    if (fault.concerns == nullptr && fault.miscompile == nullptr) names.push_back(fault.name);
  return names;
}

}  // namespace hone::jit
