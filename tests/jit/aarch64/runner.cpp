// Runs the kernels of a package on recorded memory and compares what they leave there. Built for another architecture
// and run by an emulator, so it stands on nothing but what running packages needs.
//
//   runner PACKAGE RECORDING      exit 0: every byte is as recorded; 1: not, or the package is refused; one line each
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/base/guarded_buffer.h"
#include "engine/base/hwcap.h"
#include "jit/aot/package.h"
#include "jit/launch.h"
#include "tests/jit/aarch64/recording.h"

namespace hone::jit {
namespace {

template <typename... Args>
int fail(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  return 1;
}

bool same_float(const uint8_t* a, const uint8_t* b) {
  float x = 0, y = 0;
  std::memcpy(&x, a, 4);
  std::memcpy(&y, b, 4);
  return std::isnan(x) && std::isnan(y);
}

// "" when `got` is what is expected.
std::string difference(const Recording::Region& region, const GuardedBuffer& got) {
  if (!got.slack_intact()) return "a store outside it";
  const uint8_t* data = reinterpret_cast<const uint8_t*>(got.data());
  const size_t size = region.after.size(), whole = size / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    if (std::memcmp(data + i, &region.after[i], 4) == 0) continue;
    if (region.floats && same_float(data + i, &region.after[i])) continue;
    uint32_t is = 0, must = 0;
    std::memcpy(&is, data + i, 4);
    std::memcpy(&must, &region.after[i], 4);
    return fmt::format("word {} is {:08x}, must be {:08x}", i / 4, is, must);
  }
  return std::memcmp(data + whole, region.after.data() + whole, size - whole) == 0 ? "" : "its last bytes differ";
}

class Replay {
 public:
  Status load(const std::string& path) {
    const PackageHost host{.arch = std::string(process_arch()), .features = decode_hwcap(read_hwcap()).features};
    HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const Package> package, Package::open(path));
    for (const PackageOp& op : package->manifest().ops) {
      HONE_ASSIGN_OR_RETURN(const size_t variant, choose_variant(op, host));
      HONE_ASSIGN_OR_RETURN(std::vector<Executable> kernels, package->load(op.variants[variant], host));
      ops_.push_back(std::move(kernels));
    }
    return {};
  }

  // The number of differences, each printed.
  int run(const Recording::Case& c) {
    std::vector<GuardedBuffer> memory;
    for (const Recording::Region& r : c.regions) {
      Result<GuardedBuffer> made =
          GuardedBuffer::create(static_cast<int64_t>(r.before.size()), r.guard_before ? Guard::kBefore : Guard::kAfter);
      if (!made.ok()) return fail("{}: {}", c.name, made.status().message());
      std::memcpy(made->data(), r.before.data(), r.before.size());
      memory.push_back(std::move(*made));
    }
    for (const Recording::Launch& launch : c.launches)
      if (!run(launch, memory)) return fail("{}: no such kernel, or no memory to run it", c.name);
    int differences = 0;
    for (size_t i = 0; i < memory.size(); ++i)
      if (const std::string text = difference(c.regions[i], memory[i]); !text.empty())
        differences += fail("{}: memory {}: {}", c.name, i, text);
    return differences;
  }

 private:
  bool run(const Recording::Launch& launch, const std::vector<GuardedBuffer>& memory) {
    const auto op = static_cast<size_t>(launch.op), kernel = static_cast<size_t>(launch.kernel);
    if (op >= ops_.size() || kernel >= ops_[op].size()) return false;
    std::vector<std::vector<void*>> buffers;
    std::vector<LaunchItem> items;
    for (const Recording::Item& item : launch.items) {
      buffers.emplace_back();
      for (const Recording::Pointer& p : item.buffers)
        buffers.back().push_back(p.region < 0 ? nullptr : memory[static_cast<size_t>(p.region)].data() + p.offset);
      items.emplace_back(ops_[op][kernel], buffers.back().data(), item.params.data());
    }
    const Executable& executable = ops_[op][kernel];
    jit::Launch call(executable, items, &workspaces_);
    if (!launch.poisoned) jit::Launch::run_range(&call, 0, call.tasks());
    for (int64_t task = 0; launch.poisoned && task < call.tasks(); ++task) {
      poison(executable.workspace_bytes);
      jit::Launch::run_range(&call, task, task + 1);
    }
    return !call.out_of_memory();
  }

  // The one workspace that there is, which is lent to the next task again.
  void poison(int64_t bytes) {
    const WorkspaceLease lease(&workspaces_, bytes);
    if (lease.data() != nullptr) std::memset(lease.data(), 0xff, static_cast<size_t>(bytes));
  }

  std::vector<std::vector<Executable>> ops_;
  WorkspacePool workspaces_;  // of all cases: what one leaves behind the next must not show
};

int run(const std::string& package, const std::string& recording) {
  Recording recorded;
  if (!read_recording(recording, recorded)) return fail("cannot read {}", recording);
  Replay replay;
  if (const Status loaded = replay.load(package); !loaded.ok()) return fail("{}", loaded.message());
  int differences = 0;
  for (const Recording::Case& c : recorded.cases) differences += replay.run(c);
  fmt::print("{} cases, {} differences\n", recorded.cases.size(), differences);
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hone::jit

int main(int argc, char** argv) {
  if (argc != 3) return hone::jit::fail("usage: {} PACKAGE RECORDING", argv[0]);
  return hone::jit::run(argv[1], argv[2]);
}
