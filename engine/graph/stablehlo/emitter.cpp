#include "engine/graph/stablehlo/emitter_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace hone::graph::stablehlo {

namespace {

constexpr int64_t kInlineLiteral = 64;  // elements; more are a blob

std::string_view element_text(DType dtype) {
  return dtype == DType::kF32 ? "f32" : dtype == DType::kS32 ? "i32" : "i1";
}

// Nine digits bring every f32 back; what is not finite is its bits.
std::string number_text(float value) {
  return std::isfinite(value) ? fmt::format("{:.8e}", value) : fmt::format("0x{:08X}", std::bit_cast<uint32_t>(value));
}

std::string element_at(const Constant& c, int64_t i) {
  if (c.type.dtype == DType::kF32) return number_text(c.f32_at(i));
  if (c.type.dtype == DType::kS32) return std::to_string(c.s32_at(i));
  return c.u8_at(i) == 0 ? "false" : "true";
}

void nested(const Constant& c, size_t axis, int64_t* next, std::string* out) {
  if (axis == c.type.dims.size()) {
    *out += element_at(c, (*next)++);
    return;
  }
  *out += '[';
  for (int64_t i = 0; i < c.type.dims[axis].value(); ++i) {
    if (i > 0) *out += ", ";
    nested(c, axis + 1, next, out);
  }
  *out += ']';
}

// In place: weights are some hundred megabytes.
void append_blob(const Constant& c, std::string* out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  *out += "\"0x";
  const size_t begin = out->size();
  out->resize(begin + static_cast<size_t>(c.stored_bytes()) * 2);
  char* to = out->data() + begin;
  for (const Bytes piece : c.pieces())
    for (const std::byte b : piece) {
      *to++ = kDigits[static_cast<unsigned>(b) >> 4];
      *to++ = kDigits[static_cast<unsigned>(b) & 15];
    }
  *out += '"';
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_static(); });
}

std::string names(std::span<const Ref> refs) {
  std::string out;
  for (const Ref& r : refs) out += (out.empty() ? "" : ", ") + r.name;
  return out;
}

std::string types(std::span<const Ref> refs) {
  std::string out;
  for (const Ref& r : refs) out += (out.empty() ? "" : ", ") + type_text(r.type);
  return out;
}

}  // namespace

std::string type_text(const TensorType& type) {
  std::string text = "tensor<";
  for (const Dim& d : type.dims) text += (d.is_static() ? std::to_string(d.value()) : std::string("?")) + "x";
  return fmt::format("{}{}>", text, element_text(type.dtype));
}

std::string list_text(std::span<const int64_t> numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

void append_literal(const Constant& c, std::string* out) {
  const int64_t elements = c.type.elements();
  *out += "dense<";
  if (elements > 0 && c.splat) {
    *out += element_at(c, 0);
  } else if (elements > kInlineLiteral && c.type.dtype != DType::kU8) {
    append_blob(c, out);
  } else if (elements > 0) {
    int64_t next = 0;
    nested(c, 0, &next, out);
  }
  *out += '>';
}

void Emitter::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Ref Emitter::line(std::string_view after_equals, TensorType type) {
  Ref ref{fmt::format("%{}", next_++), std::move(type)};
  text_ += fmt::format("    {} = {}\n", ref.name, after_equals);
  return ref;
}

void Emitter::name_last(std::string_view quoted_name) {
  if (text_.empty()) return;
  text_.pop_back();
  text_ += fmt::format(" loc({})\n", quoted_name);
}

// ---- sizes ----

void Emitter::define_symbol(const std::string& symbol, Ref scalar) { symbols_[symbol] = {std::move(scalar), -1}; }

void Emitter::define_symbol(const std::string& symbol, Ref argument, int dimension) {
  symbols_.try_emplace(symbol, Source{std::move(argument), dimension});
}

Ref Emitter::shared_constant(const std::string& literal, TensorType type) {
  const std::string said = fmt::format("stablehlo.constant {} : {}", literal, type_text(type));
  const auto at = constants_.find(said);
  if (at != constants_.end()) return at->second;
  return constants_.emplace(said, line(said, std::move(type))).first->second;
}

Ref Emitter::size(const Dim& dim) {
  const TensorType scalar{DType::kS32, {}};
  if (dim.is_static()) return integer(dim.value());
  const std::string key = to_string(dim);
  if (const auto at = sizes_.find(key); at != sizes_.end()) return at->second;
  Ref sum;
  for (const auto& [symbol, factor] : dim.terms()) {
    const auto at = symbols_.find(symbol);
    if (at == symbols_.end()) {
      fail(unsupported(fmt::format(
          "the size {} is open and no input has a dimension that says what {} is: give its size", key, symbol)));
      return integer(0);
    }
    const Source& source = at->second;
    Ref term = source.dimension < 0
                   ? source.ref
                   : line(fmt::format("stablehlo.get_dimension_size {}, dim = {} : ({}) -> tensor<i32>",
                                      source.ref.name, source.dimension, type_text(source.ref.type)),
                          scalar);
    if (factor != 1) term = mul(term, integer(factor));
    sum = sum.name.empty() ? term : add(sum, term);
  }
  if (dim.is_unknown()) fail(unsupported("a size is unknown: run shape inference first"));
  if (dim.value() != 0) sum = add(sum, integer(dim.value()));
  return sizes_.emplace(key, sum).first->second;
}

Ref Emitter::shape_operand(const Shape& shape) {
  std::string key;
  for (const Dim& d : shape) key += to_string(d) + ",";
  if (const auto at = shapes_.find(key); at != shapes_.end()) return at->second;
  std::vector<Ref> parts;
  for (const Dim& d : shape) {
    if (d.is_static())
      parts.push_back(integer(d.value(), {1}));
    else
      parts.push_back(reshape(size(d), {1}));
  }
  return shapes_.emplace(key, parts.size() == 1 ? parts[0] : concatenate(parts, 0)).first->second;
}

// ---- elements ----

Ref Emitter::constant(const Constant& c) {
  Ref ref{fmt::format("%{}", next_++), c.type};
  text_ += fmt::format("    {} = stablehlo.constant ", ref.name);
  append_literal(c, &text_);
  text_ += fmt::format(" : {}\n", type_text(c.type));
  return ref;
}

Ref Emitter::number(float value, const Shape& shape) {
  const Ref scalar = shared_constant(fmt::format("dense<{}>", number_text(value)), {DType::kF32, {}});
  return shape.empty() ? scalar : broadcast(scalar, {}, shape);
}

Ref Emitter::integer(int64_t value, const Shape& shape) {
  return shared_constant(fmt::format("dense<{}>", value), {DType::kS32, shape});
}

Ref Emitter::unary(std::string_view op, const Ref& x) {
  return line(fmt::format("{} {} : {}", op, x.name, type_text(x.type)), x.type);
}

Ref Emitter::binary(std::string_view op, const Ref& a, const Ref& b) {
  return line(fmt::format("{} {}, {} : {}", op, a.name, b.name, type_text(a.type)), a.type);
}

Ref Emitter::compare(std::string_view direction, const Ref& a, const Ref& b) {
  const std::string_view kind = a.type.dtype == DType::kF32   ? "FLOAT"
                                : a.type.dtype == DType::kS32 ? "SIGNED"
                                                              : "UNSIGNED";
  TensorType type{DType::kU8, a.type.dims};
  return line(fmt::format("stablehlo.compare {}, {}, {}, {} : ({}, {}) -> {}", direction, a.name, b.name, kind,
                          type_text(a.type), type_text(b.type), type_text(type)),
              type);
}

Ref Emitter::select(const Ref& condition, const Ref& a, const Ref& b) {
  return line(fmt::format("stablehlo.select {}, {}, {} : {}, {}", condition.name, a.name, b.name,
                          type_text(condition.type), type_text(a.type)),
              a.type);
}

Ref Emitter::convert(const Ref& x, DType to) {
  if (x.type.dtype == to) return x;
  const TensorType type{to, x.type.dims};
  return line(fmt::format("stablehlo.convert {} : ({}) -> {}", x.name, type_text(x.type), type_text(type)), type);
}

Ref Emitter::erf(const Ref& x) {
  return line(fmt::format("chlo.erf {} : {} -> {}", x.name, type_text(x.type), type_text(x.type)), x.type);
}

// ---- shapes ----

Ref Emitter::iota(DType dtype, const Shape& shape, int axis) {
  const TensorType type{dtype, shape};
  if (is_static(shape)) return line(fmt::format("stablehlo.iota dim = {} : {}", axis, type_text(type)), type);
  const Ref sizes = shape_operand(shape);
  return line(fmt::format("stablehlo.dynamic_iota {}, dim = {} : ({}) -> {}", sizes.name, axis, type_text(sizes.type),
                          type_text(type)),
              type);
}

Ref Emitter::broadcast(const Ref& x, const Ints& dims, const Shape& shape) {
  const TensorType type{x.type.dtype, shape};
  if (is_static(shape))
    return line(fmt::format("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x.name, list_text(dims),
                            type_text(x.type), type_text(type)),
                type);
  const Ref sizes = shape_operand(shape);
  return line(fmt::format("stablehlo.dynamic_broadcast_in_dim {}, {}, dims = {} : ({}, {}) -> {}", x.name, sizes.name,
                          list_text(dims), type_text(x.type), type_text(sizes.type), type_text(type)),
              type);
}

Ref Emitter::reshape(const Ref& x, const Shape& shape) {
  if (x.type.dims == shape) return x;
  const TensorType type{x.type.dtype, shape};
  if (is_static(shape))
    return line(fmt::format("stablehlo.reshape {} : ({}) -> {}", x.name, type_text(x.type), type_text(type)), type);
  const Ref sizes = shape_operand(shape);
  return line(fmt::format("stablehlo.dynamic_reshape {}, {} : ({}, {}) -> {}", x.name, sizes.name, type_text(x.type),
                          type_text(sizes.type), type_text(type)),
              type);
}

Ref Emitter::transpose(const Ref& x, const Ints& perm) {
  TensorType type{x.type.dtype, {}};
  for (const int64_t p : perm) type.dims.push_back(x.dim(static_cast<int>(p)));
  return line(fmt::format("stablehlo.transpose {}, dims = {} : ({}) -> {}", x.name, list_text(perm), type_text(x.type),
                          type_text(type)),
              type);
}

Ref Emitter::slice(const Ref& x, const Ints& start, const Ints& limit, const Ints& stride) {
  TensorType type{x.type.dtype, {}};
  Shape limits;
  std::string ranges;
  for (size_t i = 0; i < start.size(); ++i) {
    limits.push_back(limit[i] >= 0 ? Dim(limit[i]) : x.type.dims[i]);
    const Dim length = limits[i] - Dim(start[i]);
    type.dims.push_back(length.is_static() ? Dim((length.value() + stride[i] - 1) / stride[i]) : length);
    ranges += fmt::format("{}{}:{}", i > 0 ? ", " : "", start[i], to_string(limits[i]));
    if (stride[i] != 1) ranges += fmt::format(":{}", stride[i]);
  }
  if (is_static(limits))
    return line(fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name, ranges, type_text(x.type), type_text(type)),
                type);
  // Bounds that are computed are operands, all of them.
  const Ref operands[] = {x, shape_operand({start.begin(), start.end()}), shape_operand(limits),
                          shape_operand({stride.begin(), stride.end()})};
  return line(
      fmt::format("stablehlo.real_dynamic_slice {} : ({}) -> {}", names(operands), types(operands), type_text(type)),
      type);
}

Ref Emitter::slice_last(const Ref& x, int64_t start, int64_t limit) {
  Ints first(x.type.dims.size(), 0), end(x.type.dims.size(), -1);
  first.back() = start;
  end.back() = limit;
  return slice(x, first, end, Ints(x.type.dims.size(), 1));
}

Ref Emitter::concatenate(std::span<const Ref> parts, int axis) {
  TensorType type = parts[0].type;
  Dim& length = type.dims[static_cast<size_t>(axis)];
  for (const Ref& part : parts.subspan(1)) length += part.dim(axis);
  return line(
      fmt::format("stablehlo.concatenate {}, dim = {} : ({}) -> {}", names(parts), axis, types(parts), type_text(type)),
      type);
}

Ref Emitter::gather_rows(const Ref& table, const Ref& indices) {
  TensorType type{table.type.dtype, indices.type.dims};
  Ints offset, sizes{1};
  for (int d = 1; d < table.type.rank(); ++d) {
    if (!table.dim(d).is_static()) fail(unsupported("rows of an open size cannot be gathered: give the size"));
    offset.push_back(indices.type.rank() + d - 1);
    sizes.push_back(table.dim(d).value());
    type.dims.push_back(table.dim(d));
  }
  return line(fmt::format("\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, "
                          "collapsed_slice_dims = [0], "
                          "start_index_map = [0], index_vector_dim = {}>, indices_are_sorted = false, slice_sizes = "
                          "array<i64: {}>}}> : ({}, {}) -> {}",
                          table.name, indices.name, list_text(offset), indices.type.rank(), fmt::join(sizes, ", "),
                          type_text(table.type), type_text(indices.type), type_text(type)),
              type);
}

Ref Emitter::dynamic_slice(std::span<const Ref> operands, const Ints& sizes) {
  const TensorType type{operands[0].type.dtype, {sizes.begin(), sizes.end()}};
  return line(fmt::format("stablehlo.dynamic_slice {}, sizes = {} : ({}) -> {}", names(operands), list_text(sizes),
                          types(operands), type_text(type)),
              type);
}

Ref Emitter::dynamic_update_slice(std::span<const Ref> operands) {
  const TensorType& type = operands[0].type;
  return line(
      fmt::format("stablehlo.dynamic_update_slice {} : ({}) -> {}", names(operands), types(operands), type_text(type)),
      type);
}

// ---- sums ----

Ref Emitter::reduce(const Ref& x, std::string_view kind, const Ints& axes) {
  const bool sum = kind == "sum", max = kind == "max";
  TensorType type{x.type.dtype, {}};
  for (int d = 0; d < x.type.rank(); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) type.dims.push_back(x.dim(d));
  const Ref init = x.type.dtype == DType::kF32 ? number(sum   ? 0.0f
                                                        : max ? -INFINITY
                                                              : INFINITY)
                                               : integer(sum   ? 0
                                                         : max ? INT32_MIN
                                                               : INT32_MAX);
  return line(fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = {} : ({}, {}) -> {}",
                          x.name, init.name,
                          sum   ? "add"
                          : max ? "maximum"
                                : "minimum",
                          list_text(axes), type_text(x.type), type_text(init.type), type_text(type)),
              type);
}

Ref Emitter::dot(const Ref& a, const Ref& b, const Ints& a_batch, const Ints& b_batch, const Ints& a_contract,
                 const Ints& b_contract) {
  TensorType type{DType::kF32, {}};
  const auto has = [](const Ints& list, int d) { return std::find(list.begin(), list.end(), d) != list.end(); };
  for (const int64_t d : a_batch) type.dims.push_back(a.dim(static_cast<int>(d)));
  for (int d = 0; d < a.type.rank(); ++d)
    if (!has(a_batch, d) && !has(a_contract, d)) type.dims.push_back(a.dim(d));
  for (int d = 0; d < b.type.rank(); ++d)
    if (!has(b_batch, d) && !has(b_contract, d)) type.dims.push_back(b.dim(d));
  const std::string batching =
      a_batch.empty() ? "" : fmt::format("batching_dims = {} x {}, ", list_text(a_batch), list_text(b_batch));
  return line(
      fmt::format(
          "stablehlo.dot_general {}, {}, {}contracting_dims = {} x {}, precision = [DEFAULT, DEFAULT] : ({}, {}) -> {}",
          a.name, b.name, batching, list_text(a_contract), list_text(b_contract), type_text(a.type), type_text(b.type),
          type_text(type)),
      type);
}

std::vector<Ref> Emitter::top_k(const Ref& x, int64_t k) {
  TensorType values = x.type;
  values.dims.back() = Dim(k);
  TensorType indices{DType::kS32, values.dims};
  const Ref first{fmt::format("%{}", next_++), values}, second{fmt::format("%{}", next_++), indices};
  text_ += fmt::format("    {}, {} = chlo.top_k({}, k = {}) : {} -> ({}, {})\n", first.name, second.name, x.name, k,
                       type_text(x.type), type_text(values), type_text(indices));
  return {first, second};
}

}  // namespace hone::graph::stablehlo
