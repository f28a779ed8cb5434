// See cpu_list_internal.h.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "engine/runtime/cpu_list_internal.h"

namespace hone::runtime {
namespace {

// CPUs of one core name the same first CPU in this list; a CPU that the kernel says nothing of is a core of its own.
int core_of(const std::string& root, int cpu) {
  std::ifstream file(fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", root, cpu));
  int first = cpu;
  return file >> first ? first : cpu;
}

}  // namespace

std::vector<int> one_of_each_core_first(const std::vector<int>& cpus, const std::vector<int>& core_of) {
  std::map<int, int> seen;
  std::vector<std::pair<int, int>> order;  // how many siblings came before, CPU
  for (size_t i = 0; i < cpus.size(); ++i) order.emplace_back(seen[core_of[i]]++, cpus[i]);
  std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<int> sorted;
  for (const auto& [rank, cpu] : order) sorted.push_back(cpu);
  return sorted;
}

std::vector<int> usable_cpu_list(const std::string& root) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};  // a machine of more than 1024 CPUs: nobody is pinned
  std::vector<int> cpus, cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    cpus.push_back(cpu);
    cores.push_back(core_of(root, cpu));
  }
  return one_of_each_core_first(cpus, cores);
}

bool pin_thread(pthread_t thread, int cpu) {
  if (cpu < 0) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return pthread_setaffinity_np(thread, sizeof set, &set) == 0;
}

Seats::Seats(std::vector<int> cpus) : cpus_(std::move(cpus)) {
  const int highest = cpus_.empty() ? -1 : *std::max_element(cpus_.begin(), cpus_.end());
  worker_on_.assign(static_cast<size_t>(highest + 1), -1);
}

void Seats::add(int caller_cpu) {
  cpu_.push_back(-1);
  for (int cpu : cpus_) {
    if (cpu == caller_cpu || worker_on_[static_cast<size_t>(cpu)] >= 0) continue;
    return sit(static_cast<int>(cpu_.size()) - 1, cpu);
  }
}

void Seats::sit(int worker, int cpu) {
  cpu_[static_cast<size_t>(worker)] = cpu;
  worker_on_[static_cast<size_t>(cpu)] = worker;
}

int Seats::move(int worker) {
  const int from = cpu(worker);
  const auto free =
      std::find_if(cpus_.begin(), cpus_.end(), [&](int cpu) { return worker_on_[static_cast<size_t>(cpu)] < 0; });
  if (free == cpus_.end()) return -1;
  worker_on_[static_cast<size_t>(from)] = -1;
  sit(worker, *free);
  return worker;
}

}  // namespace hone::runtime
