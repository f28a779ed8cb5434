// One kernel's code as a file of the cache on disk: a few lines of text that say what it is, a blank line, and the
// object.
//
//   hone-kernel 2
//   sha256 9f86d0...          of everything behind this line
//   key 2c26b4...             CacheKey::id(): what it was made from
//   generator llvm
//   version llvm-19.1.7/1
//   isa avx512
//   lowering 1b4f0e9851971998 CacheKey::lowering(): what beside the version decided the code
//   kernel tile_f32_14x32_avx512
//   symbol tile_f32_14x32_avx512_llvm
//   size 4608                 bytes of the function
//   object 7264               bytes that follow the blank line
//
// The checksum finds what a disk, a full file system or a program broke; it is no defence against somebody who may
// write to the file, which is why disk_cache.h looks at owners.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace hone::jit {

// Everything that decides the code. Two keys are the same only if all of it is.
struct CacheKey {
  std::string generator, version;  // CodeGenerator::name() and version()
  std::string isa;
  std::string target;   // what else the generator was told (triple, features, tuning), in its own words
  std::string loop_ir;  // ir::print(), with the kernel's name: it is in the object as a symbol

  // 64 hexadecimal digits: the SHA-256 of all fields and of the format. The name of the file.
  std::string id() const;
  // 16 hexadecimal digits of `target`: for who compares entries of one version.
  std::string lowering() const;
};

// What an entry says of itself, to people and to those who clean up. What is no printable ASCII is stored as '_', and
// it is cut at 200 characters.
struct EntryLabel {
  std::string generator, version, isa, lowering, kernel;
};

struct CachedCode {
  EntryLabel label;
  std::string symbol;  // the function in the object
  uint64_t size = 0;   // its bytes, at most the object's
  std::string object;
};

// `id` is that of the key that the code was made from.
std::string encode_entry(std::string_view id, const CachedCode& code);
// Errors: data_loss naming what does not fit (truncated, changed, made from another key); unsupported for an entry of
// another format, which is another build's.
Result<CachedCode> decode_entry(std::string_view file, std::string_view id);

}  // namespace hone::jit
