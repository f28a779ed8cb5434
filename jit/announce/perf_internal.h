// The two files that perf reads. Thread safe; after a fork the child writes files of its own (if no thread was in here
// meanwhile, see engine/engine.cpp).
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace hone::jit {

// A line "START SIZE name" (hexadecimal) in /tmp/perf-PID.map. That is where perf looks, and anybody may write there:
// the file is only used if it belongs to this user and has no other name, a link is not followed, and what an earlier
// process of this number left is removed first.
void append_to_perf_map(const std::string& symbol, std::span<const std::byte> code);

// A JIT_CODE_LOAD record in jit-PID.dump (Documentation/jitdump-specification.txt of perf), with the bytes of the code:
// memory that is released and used again holds other code later, and the records have times. The folder is $JITDUMPDIR,
// else a new one in $HOME/.debug/jit, where other JITs put theirs.
void append_to_jitdump(const std::string& symbol, std::span<const std::byte> code);

}  // namespace hone::jit
