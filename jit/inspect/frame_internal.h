// Spills and reloads, by data flow on the slots of the frame.
#pragma once

#include <vector>

#include "jit/inspect/arch_internal.h"
#include "jit/inspect/flow_internal.h"

namespace hone::jit {

// Sets classes.stack, spill and reload.
//
// Addresses: the stack pointer at entry plus a constant is followed through moves, additions, pushes and memory; a
// stack pointer that was rounded down (`and rsp, -64`) starts a part of the frame of its own, apart from what lies
// above it. A slot is the bytes that an instruction accesses at such an address; two that overlap partly share the
// bytes they share.
//
// A store is a spill if a load may read a byte of what it stored. A load is a reload if all its bytes were stored on
// every path that leads to it. Exempt are registers that the caller wants back: storing one while it still holds its
// value of the entry is no spill, nor is keeping an address of the frame, and loading such a slot is no reload. An
// access at a computed place of the frame (an array) is neither, and is taken to leave the slots alone.
void find_spills(std::vector<Operation>& operations, const FlowGraph& graph, Arch arch);

}  // namespace hone::jit
