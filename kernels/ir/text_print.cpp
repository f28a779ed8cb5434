// LoopIR -> text, and the content hash of the text.
//
// The text is canonical: terms of an index are written in the order in which their variables are declared in the text
// (not by VarId, which depends on who built the kernel), so parsing and printing again gives the same text.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "kernels/ir/spelling_internal.h"
#include "kernels/ir/text.h"

namespace hone::ir {
namespace {

std::string hex(uint64_t value, int digits) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "0x";
  for (int i = digits - 1; i >= 0; --i) out += kDigits[(value >> (4 * i)) & 15];
  return out;
}

template <size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, int index) {
  return index >= 0 && static_cast<size_t>(index) < N ? names[static_cast<size_t>(index)] : "?";
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), rank_(kernel.vars.size(), kUnranked) {
    for (VarId v : kernel.params()) declare(v);
    rank(kernel.body);
  }

  std::string kernel() {
    out_ = "kernel " + kernel_.name + " {\n";
    for (VarId v : kernel_.params()) out_ += "  param " + var(v) + "\n";
    for (const Buffer& b : kernel_.buffers) {
      out_ += "  " + std::string(name_of(kScopeNames, static_cast<int>(b.scope))) + " " + b.name + ": " +
              std::string(dtype_name(b.dtype)) + list(b.extents) + " stride " + list(b.strides) + " align " +
              std::to_string(b.align) + "\n";
    }
    for (const Register& r : kernel_.registers) {
      out_ += "  reg " + r.name + ": " + type(r.type);
      if (!r.dims.empty()) out_ += list(std::vector<Affine>(r.dims.begin(), r.dims.end()));
      out_ += "\n";
    }
    block(kernel_.body, 1);
    return std::move(out_) + "}\n";
  }

  std::string head(const Stmt& s) {
    return std::visit([&](const auto& node) { return text(node); }, s.node);
  }

  std::string affine(const Affine& e) const {
    std::vector<Affine::Term> terms = e.terms();
    std::stable_sort(terms.begin(), terms.end(),
                     [&](const auto& a, const auto& b) { return rank_of(a.var) < rank_of(b.var); });
    std::string out;
    auto add = [&](bool negative, const std::string& what) {
      if (out.empty()) {
        out = (negative ? "-" : "") + what;
      } else {
        out += (negative ? " - " : " + ") + what;
      }
    };
    auto add_constant = [&] {
      const uint64_t c = static_cast<uint64_t>(e.constant());
      add(e.constant() < 0, std::to_string(e.constant() < 0 ? 0 - c : c));
    };
    // "4 - i" reads better than "-i + 4".
    const bool constant_first = terms.empty() || (terms.front().coef < 0 && e.constant() > 0);
    if (constant_first) add_constant();
    for (const Affine::Term& t : terms) {
      const uint64_t c = t.coef < 0 ? 0 - static_cast<uint64_t>(t.coef) : static_cast<uint64_t>(t.coef);
      add(t.coef < 0, (c == 1 ? "" : std::to_string(c) + "*") + var(t.var));
    }
    if (!constant_first && e.constant() != 0) add_constant();
    return out;
  }

 private:
  static constexpr int kUnranked = 1 << 30;

  void declare(VarId v) {
    if (v >= 0 && static_cast<size_t>(v) < rank_.size() && rank_[static_cast<size_t>(v)] == kUnranked)
      rank_[static_cast<size_t>(v)] = next_rank_++;
  }
  void rank(const Block& statements) {
    for (const Stmt& s : statements) {
      if (const For* f = std::get_if<For>(&s.node)) {
        declare(f->var);
        rank(f->body);
      } else if (const Let* l = std::get_if<Let>(&s.node)) {
        declare(l->var);
      } else if (const LetLoad* x = std::get_if<LetLoad>(&s.node)) {
        declare(x->var);
      } else if (const Specialise* p = std::get_if<Specialise>(&s.node)) {
        declare(p->var);
        rank(p->body);
      } else if (const If* c = std::get_if<If>(&s.node)) {
        rank(c->then_body);
        rank(c->else_body);
      }
    }
  }
  int rank_of(VarId v) const {
    return v >= 0 && static_cast<size_t>(v) < rank_.size() ? rank_[static_cast<size_t>(v)] : kUnranked;
  }

  std::string var(VarId v) const {
    const bool known = v >= 0 && static_cast<size_t>(v) < kernel_.vars.size();
    return known ? kernel_.vars[static_cast<size_t>(v)].name : "?var" + std::to_string(v);
  }
  std::string list(const std::vector<Affine>& items) const {
    std::string out = "[";
    for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + affine(items[i]);
    return out + "]";
  }
  static std::string type(const RegType& t) {
    return (t.mask ? "mask" : std::string(dtype_name(t.dtype)) + "x") + std::to_string(t.lanes);
  }
  std::string reg(const RegRef& r) const {
    const bool known = r.reg >= 0 && static_cast<size_t>(r.reg) < kernel_.registers.size();
    const std::string name =
        known ? kernel_.registers[static_cast<size_t>(r.reg)].name : "?reg" + std::to_string(r.reg);
    return r.index.empty() ? name : name + list(r.index);
  }
  std::string access(const Access& a) const {
    const bool known = a.buffer >= 0 && static_cast<size_t>(a.buffer) < kernel_.buffers.size();
    return (known ? kernel_.buffers[static_cast<size_t>(a.buffer)].name : "?buffer" + std::to_string(a.buffer)) +
           list(a.index);
  }
  std::string mask(const RegRef& m) const { return m.valid() ? " if " + reg(m) : ""; }

  // The value of a constant as a comment: exact bits are for machines.
  std::string meaning(const Const& s) const {
    const bool known = s.dst.reg >= 0 && static_cast<size_t>(s.dst.reg) < kernel_.registers.size();
    char buffer[64];
    std::to_chars_result end{};
    if (known && kernel_.registers[static_cast<size_t>(s.dst.reg)].type.dtype == DType::kF32) {
      end = std::to_chars(buffer, buffer + sizeof buffer, std::bit_cast<float>(s.bits));
    } else {
      end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<int32_t>(s.bits));
    }
    return std::string(buffer, end.ptr);
  }

  std::string text(const Const& s) const { return reg(s.dst) + " = const " + hex(s.bits, 8) + "  # " + meaning(s); }
  std::string text(const Load& s) const { return reg(s.dst) + " = load " + access(s.src) + mask(s.mask); }
  std::string text(const Broadcast& s) const { return reg(s.dst) + " = broadcast " + access(s.src); }
  std::string text(const Store& s) const { return "store " + access(s.dst) + " = " + reg(s.src) + mask(s.mask); }
  std::string text(const Binary& s) const {
    return call(s.dst, name_of(kBinaryNames, static_cast<int>(s.op)), {reg(s.a), reg(s.b)});
  }
  std::string text(const Fma& s) const { return call(s.dst, "fma", {reg(s.a), reg(s.b), reg(s.c)}); }
  std::string text(const Pairs& s) const { return call(s.dst, kPairsName, {reg(s.a), reg(s.b)}); }
  std::string text(const DotPairs& s) const { return call(s.dst, kDotPairsName, {reg(s.a), reg(s.b), reg(s.c)}); }
  std::string text(const Unary& s) const {
    const std::string_view name = name_of(kUnaryNames, static_cast<int>(s.op));
    if (s.op == UnaryOp::kShl) return call(s.dst, name, {reg(s.src), std::to_string(s.imm)});
    return call(s.dst, name, {reg(s.src)});
  }
  std::string text(const Compare& s) const {
    return call(s.dst, name_of(kCompareNames, static_cast<int>(s.op)), {reg(s.a), reg(s.b)});
  }
  std::string text(const Select& s) const { return call(s.dst, "select", {reg(s.mask), reg(s.a), reg(s.b)}); }
  std::string text(const Permute& s) const {
    const std::string_view name = name_of(kPermuteNames, static_cast<int>(s.op));
    if (s.op == PermuteOp::kGroups)
      return call(s.dst, name, {reg(s.a), reg(s.b), hex(static_cast<uint32_t>(s.imm), 2)});
    return call(s.dst, name, {reg(s.a), reg(s.b)});
  }
  std::string text(const LaneMask& s) const { return reg(s.dst) + " = lanes(" + affine(s.count) + ")"; }
  std::string text(const Prefetch& s) const {
    return "prefetch " + std::string(name_of(kLocalityNames, s.locality)) + " " + access(s.src);
  }
  std::string text(const For& s) const {
    const bool known = s.var >= 0 && static_cast<size_t>(s.var) < kernel_.vars.size();
    const VarKind kind = known ? kernel_.vars[static_cast<size_t>(s.var)].kind : VarKind::kLoop;
    const char* word = kind == VarKind::kParallel ? "parallel " : kind == VarKind::kUnrolled ? "unroll " : "for ";
    return word + var(s.var) + " in " + affine(s.lo) + ".." + affine(s.hi) + " step " + std::to_string(s.step) + " {";
  }
  std::string text(const Let& s) const {
    const std::string name = "let " + var(s.var) + " = ";
    if (s.op == LetOp::kFloorDiv)
      return name + "(" + (s.args.empty() ? "?" : affine(s.args.front())) + ") / " + std::to_string(s.divisor);
    std::string args = list(s.args);
    args.front() = '(';
    args.back() = ')';
    return name + (s.op == LetOp::kMin ? "min" : "max") + args;
  }
  std::string text(const LetLoad& s) const {
    return "let " + var(s.var) + " = load " + access(s.table) + " below " + affine(s.below);
  }
  std::string text(const Specialise& s) const {
    return "specialise " + var(s.var) + " in " + std::to_string(s.lo) + ".." + std::to_string(s.hi) + " = " +
           affine(s.value) + " {";
  }
  std::string text(const If& s) const {
    return "if " + affine(s.expr) + (s.op == CondOp::kEqZero ? " == 0 {" : " >= 0 {");
  }

  std::string call(const RegRef& dst, std::string_view name, std::initializer_list<std::string> args) const {
    std::string out = reg(dst) + " = " + std::string(name) + "(";
    bool first = true;
    for (const std::string& a : args) {
      out += (first ? "" : ", ") + a;
      first = false;
    }
    return out + ")";
  }

  void block(const Block& statements, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    for (const Stmt& s : statements) {
      out_ += indent + head(s) + "\n";
      const Block* body = nullptr;
      if (const For* f = std::get_if<For>(&s.node)) body = &f->body;
      if (const Specialise* p = std::get_if<Specialise>(&s.node)) body = &p->body;
      const If* branch = std::get_if<If>(&s.node);
      if (branch != nullptr) body = &branch->then_body;
      if (body == nullptr) continue;
      block(*body, depth + 1);
      if (branch != nullptr && !branch->else_body.empty()) {
        out_ += indent + "} else {\n";
        block(branch->else_body, depth + 1);
      }
      out_ += indent + "}\n";
    }
  }

  const Kernel& kernel_;
  std::vector<int> rank_;  // by VarId: position of its declaration in the text
  int next_rank_ = 0;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).kernel(); }

std::string print_head(const Kernel& kernel, const Stmt& statement) {
  std::string head = Printer(kernel).head(statement);
  if (head.ends_with(" {")) head.resize(head.size() - 2);
  if (const size_t comment = head.find("  #"); comment != std::string::npos) head.resize(comment);
  return head;
}

std::string print_affine(const Kernel& kernel, const Affine& e) { return Printer(kernel).affine(e); }

uint64_t hash(const Kernel& kernel) {
  const std::string text = print(kernel);
  uint64_t h = 0xcbf29ce484222325u;  // FNV-1a
  for (size_t i = text.find('\n'); i < text.size(); ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u;
  // FNV's high bits mix poorly; the finaliser of splitmix64 spreads them for use as a table index.
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

}  // namespace hone::ir
