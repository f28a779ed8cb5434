// Text -> LoopIR: recursive descent, one token ahead. The text comes from people, files and databases, so nothing in it
// may crash the parser or make it allocate more than the text's own size: depth, list lengths and number sizes are
// bounded.
//
// The first error wins: it is recorded and the token stream ends there, so every loop below stops by itself.
#include <optional>
#include <unordered_map>
#include <utility>

#include "kernels/ir/lexer_internal.h"
#include "kernels/ir/spelling_internal.h"
#include "kernels/ir/text.h"

namespace hone::ir {
namespace {

// Magnitude of any constant or coefficient: sums of two stay within int64.
__extension__ typedef __int128 Wide;
constexpr Wide kMaxMagnitude = Wide{1} << 61;
constexpr size_t kMaxListLength = 64;

bool fits(Wide v) { return v <= kMaxMagnitude && v >= -kMaxMagnitude; }

template <size_t N>
std::string joined(const std::array<std::string_view, N>& names) {
  std::string out;
  for (std::string_view n : names) out += " " + std::string(n);
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), token_(lexer_.next()) {}

  Result<Kernel> run() {
    expect("kernel");
    kernel_.name = std::string(fresh_name("a name for the kernel"));
    expect("{");
    while (declaration()) {
    }
    kernel_.body = statements_until_brace(0);
    if (!failed_ && token_.kind != Token::Kind::kEnd) fail("expected the end of the text after the kernel");
    if (failed_) return invalid_argument(error_);
    return std::move(kernel_);
  }

 private:
  using Names = std::unordered_map<std::string_view, int>;

  // ---- tokens ----
  void fail(const std::string& message) { fail_at(token_, message + ", found " + describe(token_)); }
  void fail_at(const Token& where, const std::string& message) {
    if (failed_) return;
    failed_ = true;
    error_ = "line " + std::to_string(where.line) + ", column " + std::to_string(where.column) + ": " + message;
    token_ = Token{};
  }
  Token take() {
    Token t = token_;
    line_ = t.line;
    if (!failed_) token_ = lexer_.next();
    return t;
  }
  bool at(std::string_view text) const {
    return (token_.kind == Token::Kind::kPunct || token_.kind == Token::Kind::kName) && token_.text == text;
  }
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail("expected '" + std::string(text) + "'");
  }
  uint64_t number(const std::string& what, uint64_t max) {
    if (token_.kind != Token::Kind::kNumber || token_.value > max) {
      fail("expected " + what + " (a number up to " + std::to_string(max) + ")");
      return 0;
    }
    return take().value;
  }
  int64_t signed_number(const std::string& what) {
    const bool negative = accept("-");
    const auto value = static_cast<int64_t>(number(what, uint64_t{1} << 61));
    return negative ? -value : value;
  }

  // ---- names ----
  std::string_view fresh_name(const std::string& what) {
    if (token_.kind != Token::Kind::kName || !is_name(token_.text)) {
      fail("expected " + what);
      return {};
    }
    return take().text;
  }
  int add_name(Names& names, const char* what) {
    const Token where = token_;
    last_name_ = fresh_name(std::string("a name for the ") + what);
    if (!failed_ && !names.emplace(last_name_, static_cast<int>(names.size())).second)
      fail_at(where, std::string(what) + " '" + std::string(last_name_) + "' is declared twice");
    return failed_ ? 0 : static_cast<int>(names.size()) - 1;
  }
  int find_name(const Names& names, const char* what) {
    if (token_.kind != Token::Kind::kName) {
      fail(std::string("expected a ") + what);
      return 0;
    }
    const auto found = names.find(token_.text);
    if (found == names.end()) {
      fail_at(token_, std::string("no ") + what + " is named '" + std::string(token_.text) + "' here");
      return 0;
    }
    take();
    return found->second;
  }
  VarId add_var(VarKind kind) {
    const VarId v = add_name(vars_, "variable");
    if (failed_) return 0;
    kernel_.vars.push_back({std::string(last_name_), kind});
    return v;
  }

  // ---- declarations ----
  bool declaration() {
    const int scope = token_.kind == Token::Kind::kName ? spelled(kScopeNames, token_.text) : -1;
    if (accept("param")) {
      add_var(VarKind::kParam);
    } else if (accept("reg")) {
      register_declaration();
    } else if (scope >= 0) {
      take();
      buffer_declaration(static_cast<Scope>(scope));
    } else {
      return false;
    }
    return !failed_;
  }

  void buffer_declaration(Scope scope) {
    Buffer b;
    b.scope = scope;
    add_name(buffers_, "buffer");
    b.name = std::string(last_name_);
    expect(":");
    const std::optional<DType> dtype = parse_dtype(token_.text);
    if (token_.kind != Token::Kind::kName || !dtype) return fail("expected an element type such as f32");
    take();
    b.dtype = *dtype;
    b.extents = list();
    expect("stride");
    b.strides = list();
    expect("align");
    b.align = static_cast<int64_t>(number("an alignment", 1 << 20));
    kernel_.buffers.push_back(std::move(b));
  }

  void register_declaration() {
    Register r;
    add_name(registers_, "register");
    r.name = std::string(last_name_);
    expect(":");
    const std::optional<RegType> type = register_type(token_.text);
    if (token_.kind != Token::Kind::kName || !type) return fail("expected a register type such as f32x16 or mask16");
    take();
    r.type = *type;
    if (at("[")) {
      const Token where = token_;
      for (const Affine& e : list()) {
        if (!e.is_constant()) return fail_at(where, "the dimensions of a register tile are numbers");
        r.dims.push_back(e.constant());
      }
    }
    kernel_.registers.push_back(std::move(r));
  }

  static std::optional<RegType> register_type(std::string_view name) {
    for (int lanes : {1, 4, 8, 16}) {
      if (name == "mask" + std::to_string(lanes)) return RegType{.dtype = DType::kF32, .lanes = lanes, .mask = true};
#define X(id, spelling, bytes) \
  if (name == spelling "x" + std::to_string(lanes)) return RegType{.dtype = DType::id, .lanes = lanes, .mask = false};
#include "engine/base/dtypes.inc"
#undef X
    }
    return std::nullopt;
  }

  // ---- expressions: sums and products that stay affine ----
  Affine expr(int depth = 0) {
    Affine sum = term(depth);
    while (at("+") || at("-")) {
      const Token op = take();
      const Affine right = scaled(op, term(depth), op.text == "+" ? 1 : -1);
      bool ok = fits(Wide{sum.constant()} + right.constant());
      for (const Affine::Term& t : right.terms()) ok = ok && fits(Wide{sum.coef(t.var)} + t.coef);
      if (!ok) fail_at(op, "a number in this sum is too large");
      if (sum.terms().size() + right.terms().size() > kMaxListLength) fail_at(op, "too many terms in this sum");
      if (failed_) return {};
      sum += right;
    }
    return sum;
  }
  Affine term(int depth) {
    Affine product = factor(depth);
    while (at("*")) {
      const Token op = take();
      const Affine right = factor(depth);
      if (!product.is_constant() && !right.is_constant()) fail_at(op, "a variable can be multiplied by numbers only");
      product = product.is_constant() ? scaled(op, right, product.constant()) : scaled(op, product, right.constant());
    }
    return product;
  }
  Affine factor(int depth) {
    if (depth >= kMaxDepth) fail("too many nested parentheses or signs");
    if (at("-")) {
      const Token op = take();
      return scaled(op, factor(depth + 1), -1);
    }
    if (accept("(")) {
      Affine inner = expr(depth + 1);
      expect(")");
      return inner;
    }
    if (token_.kind == Token::Kind::kNumber)
      return static_cast<int64_t>(number("a number", static_cast<uint64_t>(kMaxMagnitude)));
    if (token_.kind != Token::Kind::kName) {
      fail("expected a number or a variable");
      return {};
    }
    return Affine::var(find_name(vars_, "variable"));
  }
  Affine scaled(const Token& where, const Affine& e, int64_t f) {
    bool ok = fits(Wide{e.constant()} * f);
    for (const Affine::Term& t : e.terms()) ok = ok && fits(Wide{t.coef} * f);
    if (!ok) fail_at(where, "a number in this product is too large");
    return failed_ ? Affine() : e * f;
  }

  std::vector<Affine> list(std::string_view open = "[", std::string_view close = "]") {
    std::vector<Affine> items;
    expect(open);
    do {
      items.push_back(expr());
      if (items.size() > kMaxListLength) fail("expected a shorter list");
    } while (accept(","));
    expect(close);
    return items;
  }

  RegRef reg() {
    RegRef r;
    r.reg = find_name(registers_, "register");
    if (at("[")) r.index = list();
    return r;
  }
  Access access() {
    Access a;
    a.buffer = find_name(buffers_, "buffer");
    a.index = list();
    return a;
  }
  // On the line of its access: an `if` on a line of its own is the next statement.
  RegRef optional_mask() { return token_.line == line_ && accept("if") ? reg() : RegRef{}; }

  // ---- statements ----
  Block statements_until_brace(int depth) {
    Block out;
    if (depth > kMaxDepth) fail("too many nested blocks");
    while (!failed_ && !at("}")) out.push_back(statement(depth));
    expect("}");
    return out;
  }
  Block block(int depth) {
    expect("{");
    return statements_until_brace(depth + 1);
  }

  Stmt statement(int depth) {
    if (accept("parallel")) return loop(VarKind::kParallel, depth);
    if (accept("for")) return loop(VarKind::kLoop, depth);
    if (accept("unroll")) return loop(VarKind::kUnrolled, depth);
    if (accept("let")) return let();
    if (accept("specialise")) return specialise(depth);
    if (accept("if")) return branch(depth);
    if (accept("store")) return store();
    if (accept("prefetch")) return prefetch();
    if (token_.kind != Token::Kind::kName || !is_name(token_.text)) fail("expected a statement or '}'");
    return assignment();
  }

  Stmt loop(VarKind kind, int depth) {
    For s{};
    s.var = add_var(kind);
    expect("in");
    s.lo = expr();
    expect("..");
    s.hi = expr();
    if (accept("step")) s.step = static_cast<int64_t>(number("a step", uint64_t{1} << 40));
    s.body = block(depth);
    return {std::move(s)};
  }
  Stmt let() {
    Let s{};
    s.var = add_var(VarKind::kLet);
    expect("=");
    if (accept("load")) {
      Access table = access();
      expect("below");
      return {LetLoad{s.var, std::move(table), expr()}};
    }
    if (at("min") || at("max")) {
      s.op = take().text == "min" ? LetOp::kMin : LetOp::kMax;
      s.args = list("(", ")");
    } else if (accept("(")) {
      s.op = LetOp::kFloorDiv;
      s.args = {expr()};
      expect(")");
      expect("/");
      s.divisor = static_cast<int64_t>(number("a divisor", uint64_t{1} << 40));
    } else {
      fail("expected min(...), max(...), (...) / number or load");
    }
    return {std::move(s)};
  }
  Stmt specialise(int depth) {
    Specialise s{};
    s.var = add_var(VarKind::kSpecialised);
    expect("in");
    s.lo = signed_number("the lowest value");
    expect("..");
    s.hi = signed_number("the highest value");
    expect("=");
    s.value = expr();
    s.body = block(depth);
    return {std::move(s)};
  }
  Stmt branch(int depth) {
    If s{};
    s.expr = expr();
    if (at("==") || at(">=")) {
      s.op = take().text == "==" ? CondOp::kEqZero : CondOp::kGeZero;
    } else {
      fail("expected '== 0' or '>= 0'");
    }
    number("0", 0);
    s.then_body = block(depth);
    if (accept("else")) s.else_body = block(depth);
    return {std::move(s)};
  }
  Stmt store() {
    Store s;
    s.dst = access();
    expect("=");
    s.src = reg();
    s.mask = optional_mask();
    return {std::move(s)};
  }
  Stmt prefetch() {
    Prefetch s;
    s.locality = spelled(kLocalityNames, token_.text);
    if (s.locality < 0) fail("expected t0, t1 or t2");
    take();
    s.src = access();
    return {std::move(s)};
  }

  Stmt assignment() {
    RegRef dst = reg();
    expect("=");
    const Token op = token_;
    if (op.kind != Token::Kind::kName) fail("expected an operation");
    take();
    if (op.text == "const")
      return {Const{std::move(dst), static_cast<uint32_t>(number("the bits of a constant", 0xffffffffu))}};
    if (op.text == "load") {
      Access src = access();
      return {Load{std::move(dst), std::move(src), optional_mask()}};
    }
    if (op.text == "broadcast") return {Broadcast{std::move(dst), access()}};
    expect("(");
    Stmt s = op.text == "lanes" ? Stmt{LaneMask{std::move(dst), expr()}} : call(op, std::move(dst));
    expect(")");
    return s;
  }

  // The operands of `dst = op(...)`.
  Stmt call(const Token& op, RegRef dst) {
    const int binary = spelled(kBinaryNames, op.text), unary = spelled(kUnaryNames, op.text);
    const int compare = spelled(kCompareNames, op.text), permute = spelled(kPermuteNames, op.text);
    const bool named = op.text == "fma" || op.text == "select" || op.text == kPairsName || op.text == kDotPairsName;
    if (unary < 0 && binary < 0 && compare < 0 && permute < 0 && !named) {
      fail_at(op, "no operation is named " + describe(op) +
                      "; there are const load broadcast lanes fma select pairs dot_pairs" + joined(kBinaryNames) +
                      joined(kUnaryNames) + joined(kCompareNames) + joined(kPermuteNames));
      return {Const{std::move(dst), 0}};
    }
    RegRef a = reg();
    if (unary >= 0) {
      Unary s{static_cast<UnaryOp>(unary), std::move(dst), std::move(a), 0};
      if (s.op == UnaryOp::kShl) s.imm = static_cast<int>(next_number("a shift", 31));
      return {std::move(s)};
    }
    RegRef b = next_reg();
    if (binary >= 0) return {Binary{static_cast<BinaryOp>(binary), std::move(dst), std::move(a), std::move(b)}};
    if (op.text == kPairsName) return {Pairs{std::move(dst), std::move(a), std::move(b)}};
    if (compare >= 0) return {Compare{static_cast<CompareOp>(compare), std::move(dst), std::move(a), std::move(b)}};
    if (permute >= 0) {
      Permute s{static_cast<PermuteOp>(permute), std::move(dst), std::move(a), std::move(b), 0};
      if (s.op == PermuteOp::kGroups) s.imm = static_cast<int>(next_number("a choice of groups", 255));
      return {std::move(s)};
    }
    RegRef c = next_reg();
    if (op.text == "fma") return {Fma{std::move(dst), std::move(a), std::move(b), std::move(c)}};
    if (op.text == kDotPairsName) return {DotPairs{std::move(dst), std::move(a), std::move(b), std::move(c)}};
    return {Select{std::move(dst), std::move(a), std::move(b), std::move(c)}};
  }
  RegRef next_reg() {
    expect(",");
    return reg();
  }
  uint64_t next_number(const std::string& what, uint64_t max) {
    expect(",");
    return number(what, max);
  }

  Lexer lexer_;
  Token token_;
  int line_ = 1;  // of the token before it
  bool failed_ = false;
  std::string error_;
  Kernel kernel_;
  Names vars_, buffers_, registers_;
  std::string_view last_name_;  // the latest declared
};

}  // namespace

Result<Kernel> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace hone::ir
