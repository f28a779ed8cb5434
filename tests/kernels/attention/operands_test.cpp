// What check_sequence refuses, by name, and the dense strides.
#include "kernels/attention/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hone::attention {
namespace {

using testing::HasSubstr;

// All operands in one array, so that tests can make them overlap.
struct Call {
  explicit Call(std::string_view text) : problem(parse_problem(text).value()), memory(100000), mask(1000), table(40) {
    sequence = {
        .q = problem.q, .kv = problem.kv, .query = at(0), .key = at(10000), .value = at(20000), .out = at(30000)};
    sequence.mask = problem.mask == MaskKind::kNone ? nullptr : mask.data();
    sequence.lse = problem.lse ? at(40000) : nullptr;
    if (problem.page > 0) sequence.page_table = table.data();
    set_dense_strides(problem, sequence);
  }
  float* at(size_t element) { return memory.data() + element; }
  std::string refused() const {
    const Status s = check_sequence(problem, sequence);
    EXPECT_FALSE(s.ok());
    return s.ok() ? "" : s.message();
  }
  Status checked() const { return check_sequence(problem, sequence); }

  AttentionProblem problem;
  std::vector<float> memory, mask;
  std::vector<int32_t> table;
  Sequence sequence;
};

constexpr std::string_view kPlain = "attention:f32:b=1,hq=4,hkv=2,q=5,kv=20,d=8,dv=6:causal:mask:lse";
constexpr std::string_view kPaged = "attention:f32:b=1,hq=4,hkv=2,q=2,kv=20,d=8,page=3:window=4";

TEST(AttentionOperands, DenseStrides) {
  const Call plain(kPlain);
  EXPECT_EQ(plain.sequence.q_head, 40);
  EXPECT_EQ(plain.sequence.k_head, 160);
  EXPECT_EQ(plain.sequence.v_head, 120);
  EXPECT_EQ(plain.sequence.o_head, 30);
  EXPECT_EQ(plain.sequence.mask_row, 20);
  EXPECT_EQ(plain.sequence.mask_head, 0);
  EXPECT_EQ(plain.sequence.lse_head, 5);
  const Call paged(kPaged);
  EXPECT_EQ(paged.sequence.k_head, 24);
  EXPECT_EQ(paged.sequence.k_page, 48);
  Call blocked("attention:f32:b=1,hq=4,hkv=2,q=5,kv=20,d=8,k=blocked");
  EXPECT_EQ(blocked.sequence.k_head, 256);
  EXPECT_EQ(blocked.sequence.key_groups, 2);
  set_dense_strides(blocked.problem, blocked.sequence, 40);
  EXPECT_EQ(blocked.sequence.k_head, 384);
  EXPECT_EQ(blocked.sequence.v_head, 320);
  EXPECT_EQ(blocked.sequence.key_groups, 3);
}

TEST(AttentionOperands, AcceptsWhatIsApart) {
  EXPECT_TRUE(Call(kPlain).checked().ok());
  // [b, s, h, d]: heads side by side, of what is written too.
  Call bshd("attention:f32:b=1,hq=4,hkv=2,q=5,kv=20,d=8,layout=bshd");
  bshd.sequence.q_head = bshd.sequence.k_head = bshd.sequence.v_head = bshd.sequence.o_head = 8;
  EXPECT_TRUE(bshd.checked().ok()) << bshd.checked().message();
  Call shared(kPlain);  // stride 0 shares K, V and mask
  shared.sequence.k_head = shared.sequence.v_head = shared.sequence.mask_row = 0;
  EXPECT_TRUE(shared.checked().ok());
}

TEST(AttentionOperands, NullIsRefusedOnlyWhereItIsNeeded) {
  for (const auto& [name, clear] :
       std::vector<std::pair<std::string, void (*)(Sequence&)>>{{"key", [](Sequence& s) { s.key = nullptr; }},
                                                                {"value", [](Sequence& s) { s.value = nullptr; }},
                                                                {"mask", [](Sequence& s) { s.mask = nullptr; }}}) {
    Call call(kPlain);
    clear(call.sequence);
    EXPECT_THAT(call.refused(), HasSubstr(name + " is null"));
    call.sequence.kv = 0;  // no key is read
    EXPECT_TRUE(call.checked().ok());
  }
  Call query(kPlain);  // kernels scale all rows before they look for keys
  query.sequence.query = nullptr;
  EXPECT_THAT(query.refused(), HasSubstr("query is null"));
  query.sequence.kv = 0;
  EXPECT_THAT(query.refused(), HasSubstr("query is null"));
  query.sequence.q = 0;
  EXPECT_TRUE(query.checked().ok());
  Call out(kPlain);
  out.sequence.out = nullptr;
  EXPECT_THAT(out.refused(), HasSubstr("out is null"));
  out.sequence.q = 0;
  EXPECT_TRUE(out.checked().ok());
  Call lse(kPlain);
  lse.sequence.lse = nullptr;
  EXPECT_THAT(lse.refused(), HasSubstr("lse is null"));
  Call table(kPaged);
  table.sequence.page_table = nullptr;
  EXPECT_THAT(table.refused(), HasSubstr("page_table is null"));
}

TEST(AttentionOperands, NumbersThatCannotBe) {
  Call kv(kPlain);
  kv.sequence.kv = -1;
  EXPECT_THAT(kv.refused(), HasSubstr("kv=-1 is negative"));
  Call stride(kPlain);
  stride.sequence.v_head = -6;
  EXPECT_THAT(stride.refused(), HasSubstr("v_head=-6 is negative"));
  Call far(kPlain);
  far.sequence.k_head = int64_t{1} << 62;
  EXPECT_THAT(far.refused(), HasSubstr("strides of key reach beyond"));
  Call heads(kPlain);
  heads.sequence.o_head = 29;
  EXPECT_THAT(heads.refused(), HasSubstr("o_head=29 makes the heads of out overlap"));
  Call lse(kPlain);
  lse.sequence.lse_head = 0;
  EXPECT_THAT(lse.refused(), HasSubstr("lse_head=0 makes the heads of lse overlap"));
  Call groups("attention:f32:b=1,hq=4,hkv=2,q=5,kv=33,d=8,k=blocked");
  groups.sequence.key_groups = 2;
  EXPECT_THAT(groups.refused(), HasSubstr("key_groups=2 is less than the 3 groups"));
}

// The last element of one and the first of the other; one element further is right.
TEST(AttentionOperands, OverlapIsRefusedToTheElement) {
  const struct {
    const char* name;
    size_t begin, elements;
  } reads[] = {{"query", 0, 160}, {"key", 10000, 320}, {"value", 20000, 240}};
  for (const auto& r : reads) {
    Call call(kPlain);
    call.sequence.out = call.at(r.begin + r.elements - 1);
    EXPECT_THAT(call.refused(), HasSubstr(std::string("out overlaps ") + r.name));
    call.sequence.out = call.at(r.begin + r.elements);
    EXPECT_TRUE(call.checked().ok()) << r.name;
    call.sequence.out = call.at(30000);
    call.sequence.lse = call.at(r.begin + r.elements - 1);
    EXPECT_THAT(call.refused(), HasSubstr(std::string("lse overlaps ") + r.name));
  }
  Call both(kPlain);
  both.sequence.lse = both.sequence.out + 119;
  EXPECT_THAT(both.refused(), HasSubstr("out overlaps lse"));
  both.sequence.lse = both.sequence.out + 120;
  EXPECT_TRUE(both.checked().ok());
  Call mask(kPlain);
  mask.sequence.mask = mask.sequence.out;
  EXPECT_THAT(mask.refused(), HasSubstr("out overlaps mask"));
}

// Rows 0 and 1 at positions 18 and 19 with a window of 4 to both sides see keys 15..19: entries 5 and 6 of the table.
TEST(AttentionOperands, OnlyPagesThatARowSeesAreJudged) {
  Call call(kPaged);
  call.sequence.pages = 3;
  for (int32_t& page : call.table) page = -7;
  call.table[5] = 2, call.table[6] = 0;
  EXPECT_TRUE(call.checked().ok()) << call.checked().message();
  call.table[6] = 3;
  EXPECT_THAT(call.refused(), HasSubstr("page_table[6]=3 is no page of the pool (pages=3)"));
  call.table[6] = -1;
  EXPECT_THAT(call.refused(), HasSubstr("page_table[6]=-1"));
  call.table[6] = 0;
  call.sequence.out = call.at(10000 + 48 + 1);  // page 1, which no row sees: 64 elements reach into page 2
  EXPECT_THAT(call.refused(), HasSubstr("out overlaps key"));
  call.sequence.out = call.at(10000 + 3 * 48);
  EXPECT_TRUE(call.checked().ok());
}

}  // namespace
}  // namespace hone::attention
