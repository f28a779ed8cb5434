// LoopIR as text: print and parse are inverse to each other, and what is parsed is what runs.
//
//   kernel axpy {
//     param n
//     in x: f32[n] stride [1] align 4
//     inout y: f32[n] stride [1] align 4
//     workspace t: f32[64, 16] stride [16, 1] align 64
//     reg a: f32x16
//     reg acc: f32x16[14, 2]
//     reg m: mask16
//     parallel i in 0..n step 4096 {
//       let e = min(4096, n - i)
//       let q = (e) / 16
//       for j in 0..16*q step 16 {
//         a = load x[i + j]
//         ...
//       }
//       m = lanes(e - 16*q)
//       a = load x[i + 16*q] if m
//       acc[r, 0] = fma(a, b, acc[r, 0])
//       store y[i + 16*q] = a if m
//       prefetch t0 x[i + 64]
//       specialise rows in 1..14 = e - 1 { unroll r in 0..rows step 1 { ... } }
//       if i == 0 { ... } else { ... }
//       if e - 16 >= 0 { ... }
//     }
//   }
// Constants: `a = const 0x3f800000  # 1`. Comments run from # to the end of the line. README.md has the whole grammar.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "kernels/ir/ir.h"

namespace hone::ir {

std::string print(const Kernel& kernel);

// One statement on one line; of loops and branches only the head. For messages: never fails, whatever ids it meets.
std::string print_head(const Kernel& kernel, const Stmt& statement);
// An index or bound as print() writes it.
std::string print_affine(const Kernel& kernel, const Affine& e);

// Error: invalid_argument with line, column, what was found and what was expected. The result is not verified.
Result<Kernel> parse(std::string_view text);

// 64-bit content hash of the printed text without the kernel's name (FNV-1a finalised); equal programs hash equal
// whatever built them. For deduplication and caches; keep the text where a collision would matter.
uint64_t hash(const Kernel& kernel);

}  // namespace hone::ir
