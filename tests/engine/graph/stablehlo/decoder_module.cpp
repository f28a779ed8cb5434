#include "tests/engine/graph/stablehlo/decoder_module.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>

namespace hone::graph::stablehlo {

int64_t DecoderWeight::elements() const {
  int64_t product = 1;
  for (const int64_t s : shape) product *= s;
  return product;
}

float DecoderWeight::at(int64_t i) const {
  uint64_t h = seed ^ (static_cast<uint64_t>(i) * 0xBF58476D1CE4E5B9u);
  h = (h ^ (h >> 31)) * 0x94D049BB133111EBu;
  // 12 bits: in [-1, 1), exact in few digits.
  const float unit = static_cast<float>(static_cast<int64_t>(h >> 52) - 2048) / 2048.0f;
  return around + unit * scale;
}

std::vector<DecoderWeight> decoder_weights(const DecoderModule& m) {
  const int64_t q = m.heads * m.head_dim(), kv = m.kv_heads * m.head_dim();
  std::vector<DecoderWeight> weights{{"norm_1", {m.d}},       {"w_q", {m.d, q}},     {"w_k", {m.d, kv}},
                                     {"w_v", {m.d, kv}},      {"w_o", {q, m.d}},     {"norm_2", {m.d}},
                                     {"w_gate", {m.d, m.ff}}, {"w_up", {m.d, m.ff}}, {"w_down", {m.ff, m.d}}};
  for (size_t i = 0; i < weights.size(); ++i) {
    DecoderWeight& w = weights[i];
    const bool norm = w.shape.size() == 1;
    w.seed = (i + 1) * 0x9E3779B97F4A7C15u;
    w.around = norm ? 1 : 0;
    w.scale = norm ? 0.125f : std::exp2(-std::round(0.5f * std::log2(static_cast<float>(w.shape[0]))));
  }
  return weights;
}

namespace {

std::string tensor(const std::vector<int64_t>& shape, std::string_view element = "f32") {
  std::string text = "tensor<";
  for (const int64_t s : shape) text += std::to_string(s) + "x";
  return fmt::format("{}{}>", text, element);
}

// One digit after the other, by table: a layer of 2048 has 350 MB of them.
void append_hex(const DecoderWeight& w, std::string* out) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const int64_t n = w.elements();
  const size_t begin = out->size();
  out->resize(begin + static_cast<size_t>(n) * 8);
  char* to = out->data() + begin;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(w.at(i));
    for (int byte = 0; byte < 4; ++byte, bits >>= 8) {
      *to++ = kDigits[(bits >> 4) & 15];
      *to++ = kDigits[bits & 15];
    }
  }
}

std::string dense_text(const DecoderWeight& w) {
  const bool matrix = w.shape.size() == 2;
  const int64_t columns = w.shape.back();
  std::string text = matrix ? "[" : "";
  for (int64_t r = 0; r < w.elements() / columns; ++r) {
    text += r > 0 ? ", [" : "[";
    for (int64_t c = 0; c < columns; ++c) text += fmt::format("{}{:.8e}", c > 0 ? ", " : "", w.at(r * columns + c));
    text += "]";
  }
  return text + (matrix ? "]" : "");
}

// Writes lines and numbers them, with the types beside them.
class Printer {
 public:
  explicit Printer(const DecoderModule& m) : m_(m) {}

  std::string module() {
    std::string arguments = fmt::format(
        "%arg0: {}, %arg1: {} {{tf.aliasing_output = 1 : i32}}, %arg2: {} {{tf.aliasing_output = 2 : i32}}, "
        "%arg3: tensor<i32> {{tf.aliasing_output = 3 : i32}}",
        x_, cache_, cache_);
    int next = 4;
    std::string resources;
    for (const DecoderWeight& w : decoder_weights(m_)) weight(w, &next, &arguments, &resources);
    body();
    std::string all = "module @jit_layer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n";
    all += fmt::format(
        "  func.func public @main({}) -> ({} {{jax.result_info = \"result[0]\"}}, {} {{jax.result_info = "
        "\"result[1]\"}}, "
        "{} {{jax.result_info = \"result[2]\"}}, tensor<i32> {{jax.result_info = \"result[3]\"}}) {{\n",
        arguments, x_, cache_, cache_);
    all += text_;
    text_.clear();
    all += "  }\n" + functions() + "}\n";
    if (!resources.empty()) all += "\n{-#\n  dialect_resources: {\n    builtin: {\n" + resources + "    }\n  }\n#-}\n";
    return all;
  }

 private:
  // `%n = text : types`; gives %n.
  std::string line(const std::string& text) {
    const std::string name = fmt::format("%{}", next_++);
    text_ += fmt::format("    {} = {}\n", name, text);
    return name;
  }
  std::string constant(std::string_view literal, std::string_view type) {
    const std::string name = fmt::format("%cst_{}", constants_++);
    text_ += fmt::format("    {} = stablehlo.constant dense<{}> : {}\n", name, literal, type);
    return name;
  }
  std::string same(std::string_view op, std::string_view operands, const std::string& type) {
    return line(fmt::format("stablehlo.{} {} : {}", op, operands, type));
  }
  std::string moved(std::string_view op, std::string_view operands, const std::string& from, const std::string& to) {
    return line(fmt::format("stablehlo.{} {} : ({}) -> {}", op, operands, from, to));
  }
  std::string splat(const std::string& scalar, const std::string& type) {
    return moved("broadcast_in_dim", scalar + ", dims = []",
                 type.find("i32") != std::string::npos ? "tensor<i32>" : "tensor<f32>", type);
  }
  std::string dot(const std::string& a, std::string_view w, const std::vector<int64_t>& from, int64_t columns) {
    std::vector<int64_t> to = from;
    to.back() = columns;
    return line(fmt::format(
        "stablehlo.dot_general {}, {}, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : ({}, {}) -> {}",
        a, weights_.at(std::string(w)), tensor(from), tensor({from.back(), columns}), tensor(to)));
  }

  void weight(const DecoderWeight& w, int* next, std::string* arguments, std::string* resources) {
    const std::string type = tensor(w.shape);
    if (m_.weights == WeightForm::kArgument) {
      weights_[w.name] = fmt::format("%arg{}", *next);
      *arguments += fmt::format(", %arg{}: {}", (*next)++, type);
      return;
    }
    weights_[w.name] = "%" + w.name;
    text_ += fmt::format("    %{} = stablehlo.constant dense", w.name);
    if (m_.weights == WeightForm::kText) {
      text_ += fmt::format("<{}>", dense_text(w));
    } else if (m_.weights == WeightForm::kHex) {
      text_ += "<\"0x";
      append_hex(w, &text_);
      text_ += "\">";
    } else {
      text_ += fmt::format("_resource<{}>", w.name);
      *resources += fmt::format("{}      {}: \"0x04000000", resources->empty() ? "" : ",\n", w.name);
      append_hex(w, resources);
      *resources += "\"";
    }
    text_ += fmt::format(" : {}\n", type);
  }

  std::string rms_norm(const std::string& x, std::string_view w) {
    const std::string rows = tensor({1, m_.tokens}), kept = tensor({1, m_.tokens, 1}), vector = tensor({m_.d});
    const std::string square = same("multiply", x + ", " + x, x_);
    const std::string zero = constant("0.000000e+00", "tensor<f32>");
    const std::string sum = line(fmt::format(
        "stablehlo.reduce({} init: {}) applies stablehlo.add across dimensions = [2] : ({}, tensor<f32>) -> {}", square,
        zero, x_, rows));
    const std::string column = moved("broadcast_in_dim", sum + ", dims = [0, 1]", rows, kept);
    const std::string mean = same(
        "divide",
        column + ", " + splat(constant(fmt::format("{:.6e}", static_cast<double>(m_.d)), "tensor<f32>"), kept), kept);
    const std::string steady = same(
        "add", mean + ", " + splat(constant(fmt::format("{:.8e}", static_cast<float>(m_.eps)), "tensor<f32>"), kept),
        kept);
    const std::string root = same("rsqrt", steady, kept);
    const std::string wide = moved("broadcast_in_dim", root + ", dims = [0, 1, 2]", kept, x_);
    const std::string scaled = same("multiply", x + ", " + wide, x_);
    const std::string flat =
        moved("broadcast_in_dim", weights_.at(std::string(w)) + ", dims = [2]", vector, tensor({1, 1, m_.d}));
    const std::string all = moved("broadcast_in_dim", flat + ", dims = [0, 1, 2]", tensor({1, 1, m_.d}), x_);
    return same("multiply", scaled + ", " + all, x_);
  }

  // cos and sin of position * inv_freq: [1, tokens, 1, head_dim / 2]
  void rotations() {
    const int64_t half = m_.head_dim() / 2;
    std::string list;
    for (int64_t i = 0; i < half; ++i)
      list += fmt::format("{}{:.8e}", i > 0 ? ", " : "",
                          static_cast<float>(std::pow(
                              m_.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(m_.head_dim()))));
    const std::string inv_freq = constant(fmt::format("[{}]", list), tensor({half}));
    const std::string ints = tensor({m_.tokens}, "i32"), table = tensor({m_.tokens, half});
    const std::string iota = line("stablehlo.iota dim = 0 : " + ints);
    positions_ = same("add", iota + ", " + splat("%arg3", ints), ints);
    const std::string numbers = moved("convert", positions_, ints, tensor({m_.tokens}));
    const std::string left =
        moved("broadcast_in_dim", numbers + ", dims = [0]", tensor({m_.tokens}), tensor({m_.tokens, 1}));
    const std::string right = moved("broadcast_in_dim", inv_freq + ", dims = [1]", tensor({half}), tensor({1, half}));
    const std::string rows = moved("broadcast_in_dim", left + ", dims = [0, 1]", tensor({m_.tokens, 1}), table);
    const std::string columns = moved("broadcast_in_dim", right + ", dims = [0, 1]", tensor({1, half}), table);
    const std::string angle = same("multiply", rows + ", " + columns, table);
    const std::string four = tensor({1, m_.tokens, 1, half});
    cos_ = moved("broadcast_in_dim", same("cosine", angle, table) + ", dims = [1, 3]", table, four);
    sin_ = moved("broadcast_in_dim", same("sine", angle, table) + ", dims = [1, 3]", table, four);
  }

  std::string rope(const std::string& x, int64_t heads) {
    const int64_t hd = m_.head_dim(), half = hd / 2;
    const std::string whole = tensor({1, m_.tokens, heads, hd}), part = tensor({1, m_.tokens, heads, half});
    const std::string x1 =
        moved("slice", fmt::format("{} [0:1, 0:{}, 0:{}, 0:{}]", x, m_.tokens, heads, half), whole, part);
    const std::string x2 =
        moved("slice", fmt::format("{} [0:1, 0:{}, 0:{}, {}:{}]", x, m_.tokens, heads, half, hd), whole, part);
    const auto wide = [&](const std::string& table) {
      return moved("broadcast_in_dim", table + ", dims = [0, 1, 2, 3]", tensor({1, m_.tokens, 1, half}), part);
    };
    // One line after the other: the order in which arguments are evaluated is the compiler's.
    const auto product = [&](const std::string& x_part, const std::string& table) {
      const std::string factor = wide(table);
      return same("multiply", x_part + ", " + factor, part);
    };
    const std::string x1_cos = product(x1, cos_), x2_sin = product(x2, sin_);
    const std::string low = same("subtract", x1_cos + ", " + x2_sin, part);
    const std::string x2_cos = product(x2, cos_), x1_sin = product(x1, sin_);
    const std::string high = same("add", x2_cos + ", " + x1_sin, part);
    return line(fmt::format("stablehlo.concatenate {}, {}, dim = 3 : ({}, {}) -> {}", low, high, part, part, whole));
  }

  std::string index() {
    if (!m_.checks_indices) return "%arg3";
    const std::string zero = constant("0", "tensor<i32>"), size = constant(std::to_string(m_.capacity), "tensor<i32>");
    const std::string negative =
        line(fmt::format("stablehlo.compare  LT, %arg3, {},  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>", zero));
    const std::string wrapped = same("add", "%arg3, " + size, "tensor<i32>");
    return same("select", negative + ", " + wrapped + ", %arg3", "tensor<i1>, tensor<i32>");
  }

  std::string append(const std::string& cache, const std::string& rows) {
    const std::string at = index(), zero = constant("0", "tensor<i32>");
    return line(fmt::format(
        "stablehlo.dynamic_update_slice {}, {}, {}, {}, {}, {} : ({}, {}, tensor<i32>, tensor<i32>, tensor<i32>, "
        "tensor<i32>) -> {}",
        cache, rows, zero, at, zero, zero, cache_, tensor({1, m_.tokens, m_.kv_heads, m_.head_dim()}), cache_));
  }

  // q [1, tokens, heads, head_dim] and the caches: [1, tokens, heads * head_dim]
  std::string attention(const std::string& q, const std::string& k, const std::string& v) {
    const int64_t s = m_.tokens, t = m_.capacity, g = m_.kv_heads, r = m_.heads / g, hd = m_.head_dim();
    const std::string grouped = tensor({1, s, g, r, hd}), scores = tensor({1, g, r, s, t}), rows = tensor({1, g, r, s}),
                      kept = tensor({1, g, r, s, 1});
    const std::string five = moved("reshape", q, tensor({1, s, m_.heads, hd}), grouped);
    const std::string raw =
        line(fmt::format("stablehlo.dot_general {}, {}, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], "
                         "precision = [DEFAULT, DEFAULT] : "
                         "({}, {}) -> {}",
                         five, k, grouped, cache_, tensor({1, g, s, r, t})));
    const std::string product = moved("transpose", raw + ", dims = [0, 1, 3, 2, 4]", tensor({1, g, s, r, t}), scores);
    const std::string scale =
        constant(fmt::format("{:.8e}", static_cast<float>(1 / std::sqrt(static_cast<double>(hd)))), "tensor<f32>");
    const std::string scaled = same("multiply", product + ", " + splat(scale, scores), scores);
    const std::string visible = mask(), hidden = constant("0xFF800000", "tensor<f32>");
    const std::string seen = line(fmt::format("func.call @_where({}, {}, {}) : ({}, {}, tensor<f32>) -> {}", visible,
                                              scaled, hidden, tensor({1, 1, 1, s, t}, "i1"), scores, scores));
    const std::string low = constant("0xFF800000", "tensor<f32>");
    const std::string most = line(fmt::format(
        "stablehlo.reduce({} init: {}) applies stablehlo.maximum across dimensions = [4] : ({}, tensor<f32>) -> {}",
        seen, low, scores, rows));
    const std::string guarded = same("maximum", splat(low, rows) + ", " + most, rows);
    const auto wide = [&](const std::string& reduced) {
      const std::string column = moved("broadcast_in_dim", reduced + ", dims = [0, 1, 2, 3]", rows, kept);
      return moved("broadcast_in_dim", column + ", dims = [0, 1, 2, 3, 4]", kept, scores);
    };
    const std::string weights = same("exponential", same("subtract", seen + ", " + wide(guarded), scores), scores);
    const std::string zero = constant("0.000000e+00", "tensor<f32>");
    const std::string sum = line(fmt::format(
        "stablehlo.reduce({} init: {}) applies stablehlo.add across dimensions = [4] : ({}, tensor<f32>) -> {}",
        weights, zero, scores, rows));
    const std::string shares = same("divide", weights + ", " + wide(sum), scores);
    const std::string mixed =
        line(fmt::format("stablehlo.dot_general {}, {}, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1], "
                         "precision = [DEFAULT, DEFAULT] : "
                         "({}, {}) -> {}",
                         shares, v, scores, cache_, tensor({1, g, r, s, hd})));
    const std::string ordered =
        moved("transpose", mixed + ", dims = [0, 3, 1, 2, 4]", tensor({1, g, r, s, hd}), grouped);
    return moved("reshape", ordered, grouped, tensor({1, s, m_.heads * hd}));
  }

  // Key j is seen from position p: j <= p. [1, 1, 1, tokens, capacity]
  std::string mask() {
    const int64_t s = m_.tokens, t = m_.capacity;
    const std::string square = tensor({s, t}, "i32");
    const std::string keys = line("stablehlo.iota dim = 0 : " + tensor({t}, "i32"));
    const std::string row = moved("broadcast_in_dim", keys + ", dims = [1]", tensor({t}, "i32"), tensor({1, t}, "i32"));
    const std::string column =
        moved("broadcast_in_dim", positions_ + ", dims = [0]", tensor({s}, "i32"), tensor({s, 1}, "i32"));
    const std::string all_keys = moved("broadcast_in_dim", row + ", dims = [0, 1]", tensor({1, t}, "i32"), square);
    const std::string all_positions =
        moved("broadcast_in_dim", column + ", dims = [0, 1]", tensor({s, 1}, "i32"), square);
    const std::string seen = line(fmt::format("stablehlo.compare  LE, {}, {},  SIGNED : ({}, {}) -> {}", all_keys,
                                              all_positions, square, square, tensor({s, t}, "i1")));
    return moved("broadcast_in_dim", seen + ", dims = [3, 4]", tensor({s, t}, "i1"), tensor({1, 1, 1, s, t}, "i1"));
  }

  void body() {
    const int64_t s = m_.tokens, hd = m_.head_dim(), q_columns = m_.heads * hd, kv_columns = m_.kv_heads * hd;
    const std::vector<int64_t> x{1, s, m_.d}, wide{1, s, m_.ff};
    const std::string h = rms_norm("%arg0", "norm_1");
    const std::string q =
        moved("reshape", dot(h, "w_q", x, q_columns), tensor({1, s, q_columns}), tensor({1, s, m_.heads, hd}));
    const std::string k =
        moved("reshape", dot(h, "w_k", x, kv_columns), tensor({1, s, kv_columns}), tensor({1, s, m_.kv_heads, hd}));
    const std::string v =
        moved("reshape", dot(h, "w_v", x, kv_columns), tensor({1, s, kv_columns}), tensor({1, s, m_.kv_heads, hd}));
    rotations();
    const std::string turned = rope(q, m_.heads);
    const std::string keys = append("%arg1", rope(k, m_.kv_heads));
    const std::string values = append("%arg2", v);
    const std::string mixed = attention(turned, keys, values);
    const std::string x2 = same("add", "%arg0, " + dot(mixed, "w_o", {1, s, q_columns}, m_.d), x_);
    const std::string h2 = rms_norm(x2, "norm_2");
    const std::string gate =
        line(fmt::format("func.call @silu({}) : ({}) -> {}", dot(h2, "w_gate", x, m_.ff), tensor(wide), tensor(wide)));
    const std::string product = same("multiply", gate + ", " + dot(h2, "w_up", x, m_.ff), tensor(wide));
    const std::string y = same("add", x2 + ", " + dot(product, "w_down", wide, m_.d), x_);
    const std::string position = same("add", "%arg3, " + constant(std::to_string(s), "tensor<i32>"), "tensor<i32>");
    text_ += fmt::format("    return {}, {}, {}, {} : {}, {}, {}, tensor<i32>\n", y, keys, values, position, x_, cache_,
                         cache_);
  }

  std::string functions() const {
    const int64_t s = m_.tokens, t = m_.capacity, g = m_.kv_heads, r = m_.heads / g;
    const std::string scores = tensor({1, g, r, s, t}), mask = tensor({1, 1, 1, s, t}, "i1"),
                      wide = tensor({1, s, m_.ff});
    std::string text = fmt::format("  func.func private @_where(%arg0: {}, %arg1: {}, %arg2: tensor<f32>) -> {} {{\n",
                                   mask, scores, scores);
    text += fmt::format("    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3, 4] : ({}) -> {}\n", mask,
                        tensor({1, g, r, s, t}, "i1"));
    text += fmt::format("    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> {}\n", scores);
    text += fmt::format("    %2 = stablehlo.select %0, %arg1, %1 : {}, {}\n    return %2 : {}\n  }}\n",
                        tensor({1, g, r, s, t}, "i1"), scores, scores);
    text += fmt::format(
        "  func.func private @silu(%arg0: {}) -> {} {{\n    %0 = stablehlo.negate %arg0 : {}\n    %1 = "
        "stablehlo.exponential %0 : {}\n",
        wide, wide, wide, wide);
    text += fmt::format(
        "    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>\n    %2 = stablehlo.broadcast_in_dim %cst, "
        "dims = [] : (tensor<f32>) -> {}\n",
        wide);
    text += fmt::format(
        "    %3 = stablehlo.add %2, %1 : {}\n    %4 = stablehlo.divide %2, %3 : {}\n    %5 = stablehlo.multiply %arg0, "
        "%4 : {}\n    return %5 : {}\n  }}\n",
        wide, wide, wide, wide);
    return text;
  }

  const DecoderModule& m_;
  const std::string x_ = tensor({1, m_.tokens, m_.d}), cache_ = tensor({1, m_.capacity, m_.kv_heads, m_.head_dim()});
  std::string text_, positions_, cos_, sin_;
  std::map<std::string, std::string> weights_;
  int next_ = 0, constants_ = 0;
};

}  // namespace

std::string decoder_module(const DecoderModule& module) { return Printer(module).module(); }

}  // namespace hone::graph::stablehlo
