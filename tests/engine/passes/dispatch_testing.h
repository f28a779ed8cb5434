// Graphs made by the builder, on their way through the passes that cut, place and pack.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/graph/builder.h"
#include "engine/passes/bufferize.h"
#include "engine/passes/form_dispatches.h"
#include "engine/passes/plan_memory.h"

namespace hone::passes {

class DispatchTest : public testing::Test {
 protected:
  const graph::Dim s = graph::Dim::symbol("s");

  DispatchTest() : b("g") { b.symbol({.name = "s", .min = 1, .max = 128}); }

  graph::ValueId rows(const char* name, int64_t columns) { return b.input(name, {DType::kF32, {s, columns}}); }
  graph::ValueId ones(graph::Shape dims) {
    return b.constant(graph::Constant::splat_f32({DType::kF32, std::move(dims)}, 1));
  }

  Status form() {
    Result<graph::Graph> g = b.finish();
    EXPECT_TRUE(g.ok()) << g.status().message();
    if (!g.ok()) return g.status();
    c.graph = *std::move(g);
    return form_dispatches(c);
  }
  Status all() {
    HONE_RETURN_IF_ERROR(form());
    HONE_RETURN_IF_ERROR(bufferize(c));
    return plan_memory(c);
  }
  int count(DispatchKind kind) const {
    int n = 0;
    for (const Dispatch& d : c.dispatches) n += d.kind == kind;
    return n;
  }
  const Dispatch& named(std::string_view name) const {
    for (const Dispatch& d : c.dispatches)
      if (d.name == name) return d;
    ADD_FAILURE() << "no dispatch " << name;
    return c.dispatches.front();
  }
  const Placement& place(std::string_view value) const { return c.placements.at(*c.graph.find_value(value)); }

  graph::Builder b;
  Compilation c;
};

}  // namespace hone::passes
