// See peers.h.
#include "tools/hone/peers.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/base/env.h"

namespace hone::cli {
namespace {

std::vector<std::filesystem::path> places() {
  std::vector<std::filesystem::path> all;
  if (const std::optional<std::string> dir = env("HONE_PEERS")) return {*dir};
  std::error_code ignored;  // no /proc: the relative places are simply not there
  const std::filesystem::path exe = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {exe / "../lib/hone/peers", exe / "../../bench/peers"};
}

}  // namespace

std::vector<std::string> peer_names() { return {"openblas", "blis", "onednn", "eigen", "libxsmm"}; }

Result<const HonePeer*> load_peer(const std::string& name) {
  const std::vector<std::string> known = peer_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    return invalid_argument(fmt::format("unknown peer '{}': --compare takes {}", name, fmt::join(known, ", ")));
  // Settings of the environment would slow some peers down: each is measured at its best.
  for (const char* variable : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"})
    unsetenv(variable);
  std::string tried;
  for (const std::filesystem::path& place : places()) {
    const std::filesystem::path file = place / fmt::format("libhone_peer_{}.so", name);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* why = dlerror();
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", why != nullptr ? why : file.string());
      continue;
    }
    auto* entry = reinterpret_cast<const HonePeer* (*)()>(dlsym(library, "hone_peer"));
    const HonePeer* peer = entry != nullptr ? entry() : nullptr;
    if (peer == nullptr || peer->abi != HONE_PEER_ABI)
      return failed_precondition(
          fmt::format("peer '{}' in {} was built for another version of hone", name, file.string()));
    return peer;
  }
  return not_found(fmt::format("peer '{}' is not here: install its -dev package and build bench ({})", name, tried));
}

}  // namespace hone::cli
