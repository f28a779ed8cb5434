#include <gmock/gmock.h>

#include <limits>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(DbCode, ComesBackAsItWas) {
  const auto store = must_open(":memory:");
  CodeRecord bare = code_record("llvm", 200);  // of a build that cannot disassemble, on a CPU that cannot run it
  bare.whole.reset(), bare.loop.reset(), bare.models.clear(), bare.rounds_ns.clear();
  bare.ns = bare.ratio = bare.ratio_lo = bare.ratio_hi = bare.compile_ns = 0;
  bare.bits = "alone";
  ASSERT_TRUE(store->save_codes({code_record("asmjit", 100)}).ok());
  ASSERT_TRUE(store->save_codes({bare}).ok());
  const auto all = store->codes();
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  ASSERT_EQ(all->size(), 2u);
  const CodeRecord wanted = code_record("asmjit", 100), &full = (*all)[1], &empty = (*all)[0];
  EXPECT_EQ(full.machine.key, wanted.machine.key);
  EXPECT_EQ(full.build.engine, wanted.build.engine);
  EXPECT_EQ(full.problem, wanted.problem);
  EXPECT_EQ(full.candidate, wanted.candidate);
  EXPECT_EQ(full.cache_mode, wanted.cache_mode);
  EXPECT_EQ(full.compile_ns, wanted.compile_ns);
  EXPECT_EQ(full.whole, wanted.whole);
  EXPECT_EQ(full.loop, wanted.loop);
  EXPECT_EQ(full.models, wanted.models);
  EXPECT_EQ(full.rounds_ns, wanted.rounds_ns);
  EXPECT_EQ(full.ratio_hi, wanted.ratio_hi);
  EXPECT_EQ(full.spilling_loops, 1);
  EXPECT_FALSE(empty.whole || empty.loop);
  EXPECT_EQ(empty.ns, 0);
  EXPECT_EQ(empty.ratio, 0);
  EXPECT_EQ(empty.bits, "alone");
  EXPECT_THAT(*store->verify(), IsEmpty());
}

TEST(DbCode, TheSameSecondAgainReplaces) {
  const auto store = must_open(":memory:");
  ASSERT_TRUE(store->save_codes({code_record("asmjit", 100), code_record("llvm", 100)}).ok());
  CodeRecord again = code_record("llvm", 100);
  again.rounds_ns = {7};
  again.ns = 7;
  again.models.clear();
  ASSERT_TRUE(store->save_codes({again}).ok());
  EXPECT_EQ(rows(*store, "codes"), 2);
  EXPECT_EQ(rows(*store, "code_samples"), 4);
  EXPECT_EQ(rows(*store, "code_models"), 2);
  EXPECT_THAT(*store->verify(), IsEmpty());
}

// For people: one row with all texts and counts; what was not measured is NULL, never a zero.
TEST(DbCode, TheViewHasARowForEach) {
  Folder folder;
  {
    const auto store = must_open(folder.file("a.db"));
    CodeRecord untimed = code_record("llvm", 100);
    untimed.ns = untimed.ratio = untimed.ratio_lo = untimed.ratio_hi = 0;
    untimed.rounds_ns.clear();
    untimed.loop.reset();
    ASSERT_TRUE(store->save_codes({code_record("asmjit", 100), untimed}).ok());
  }
  SQLite::Database database(folder.file("a.db"));
  SQLite::Statement q(database, "SELECT codegen, problem, ns, fma, loop_fma FROM code_quality ORDER BY codegen");
  ASSERT_TRUE(q.executeStep());
  EXPECT_EQ(q.getColumn("codegen").getString(), "asmjit");
  EXPECT_EQ(q.getColumn("problem").getString(), problem(1).text);
  EXPECT_EQ(q.getColumn("ns").getDouble(), 1000);
  EXPECT_EQ(q.getColumn("loop_fma").getInt(), 16);
  ASSERT_TRUE(q.executeStep());
  EXPECT_TRUE(q.getColumn("ns").isNull());
  EXPECT_TRUE(q.getColumn("loop_fma").isNull());
  EXPECT_EQ(q.getColumn("fma").getInt(), 40);
  EXPECT_FALSE(q.executeStep());
}

TEST(DbCode, RefusesWhatCannotHaveBeenMeasured) {
  const auto store = must_open(":memory:");
  auto refused = [&](auto change, const std::string& why) {
    CodeRecord code = code_record("asmjit", 100);
    change(code);
    const Status s = store->save_codes({code_record("llvm", 100), code});
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << why;
    EXPECT_THAT(s.message(), HasSubstr(why));
  };
  refused([](CodeRecord& c) { c.machine.key.clear(); }, "key is empty");
  refused([](CodeRecord& c) { c.problem.text.clear(); }, "problem is empty");
  refused([](CodeRecord& c) { c.candidate.codegen.clear(); }, "candidate has an empty codegen");
  refused([](CodeRecord& c) { c.cache_mode = "tepid"; }, "cache_mode is 'tepid'");
  refused([](CodeRecord& c) { c.bits = "yes"; }, "bits is 'yes'");
  refused([](CodeRecord& c) { c.compile_ns = -1; }, "compile_ns is -1");
  refused([](CodeRecord& c) { c.ns = std::numeric_limits<double>::quiet_NaN(); }, "ns is nan");
  refused([](CodeRecord& c) { c.rounds_ns.clear(); }, "ns and rounds_ns");
  refused([](CodeRecord& c) { c.rounds_ns[1] = 0; }, "rounds_ns is 0");
  refused([](CodeRecord& c) { c.ratio = 2; }, "ratio is 2, outside its interval");
  refused([](CodeRecord& c) { c.ratio_lo = 0; }, "ratio_lo is 0");
  refused([](CodeRecord& c) { c.whole->fma = 201; }, "whole fma is 201, must be from 0 to total 200");
  refused([](CodeRecord& c) { c.loop->bytes = 901; }, "loop is not within the whole");
  refused([](CodeRecord& c) { c.whole.reset(); }, "loop is not within the whole");
  refused([](CodeRecord& c) { c.models[1].cpu = "skylake"; }, "models has 'skylake' out of order or twice");
  refused([](CodeRecord& c) { c.models[0].ipc = -1; }, "models ipc is -1");
  refused([](CodeRecord& c) { c.measured_at = -5; }, "measured_at is -5");
  refused([](CodeRecord& c) { c.spilling_loops = -1; }, "spilling_loops is -1");
  EXPECT_EQ(rows(*store, "codes"), 0) << "all or none";
}

}  // namespace
}  // namespace hone::db
