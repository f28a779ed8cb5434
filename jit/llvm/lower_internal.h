// LoopIR -> LLVM IR. Shared by the files of this folder that include LLVM headers (they are slow to compile, so there
// are few).
//
// The lowering does itself what LLVM's loop passes would have to rediscover: unrolling and specialisation are expanded
// with a constant environment, loops come out rotated, invariant integers are placed at the loop level they depend on,
// and each group of accesses that differ by constants gets one pointer that is advanced by the loop. So no loop pass
// runs afterwards.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/isa.h"
#include "engine/base/status.h"
#include "jit/llvm/poly.h"
#include "jit/llvm/target_internal.h"
#include "kernels/ir/ir.h"

namespace hone::jit {

// Raised whenever the emitted code may change.
inline constexpr int kLlvmLoweringVersion = 2;

class LlvmLowering {
 public:
  LlvmLowering(const ir::Kernel& kernel, const IsaInfo& isa, llvm::Module& module);

  // Adds the function `symbol` with the signature of ir::TaskFn to the module.
  Status lower(const std::string& symbol);

 private:
  // The function body, one iteration of a serial loop around the statement at hand, or what follows a loaded index.
  struct Level {
    llvm::BasicBlock* place = nullptr;      // values that depend on nothing deeper go before its terminator
    const ir::For* loop = nullptr;          // null where there is no loop
    ir::Affine lo;                          // resolved
    llvm::BasicBlock* preheader = nullptr;  // of the loop
    struct Induction {
      llvm::PHINode* phi;
      llvm::Value* step;  // in bytes for pointers
    };
    std::vector<Induction> inductions;
    std::map<Poly, llvm::Value*> integers;
    std::map<std::pair<ir::BufferId, Poly>, llvm::Value*> pointers;
  };

  // ---- lower_llvm.cpp: control flow
  Status check_registers() const;
  void block(const ir::Block& statements);
  void statement(const ir::Stmt& stmt);
  void for_loop(const ir::For& loop);
  void unrolled(const ir::For& loop);
  void serial(const ir::For& loop, const ir::Affine& lo, const ir::Affine& hi);
  void let(const ir::Let& node);
  void let_load(const ir::LetLoad& node);
  void define(ir::VarId let, int level, llvm::Value* value);
  void specialise(const ir::Specialise& node);
  void conditional(const ir::If& node);
  void bind(ir::VarId v, std::optional<ir::Affine> value) { env_[static_cast<size_t>(v)] = std::move(value); }
  void fail(Status status);
  bool failed() const { return !status_.ok(); }

  // ---- address_llvm.cpp: integers and pointers
  ir::Affine resolve(const ir::Affine& e) const;
  int level_of(ir::VarId v) const { return v < 0 ? 0 : var_level_[static_cast<size_t>(v)]; }
  int level_of(const Poly& p) const;
  llvm::Value* integer(const ir::Affine& resolved) { return integer(Poly(resolved)); }
  llvm::Value* integer(const Poly& p);
  llvm::Value* variable(ir::VarId v);
  llvm::Value* argument(llvm::Value* array, size_t index, llvm::Type* type, const std::string& name);
  llvm::Value* base(ir::BufferId id);
  llvm::Value* pointer(ir::BufferId id, const Poly& bytes);
  llvm::Value* moving_pointer(ir::BufferId id, const Poly& bytes, int depth);
  llvm::Value* induction(int level, llvm::Value* init, llvm::Value* step, const std::string& name);
  llvm::Value* address(const ir::Access& access);

  // ---- ops_llvm.cpp: registers and vector operations
  llvm::Type* type_of(const ir::RegType& t);
  const ir::RegType& reg_type(const ir::RegRef& r) const { return kernel_.registers[static_cast<size_t>(r.reg)].type; }
  llvm::AllocaInst* slot(const ir::RegRef& r);
  llvm::Value* get(const ir::RegRef& r);
  void set(const ir::RegRef& r, llvm::Value* v);
  llvm::Value* mask_of_bits(llvm::Value* bits, int lanes);
  void emit(const ir::Const& n);
  void emit(const ir::Load& n);
  void emit(const ir::Broadcast& n);
  void emit(const ir::Store& n);
  void emit(const ir::Binary& n);
  void emit(const ir::Fma& n);
  void emit(const ir::Pairs& n);
  void emit(const ir::DotPairs& n);
  void set_pairs(const ir::RegRef& r, llvm::Value* v);
  void emit(const ir::Unary& n);
  void emit(const ir::Compare& n);
  void emit(const ir::Select& n);
  void emit(const ir::Permute& n);
  void emit(const ir::LaneMask& n);
  void emit(const ir::Prefetch& n);
  void emit(const ir::For& n) { for_loop(n); }
  void emit(const ir::Let& n) { let(n); }
  void emit(const ir::LetLoad& n) { let_load(n); }
  void emit(const ir::Specialise& n) { specialise(n); }
  void emit(const ir::If& n) { conditional(n); }
  void masked_store(const ir::Store& n, llvm::Value* where, llvm::Value* value);
  llvm::Value* masked_load(const ir::Load& n, llvm::Value* where);
  DType element(const ir::Access& a) const { return kernel_.buffers[static_cast<size_t>(a.buffer)].dtype; }
  llvm::Value* load_halves(DType dtype, llvm::Value* where, int lanes);

  const ir::Kernel& kernel_;
  const IsaInfo& isa_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  const std::unique_ptr<TargetOps> target_;
  llvm::Function* function_ = nullptr;

  std::vector<std::optional<ir::Affine>> env_;  // variables that are known within this copy of the code, resolved
  std::vector<int> var_level_;  // index into levels_; copies of lets have numbers behind the variables of the kernel
  std::vector<llvm::Value*> let_values_;  // by copy
  std::vector<size_t> ordinal_;           // of a parameter, parallel variable or buffer argument in its array
  std::vector<size_t> buffer_ordinal_;
  std::vector<int64_t> workspace_offset_;
  std::vector<Level> levels_;
  std::vector<std::vector<llvm::AllocaInst*>> slots_;
  std::vector<llvm::AllocaInst*> allocas_;
  int64_t expanded_ = 0;
  int shuffles_ = 0;
  std::set<llvm::BasicBlock*> keep_apart_;  // not to be merged into their predecessor
  Status status_;
};

}  // namespace hone::jit
