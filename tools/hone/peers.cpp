// See peers.h.
#include "tools/hone/peers.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/base/env.h"
#include "tools/hone/cli.h"

namespace hone::cli {
namespace {

std::vector<std::filesystem::path> places() {
  std::vector<std::filesystem::path> all;
  if (const std::optional<std::string> dir = env("HONE_PEERS")) return {*dir};
  std::error_code ignored;  // no /proc: the relative places are simply not there
  const std::filesystem::path exe = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {exe / "../lib/hone/peers", exe / "../../bench/peers"};
}

// Settings of the environment would slow some peers down: each is measured at its best. libgomp may have read OMP_*
// when this process began; what it says about the number of threads is overruled by every peer.
void unset_settings() {
  constexpr std::string_view kPrefixes[] = {"OPENBLAS_", "GOTO_", "BLIS_", "DNNL_", "ONEDNN_", "LIBXSMM_", "OMP_NUM_"};
  std::vector<std::string> names;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    for (std::string_view prefix : kPrefixes)
      if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) {
    if (unsetenv(name.c_str()) == 0) note(fmt::format("{} is unset for the peers", name));
  }
}

}  // namespace

std::vector<std::string> peer_names() { return {"openblas", "blis", "onednn", "eigen", "libxsmm"}; }

Result<const HonePeer*> load_peer(const std::string& name) {
  const std::vector<std::string> known = peer_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    return invalid_argument(
        fmt::format("unknown peer '{}': --compare takes {}, hone-materialised or all", name, fmt::join(known, ", ")));
  unset_settings();
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
