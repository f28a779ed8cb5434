// From operations to nodes. One method for each handler of ops.inc, in import_*.cpp by kind.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/stablehlo/import.h"
#include "engine/graph/stablehlo/op_table.h"
#include "engine/graph/stablehlo/syntax.h"

namespace hone::graph::stablehlo {

// What an SSA name stands for: a value of the graph, or integers that may be used as sizes, or both. The size of a
// dimension (get_dimension_size) and what is computed from it are never values of the graph unless a number.
struct Entry {
  TensorType type;
  std::optional<ValueId> value;
  std::optional<std::vector<Dim>> numbers;  // scalars and small vectors
};

using Environment = std::unordered_map<std::string_view, std::vector<Entry>>;

class Importer {
 public:
  Importer(const Module& module, const ImportOptions& options) : module_(module), options_(options) {}

  Result<Graph> run();

 private:
  static constexpr int kMaxCalls = 64;
  // After inlining: a call in a call in a call has no bound otherwise.
  static constexpr int kMaxOperations = 100'000;
  static constexpr int64_t kMaxOperands = 1'000'000;  // of all operations: ten for each

  // An operation under way.
  struct Call {
    const Operation& op;
    const OpRow& row;
    std::vector<Entry> operands;
    std::vector<TensorType> results;             // as the text says
    mutable std::vector<std::string_view> read;  // attributes that the handler has asked for

    // Null: not there.
    const Attribute* attribute(std::string_view name) const {
      read.push_back(name);
      return op.attribute(name);
    }
  };
  using Entries = Result<std::vector<Entry>>;

  // ---- import.cpp ----
  Status arguments(const Function& function, Environment* environment);
  Status argument_name(const BlockArgument& argument, size_t index, std::string* name) const;
  Status aliases(const Function& function);
  void header();
  Result<std::vector<Entry>> inlined(const Function& function, std::vector<Entry> arguments, int line);
  Result<std::vector<Entry>> body(const Block& block, Environment* environment);
  Status operation(const Operation& op, Environment* environment);
  Result<std::vector<Entry>> operands(const Operation& op, const Environment& environment) const;
  Entries handle(const Call& call);
  Status check_operands(const Call& call) const;
  Status check_attributes(const Call& call) const;
  Status bind_results(const Call& call, std::vector<Entry> results, size_t nodes_before, Environment* environment);
  void note(std::string text) const;
  // Null: the module has none.
  const Function* find_function(std::string_view name) const {
    const auto at = functions_.find(name);
    return at == functions_.end() ? nullptr : at->second;
  }

  // ---- for handlers ----
  static Status wrong(const Call& call, std::string_view what);
  static Status refused(const Call& call, std::string_view what);
  Result<ValueId> value_of(const Call& call, const Entry& entry);
  Result<std::vector<ValueId>> values(const Call& call);
  Status count(const Call& call, size_t operands) const;
  Result<TensorType> declared(const Call& call) const;  // the one result
  Entries emit(const Call& call, OpKind op, std::vector<ValueId> operands, Attributes attributes = {},
               const TensorType* wanted = nullptr);
  Result<ValueId> emit_value(const Call& call, OpKind op, std::vector<ValueId> operands, Attributes attributes = {},
                             const TensorType* wanted = nullptr);
  Result<ValueId> splat_s32(const Call& call, int64_t value, const Shape& shape);
  Result<ValueId> broadcast_scalar(const Call& call, ValueId scalar, const TensorType& type);
  Result<std::vector<int64_t>> integers(const Call& call, std::string_view attribute) const;
  Result<int64_t> integer(const Call& call, std::string_view attribute) const;
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }

  // ---- handlers ----
#define HONE_STABLEHLO_HANDLER(name) Entries name(const Call& call);
#include "engine/graph/stablehlo/handlers.inc"
#undef HONE_STABLEHLO_HANDLER

  // ---- import_elements.cpp ----
  Status check_i64(const Call& call, const std::optional<std::vector<Dim>>& numbers) const;
  const Constant* constant_of(const Entry& entry) const;
  void note_i64(const Call& call, const Entry& result);
  Status check_erfc() const;

  // ---- import_shapes.cpp ----
  Result<TensorType> computed_type(const Call& call, const Entry& shape) const;

  // ---- import_gather.cpp ----
  struct GatherNumbers;
  Result<GatherNumbers> gather_numbers(const Call& call);
  Status check_gather(const Call& call, GatherNumbers* numbers) const;
  Status sort_gather_dimension(const Call& call, int64_t d, GatherNumbers* numbers) const;
  Result<ValueId> gather_table(const Call& call, GatherNumbers* numbers);
  Result<ValueId> gather_rows(const Call& call, const GatherNumbers& numbers);
  Entries gather_window(const Call& call, const GatherNumbers& numbers,
                        const std::optional<std::vector<int64_t>>& known);
  Result<ValueId> starts_of(const Call& call, const GatherNumbers& numbers, int64_t index);
  Result<ValueId> index_column(const Call& call, const GatherNumbers& numbers, size_t column);
  Result<ValueId> clamped(const Call& call, ValueId indices, int64_t size);
  bool surely_below(ValueId indices, int64_t size) const;

  // ---- import_sums.cpp ----
  Result<std::string_view> reduced_by(const Call& call) const;
  Entries reduce_truth(const Call& call, std::string_view by, std::vector<int64_t> axes);
  Entries top_k_of(const Call& call, int64_t k);
  Entries inline_call(const Call& call, std::string_view function);

  const Module& module_;
  const ImportOptions& options_;
  Graph graph_;
  std::unordered_map<std::string_view, const Function*> functions_;
  std::unordered_map<const Attribute*, Constant> constants_;  // literals that have been decoded
  int calls_ = 0, operations_ = 0;
  int64_t operands_ = 0;
  std::string first_i64_;  // operation that may leave s32, "line 3: stablehlo.add"; and how many there are
  int i64_ = 0;
  struct Erfc {
    ValueId value;
    int line;
  };
  std::vector<Erfc> erfcs_;
};

// A name that the text of a graph can have: other characters become _.
std::string plain_name(std::string_view text);

}  // namespace hone::graph::stablehlo
