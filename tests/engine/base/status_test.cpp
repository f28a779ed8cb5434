#include "engine/base/status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/base/dtype.h"
#include "engine/base/version.h"

namespace hone {
namespace {

TEST(Status, PrintsCodeAndMessage) {
  EXPECT_EQ(Status().to_string(), "ok");
  EXPECT_EQ(invalid_argument("m must be at least 0, got -1").to_string(),
            "invalid_argument: m must be at least 0, got -1");
  EXPECT_EQ(Status(Code::kInternal, "").to_string(), "internal");
}

Result<int> half(int n) {
  if (n % 2 != 0) return invalid_argument("odd");
  return n / 2;
}

Status quarter(int n, int& out) {
  HONE_ASSIGN_OR_RETURN(int h, half(n));
  HONE_ASSIGN_OR_RETURN(out, half(h));
  return {};
}

TEST(Status, MacrosPropagate) {
  int out = 0;
  EXPECT_TRUE(quarter(8, out).ok());
  EXPECT_EQ(out, 2);
  EXPECT_EQ(quarter(6, out).code(), Code::kInvalidArgument);
}

TEST(Status, ResultHoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

TEST(DType, NamesParseBack) {
  EXPECT_EQ(parse_dtype("f32"), DType::kF32);
  EXPECT_EQ(dtype_name(DType::kS32), "s32");
  EXPECT_EQ(dtype_bytes(DType::kF32), 4);
  EXPECT_EQ(dtype_bytes(DType::kU8), 1);
  EXPECT_FALSE(parse_dtype("F32").has_value());
  EXPECT_FALSE(parse_dtype("").has_value());
}

TEST(Version, IsThreeNumbers) { EXPECT_EQ(std::count(version().begin(), version().end(), '.'), 2); }

}  // namespace
}  // namespace hone
