// Case m10: overlap is refused by name; null operands too; touching neighbours are fine.
#include "kernels/matmul/operands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hone::matmul {
namespace {

using testing::HasSubstr;

class MatmulOperandsCheck : public testing::Test {
 protected:
  std::vector<float> memory_ = std::vector<float>(4096);
  float* at(int64_t i) { return memory_.data() + i; }
  MatmulOperands apart() { return {at(0), at(512), at(1024), at(1536), at(2048), at(2560)}; }

  void refuses(const std::string& text, const MatmulOperands& o, const std::string& what, PackedB packed = {}) {
    const Status s = check_overlap(*parse_problem(text), o, packed);
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(s.message(), HasSubstr(what));
  }
  void accepts(const std::string& text, const MatmulOperands& o, PackedB packed = {}) {
    const Status s = check_overlap(*parse_problem(text), o, packed);
    EXPECT_TRUE(s.ok()) << text << ": " << s.to_string();
  }
};

const char* const kAll = "matmul:f32:m=8,n=16,k=4:+bias*gate+residual";

TEST_F(MatmulOperandsCheck, AcceptsOperandsThatAreApart) {
  accepts(kAll, apart());
  accepts("matmul:f32:m=8,n=16,k=4", {at(0), at(512), at(1024)});
}

TEST_F(MatmulOperandsCheck, RefusesEachOverlapByName) {
  for (int64_t offset : {-31, 0, 127}) {  // A has 32 elements, C 128
    MatmulOperands o = apart();
    o.a = at(1024 + offset);
    refuses(kAll, o, "C overlaps A");
  }
  MatmulOperands o = apart();
  o.b = at(1024 - 63);
  refuses(kAll, o, "C overlaps B");
  o = apart();
  o.bias = at(1024 + 127);
  refuses(kAll, o, "C overlaps bias");
  o = apart();
  o.gate = o.c;
  refuses(kAll, o, "C overlaps gate");
  o = apart();
  o.residual = at(1024 + 127);
  refuses(kAll, o, "C overlaps residual");
}

TEST_F(MatmulOperandsCheck, NeighboursThatTouchAreFine) {
  MatmulOperands o = apart();
  o.a = at(1024 - 32);
  o.b = at(1024 + 128);
  accepts(kAll, o);
}

TEST_F(MatmulOperandsCheck, StridesAndBatchesWidenTheInterval) {
  const MatmulOperands o{at(0), at(2048), at(100)};
  accepts("matmul:f32:m=4,n=4,k=4", o);
  refuses("matmul:f32:m=4,n=4,k=4,lda=33", o, "C overlaps A");              // last element of A at 102
  accepts("matmul:f32:m=4,n=4,k=4,lda=32", o);                              // at 99
  refuses("matmul:f32:m=4,n=4,k=4,batch=3,sa=43,sb=0", o, "C overlaps A");  // at 101
  accepts("matmul:f32:m=4,n=4,k=4,batch=3,sa=42,sb=0", o);
  refuses("matmul:f32:m=4,n=4,k=4,ldc=700", o, "C overlaps B");
}

TEST_F(MatmulOperandsCheck, PanelsCountWithTheirPadding) {
  const MatmulOperands o{at(0), at(1024 - 64), at(1024)};  // 4 x 9 packed by 8: 64 elements
  accepts("matmul:f32:m=2,n=9,k=4,b=packed", o, {8, 0});
  refuses("matmul:f32:m=2,n=9,k=4,b=packed", o, "C overlaps B", {32, 0});
  refuses("matmul:f32:m=2,n=9,k=4,b=packed,batch=2", o, "C overlaps B", {8, 64});
  refuses("matmul:f32:m=2,n=9,k=4,b=packed", o, "width of its panels");
}

TEST_F(MatmulOperandsCheck, RefusesNullByName) {
  const std::pair<const float * MatmulOperands::*, const char*> inputs[] = {
      {&MatmulOperands::a, "A is null"},
      {&MatmulOperands::bias, "bias is null"},
      {&MatmulOperands::gate, "gate is null"},
      {&MatmulOperands::residual, "residual is null"}};
  for (const auto& [member, what] : inputs) {
    MatmulOperands o = apart();
    o.*member = nullptr;
    refuses(kAll, o, what);
  }
  MatmulOperands o = apart();
  o.c = nullptr;
  refuses(kAll, o, "C is null");
  o = apart();
  o.b = nullptr;
  refuses(kAll, o, "B is null");
}

TEST_F(MatmulOperandsCheck, WhatIsNotReadMayBeNullOrOverlap) {
  accepts("matmul:f32:m=0,n=4,k=4", {});
  accepts("matmul:f32:m=4,n=0,k=4", {});
  accepts("matmul:f32:m=4,n=4,k=0", {nullptr, nullptr, at(0)});
  accepts("matmul:f32:m=4,n=4,k=4,alpha=0", {at(0), nullptr, at(0)});
  accepts("matmul:f32:m=4,n=4,k=4,b=packed,alpha=0", {nullptr, nullptr, at(0)});
}

}  // namespace
}  // namespace hone::matmul
