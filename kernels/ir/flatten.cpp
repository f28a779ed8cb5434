// Kernel -> FlatProgram. See flat_internal.h.
#include "kernels/ir/flat_internal.h"
#include "kernels/ir/task.h"

namespace hone::ir {
namespace {

class Flattener {
 public:
  explicit Flattener(const Kernel& kernel) : kernel_(kernel) {}

  FlatProgram run() {
    declare();
    const TaskNest nest = task_nest(kernel_);
    for (const For* loop : nest.loops) out_.parallel.push_back(loop->var);
    block(*nest.body);
    emit({.code = FlatCode::kEnd});
    return std::move(out_);
  }

 private:
  void declare() {
    out_.values = static_cast<int32_t>(kernel_.vars.size());
    out_.params = kernel_.params();
    out_.workspace_offset = workspace_offsets(kernel_);
    out_.argument_of.assign(kernel_.buffers.size(), -1);
    int32_t next = 0;
    for (BufferId b : kernel_.arguments()) out_.argument_of[static_cast<size_t>(b)] = next++;
    for (const Register& r : kernel_.registers) {
      base_.push_back(out_.slots);
      int64_t size = 1;
      for (int64_t d : r.dims) size *= d;
      out_.slots += static_cast<int32_t>(size);
    }
  }

  size_t emit(FlatOp op) {
    out_.ops.push_back(op);
    return out_.ops.size() - 1;
  }
  int32_t here() const { return static_cast<int32_t>(out_.ops.size()); }

  FlatLinear linear(const Affine& e) {
    FlatLinear l{e.constant(), static_cast<int32_t>(out_.terms.size()), static_cast<int32_t>(e.terms().size())};
    out_.terms.insert(out_.terms.end(), e.terms().begin(), e.terms().end());
    return l;
  }

  FlatLinear slot(const RegRef& r) {
    if (!r.valid()) return {};
    const Register& reg = kernel_.registers[static_cast<size_t>(r.reg)];
    Affine at;
    for (size_t d = 0; d < r.index.size(); ++d) {
      at *= reg.dims[d];
      at += r.index[d];
    }
    return linear(at + base_[static_cast<size_t>(r.reg)]);
  }

  int lanes(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type.lanes; }
  bool is_s32(const RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type.dtype == DType::kS32; }

  DType element(const Access& a) const { return kernel_.buffers[static_cast<size_t>(a.buffer)].dtype; }
  int32_t address(const Access& access) {
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
    FlatAddress out{.buffer = access.buffer,
                    .first_product = static_cast<int32_t>(out_.products.size()),
                    .width = static_cast<int32_t>(dtype_bytes(buffer.dtype)),
                    .offset = {}};
    Affine offset;
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (buffer.strides[d].is_constant()) {
        offset += access.index[d] * buffer.strides[d].constant();
      } else {
        out_.products.push_back({buffer.strides[d].terms().front().var, linear(access.index[d])});
        ++out.products;
      }
    }
    out.offset = linear(offset);
    out_.addresses.push_back(out);
    return static_cast<int32_t>(out_.addresses.size() - 1);
  }

  void block(const Block& statements) {
    for (const Stmt& s : statements) std::visit([&](const auto& node) { statement(node); }, s.node);
  }

  void statement(const Const& s) {
    emit({.code = FlatCode::kConst, .lanes = lanes(s.dst), .dst = slot(s.dst), .imm = s.bits});
  }
  void statement(const Load& s) {
    FlatCode code = FlatCode::kLoad;
    if (element(s.src) == DType::kU8) code = FlatCode::kLoadU8;
    if (element(s.src) == DType::kBf16) code = FlatCode::kLoadBf16;
    if (element(s.src) == DType::kF16) code = FlatCode::kLoadF16;
    emit({.code = code,
          .masked = s.mask.valid(),
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .c = slot(s.mask),
          .address = address(s.src)});
  }
  void statement(const Broadcast& s) {
    FlatCode code = FlatCode::kBroadcast;
    if (element(s.src) == DType::kBf16) code = FlatCode::kBroadcastBf16;
    if (element(s.src) == DType::kF16) code = FlatCode::kBroadcastF16;
    emit({.code = code, .lanes = lanes(s.dst), .dst = slot(s.dst), .address = address(s.src)});
  }
  void statement(const Store& s) {
    emit({.code = FlatCode::kStore,
          .masked = s.mask.valid(),
          .lanes = lanes(s.src),
          .a = slot(s.src),
          .c = slot(s.mask),
          .address = address(s.dst)});
  }
  void statement(const Binary& s) {
    static constexpr FlatCode kF32[] = {FlatCode::kAdd, FlatCode::kSub, FlatCode::kMul,
                                        FlatCode::kDiv, FlatCode::kMin, FlatCode::kMax};
    FlatCode code = kF32[static_cast<int>(s.op)];
    if (is_s32(s.dst)) code = s.op == BinaryOp::kAdd ? FlatCode::kAddS32 : FlatCode::kSubS32;
    emit({.code = code, .lanes = lanes(s.dst), .dst = slot(s.dst), .a = slot(s.a), .b = slot(s.b)});
  }
  void statement(const Fma& s) {
    emit({.code = FlatCode::kFma,
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.a),
          .b = slot(s.b),
          .c = slot(s.c)});
  }
  void statement(const Pairs& s) {
    emit({.code = FlatCode::kPairs, .lanes = lanes(s.dst), .dst = slot(s.dst), .a = slot(s.a), .b = slot(s.b)});
  }
  void statement(const DotPairs& s) {
    emit({.code = FlatCode::kDotPairs,
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.a),
          .b = slot(s.b),
          .c = slot(s.c)});
  }
  void statement(const Unary& s) {
    static constexpr FlatCode kCodes[] = {FlatCode::kMove,  FlatCode::kNeg,   FlatCode::kAbs,
                                          FlatCode::kRound, FlatCode::kToInt, FlatCode::kToFloat,
                                          FlatCode::kMove,  FlatCode::kShl,   FlatCode::kSqrt};
    emit({.code = kCodes[static_cast<int>(s.op)],
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.src),
          .imm = s.imm});
  }
  void statement(const Compare& s) {
    static constexpr FlatCode kCodes[] = {FlatCode::kLt, FlatCode::kLe, FlatCode::kEq};
    emit({.code = kCodes[static_cast<int>(s.op)],
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.a),
          .b = slot(s.b)});
  }
  void statement(const Select& s) {
    emit({.code = FlatCode::kSelect,
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.a),
          .b = slot(s.b),
          .c = slot(s.mask)});
  }
  void statement(const Permute& s) {
    std::array<int, 16> map{};
    const std::vector<int> lanes_map = permute_lanes(s.op, s.imm, lanes(s.dst));
    for (size_t i = 0; i < lanes_map.size(); ++i) {
      // Registers occupy 16 lanes each, so that b's lanes start at 16 whatever the vector's width.
      map[i] = lanes_map[i] < lanes(s.dst) ? lanes_map[i] : lanes_map[i] - lanes(s.dst) + 16;
    }
    out_.maps.push_back(map);
    emit({.code = FlatCode::kPermute,
          .lanes = lanes(s.dst),
          .dst = slot(s.dst),
          .a = slot(s.a),
          .b = slot(s.b),
          .imm = static_cast<int64_t>(out_.maps.size() - 1)});
  }
  void statement(const LaneMask& s) {
    emit({.code = FlatCode::kLaneMask, .lanes = lanes(s.dst), .dst = slot(s.dst), .a = linear(s.count)});
  }
  void statement(const Prefetch&) {}

  void statement(const For& s) {
    const int32_t bound = out_.values++;
    const size_t enter =
        emit({.code = FlatCode::kLoopEnter, .a = linear(s.lo), .b = linear(s.hi), .var = s.var, .bound = bound});
    block(s.body);
    emit({.code = FlatCode::kLoopNext,
          .var = s.var,
          .bound = bound,
          .target = static_cast<int32_t>(enter + 1),
          .imm = s.step});
    out_.ops[enter].target = here();
  }
  void statement(const Let& s) {
    FlatOp op{.code = s.op == LetOp::kMin ? FlatCode::kLetMin : FlatCode::kLetMax, .dst = {}, .a = {}, .var = s.var};
    if (s.op == LetOp::kFloorDiv) {
      op.code = FlatCode::kLetFloorDiv;
      op.a = linear(s.args.front());
      op.imm = s.divisor;
    } else {
      std::vector<FlatLinear> args;
      for (const Affine& e : s.args) args.push_back(linear(e));
      op.bound = static_cast<int32_t>(out_.lets.size());
      op.target = static_cast<int32_t>(args.size());
      out_.lets.insert(out_.lets.end(), args.begin(), args.end());
    }
    emit(op);
  }
  void statement(const LetLoad& s) { emit({.code = FlatCode::kLetLoad, .address = address(s.table), .var = s.var}); }
  void statement(const Specialise& s) {
    emit({.code = FlatCode::kSet, .a = linear(s.value), .var = s.var});
    block(s.body);
  }
  void statement(const If& s) {
    const size_t test = emit({.code = s.op == CondOp::kEqZero ? FlatCode::kJumpUnlessZero : FlatCode::kJumpUnlessGeZero,
                              .a = linear(s.expr)});
    block(s.then_body);
    const size_t skip = emit({.code = FlatCode::kJump});
    out_.ops[test].target = here();
    block(s.else_body);
    out_.ops[skip].target = here();
  }

  const Kernel& kernel_;
  FlatProgram out_;
  std::vector<int64_t> base_;  // first slot of each register
};

}  // namespace

FlatProgram flatten(const Kernel& kernel) { return Flattener(kernel).run(); }

}  // namespace hone::ir
