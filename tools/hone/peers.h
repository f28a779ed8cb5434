// Other libraries to compare with, loaded at run time (bench/peers/peer.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/peers/peer.h"
#include "engine/base/status.h"

namespace hone::cli {

// The peers that bench/peers has sources for.
std::vector<std::string> peer_names();

// Loads libhone_peer_NAME.so from $HONE_PEERS, else beside the executable (lib/hone/peers, or the build tree). The
// library stays loaded: some of them do not survive dlclose. Error: not_found saying where it was looked for.
Result<const HonePeer*> load_peer(const std::string& name);

}  // namespace hone::cli
