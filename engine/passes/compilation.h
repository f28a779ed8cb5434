// A graph on its way to a plan: what the passes hand on to each other. Each pass reads what those before it left here
// and adds its own part; nothing else is shared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/passes/policy.h"

namespace hone::passes {

// A condition on the sizes of a call, which is checked before anything runs.
//   "s: 1 <= s <= 4096"     "x, dimension 0 = s"     "p + s <= 4096: rows of state k0"
struct Guard {
  enum class Kind : uint8_t { kEqual, kAtMost, kAtLeast, kMultiple };
  Kind kind = Kind::kEqual;
  graph::Dim left, right;  // left == right, <=, >=, or left % right == 0
  std::string what;        // the dimension: "x, dimension 0", "tokens after this call"
  std::string rule;        // why: "s <= 4096 as declared", "state k0 holds 4096 rows"
};

// What a pass did to a node, or decided against, and why.
struct Note {
  std::string pass, node, what, why;
};

// How the rows of an intermediate lie: element [.., i, j] at i * row + j, rows dense when `row` is 0.
struct Layout {
  int64_t row = 0;
  std::string why;
};

// The steps of a plan, in order, each of which is one launch of prepared code (or none, for a view).
enum class DispatchKind : uint8_t {
  kMatmul,     // with its epilogue
  kAttention,  // over operands, or over the cache that an append has filled
  kAppend,     // rows of K and V to the cache of one attention
  kRows,       // a row program: kernels/rows
  kTopK,
  kExperts,
  kView,  // no code: result lies where the operand does
};
std::string_view dispatch_kind_name(DispatchKind kind);

struct Dispatch {
  DispatchKind kind = DispatchKind::kView;
  std::string name;                     // of its main node: of traces and reports
  std::vector<graph::NodeId> nodes;     // that it computes, in order
  std::vector<graph::ValueId> inputs;   // values of other dispatches, constants, inputs and states that it reads
  std::vector<graph::ValueId> outputs;  // that somebody else reads
  std::string why;                      // what the fusion saves, or why there is none
};

// Where a value lies: `elements` from the start of its buffer, with a stride for each dimension.
struct Placement {
  int buffer = -1;
  graph::Dim offset;
  std::vector<graph::Dim> strides;
};

struct Buffer {
  enum class Kind : uint8_t { kInput, kOutput, kConstant, kState, kIntermediate };
  Kind kind = Kind::kIntermediate;
  graph::ValueId value = -1;  // the first that lies there
  graph::Dim elements;
  int64_t element_bytes = 4;
  int first = 0, last = 0;  // dispatches between which its content matters
  int64_t max_bytes = 0;    // for the largest sizes that guards let through
  int64_t offset = -1;      // kIntermediate: in the arena
};

struct MemoryPlan {
  int64_t arena_bytes = 0;    // peak, for the largest sizes
  int64_t without_reuse = 0;  // the sum of all intermediates
  int64_t alignment = 64;
};

struct Compilation {
  graph::Graph graph;
  PlanPolicy policy;
  // Large constants are one value each, in the place of weights (policy_space.h): passes find the shapes of a plan
  // without moving its weights. No plan is made from it.
  bool stand_ins = false;
  std::vector<Guard> guards;                       // shape_inference
  std::map<graph::ValueId, Layout> layouts;        // layout_planning; a value without one is dense
  std::vector<Dispatch> dispatches;                // form_dispatches
  std::vector<Buffer> buffers;                     // bufferize, plan_memory
  std::map<graph::ValueId, Placement> placements;  // bufferize
  MemoryPlan memory;                               // plan_memory
  std::vector<Note> notes;                         // all
};

}  // namespace hone::passes
