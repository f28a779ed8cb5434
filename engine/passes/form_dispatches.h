// Cuts a graph into dispatches: what is one launch of prepared code.
//
// Matmuls (with their epilogues), attention, top-k and experts are dispatches of their own. Ops that shape only are
// views. Everything else works on rows: an op joins the row program that produces one of its operands where it walks
// the same rows, so that intermediates of a row stay in registers and in the L1. Keys and values that one attention
// alone reads are appended together.
#pragma once

#include "engine/passes/compilation.h"

namespace hone::passes {

// Streams that one row program may have: each is a pointer in a register, and a line of the L1 per vector in flight.
inline constexpr int kMaxRowStreams = 8;
// Bytes of one row over all streams. Programs that sum over a row read it once more; beyond half an L2 (512 KiB is the
// smallest of this decade's) those passes would go to memory.
inline constexpr int64_t kMaxRowBytes = int64_t{256} << 10;
// Ops that one row program may have: a few steps each, of the 256 that a program may have.
inline constexpr size_t kMaxRowNodes = 40;
// Dimensions of rows that may be joined: four that are walked, and columns.
inline constexpr size_t kMaxRowDimensions = 5;

// Fills dispatches. Error: unsupported naming a node that no dispatch can compute, and why.
Status form_dispatches(Compilation& compilation);

// What row programs need to know of values: the rows that a node walks.
//   full   the value has an element for each element of the domain [outer.., columns]
//   row    one for each row: [outer..] or [outer.., 1]
enum class RowClass : uint8_t { kFull, kRow, kNeither };
RowClass row_class(const graph::Shape& domain, const graph::Shape& dims);
// Whether a row program computes the op element by element.
bool is_elementwise(graph::OpKind op);
// The domain of a node that works on rows; nothing for others, and for sums along another axis than the last.
std::optional<graph::Shape> row_domain(const graph::Graph& graph, const graph::Node& node);

}  // namespace hone::passes
