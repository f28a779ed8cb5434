// Problem strings to problems: the keys of a matmul and its epilogue. What texts of all ops share is in kernels/text.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "kernels/matmul/problem.h"
#include "kernels/text/problem_text.h"

namespace hone::matmul {

std::string_view problem_grammar() {
  return "matmul:f32|bf16|f16:m=M,n=N,k=K[,b=nn|nt|packed][,lda=..][,ldb=..][,ldc=..][,batch=..][,sa=..][,sb=..][,sc=.."
         "][,alpha="
         "..]"
         "[,beta=..][:EPILOGUE] where M, N, K are 8, 1-8+1, 1-512*2 or {1,4,16} and EPILOGUE is a chain of +bias "
         "+gelu_tanh "
         "+gelu_erf +silu +relu *gate +residual, or [+bias]+swiglu and then the others, with *row_scale in front of "
         "any";
}

namespace {

using text::printable;

enum class Key : uint8_t { kM, kN, kK, kB, kLda, kLdb, kLdc, kBatch, kSa, kSb, kSc, kAlpha, kBeta };
constexpr std::array<std::string_view, 13> kKeys = {"m",     "n",  "k",  "b",  "lda",   "ldb", "ldc",
                                                    "batch", "sa", "sb", "sc", "alpha", "beta"};
constexpr std::array<size_t, 3> kNeeded = {0, 1, 2};

class Parser {
 public:
  Parser(std::string_view text, bool lists) : cursor_(text, problem_grammar(), lists) {}

  Result<std::vector<MatmulProblem>> run() {
    if (!cursor_.head("matmul", kMatmulDTypes, &base_.dtype) ||
        !cursor_.keys(kKeys, kNeeded, [this](size_t key) { return value(key); }) || !epilogue()) {
      return cursor_.error();
    }
    return text::expand(cursor_, base_, axes_, [](MatmulProblem& p, size_t key, int64_t value) {
      const auto k = static_cast<Key>(key);
      (k == Key::kM ? p.m : k == Key::kN ? p.n : p.k) = value;
    });
  }

 private:
  bool value(size_t key);
  bool layout();
  bool epilogue();
  bool epilogue_op();

  text::ProblemCursor cursor_;
  MatmulProblem base_;
  std::vector<text::Axis> axes_;
};

bool Parser::value(size_t key) {
  switch (static_cast<Key>(key)) {
    case Key::kM:
    case Key::kN:
    case Key::kK:
      axes_.push_back({key, {}});
      return cursor_.values(&axes_.back());
    case Key::kB:
      return layout();
    case Key::kLda:
      return cursor_.integer(&base_.lda);
    case Key::kLdb:
      return cursor_.integer(&base_.ldb);
    case Key::kLdc:
      return cursor_.integer(&base_.ldc);
    case Key::kBatch:
      return cursor_.integer(&base_.batch);
    case Key::kSa:
      return cursor_.integer(&base_.sa);
    case Key::kSb:
      return cursor_.integer(&base_.sb);
    case Key::kSc:
      return cursor_.integer(&base_.sc);
    case Key::kAlpha:
      return cursor_.real(&base_.alpha);
    case Key::kBeta:
      return cursor_.real(&base_.beta);
  }
  return false;
}

bool Parser::layout() {
  const std::array<std::string_view, 3> names = {layout_name(BLayout::kNn), layout_name(BLayout::kNt),
                                                 layout_name(BLayout::kPacked)};
  size_t i = 0;
  if (!cursor_.choice(names, "layout", " of B", &i)) return false;
  base_.b = static_cast<BLayout>(i);
  return true;
}

bool Parser::epilogue() {
  if (!cursor_.accept(':')) return true;
  if (cursor_.done()) return cursor_.fail("expected an epilogue after ':', found the end", cursor_.column());
  while (!cursor_.done())
    if (!epilogue_op()) return false;
  return true;
}

bool Parser::epilogue_op() {
  const size_t column = cursor_.column();
  const char sign = cursor_.peek();
  if (!cursor_.accept('+') && !cursor_.accept('*')) {
    return cursor_.fail("expected '+' or '*', found " + cursor_.found(), column);
  }
  const std::string name = std::string(cursor_.word());
  std::optional<EpilogueOp> op;
  for (int i = 0; i < kEpilogueOps; ++i) {
    const std::string_view full = epilogue_name(static_cast<EpilogueOp>(i));
    if (full.substr(1) == (name == "gelu" ? "gelu_tanh" : name)) op = static_cast<EpilogueOp>(i);
  }
  if (name.empty()) {
    return cursor_.fail("expected the name of an epilogue op, found " + cursor_.found(), cursor_.column());
  }
  if (!op) return cursor_.fail(fmt::format("unknown epilogue op '{}'", printable(name)), column);
  if (epilogue_name(*op)[0] != sign) {
    return cursor_.fail(fmt::format("'{}{}' should be '{}'", sign, name, epilogue_name(*op)), column);
  }
  if (reads_operand(*op) && base_.has(*op)) {
    return cursor_.fail(fmt::format("{} appears twice; its operand exists once", epilogue_name(*op)), column);
  }
  base_.epilogue.push_back(*op);
  return true;
}

}  // namespace

Result<MatmulProblem> parse_problem(std::string_view text) {
  HONE_ASSIGN_OR_RETURN(std::vector<MatmulProblem> problems, Parser(text, false).run());
  return std::move(problems.front());
}

Result<std::vector<MatmulProblem>> parse_problems(std::string_view text) { return Parser(text, true).run(); }

}  // namespace hone::matmul
