// See manifest.h. Two passes over the text: the first only follows its structure and refuses what a tree would hide
// (a key twice, of which a tree keeps one) or choke on (nesting without end); the second takes field by field, each by
// its name, and what is then left in an object is a field that nobody knows.
#include "jit/aot/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/sha256.h"

namespace hone::jit {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxDepth = 8;  // ops, variants, kernels and the objects in them are 7 deep
constexpr size_t kMaxName = 128;
constexpr size_t kMaxText = 4096;  // the longest canonical problem has some hundred characters
constexpr size_t kMaxFiles = 1 << 20, kMaxOps = 1 << 16, kMaxVariants = 64, kMaxKernels = 64, kMaxFeatures = 256;
constexpr size_t kMaxGraphKernels = 1 << 16, kMaxTokens = 64, kMaxGuards = 1 << 16, kMaxConstants = 1 << 18;
constexpr int64_t kMaxTokenCount = int64_t{1} << 31;
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr int64_t kMaxPreferredThreads = 4096;

constexpr std::string_view kFormatName = "hone package";
// Kinds of packages, and the format that has them.
constexpr std::string_view kKernels = "kernels", kGraph = "graph";
constexpr int kKernelsFormat = 1;
constexpr std::string_view kGuardKinds[] = {"equal", "at_most", "at_least", "multiple"};

Status bad(const std::string& message) { return data_loss(fmt::format("{}: {}", kManifestName, message)); }

// ---- structure ----

class Structure final : public nlohmann::json_sax<json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    return keys_.back().insert(name).second || fail(fmt::format("the key '{}' is there twice", shown(name)));
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("is not JSON (at byte {})", position));
  }

  // Text of the file in a message: short, and nothing that a terminal obeys.
  static std::string shown(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > 40 ? out + "..." : out;
  }

 private:
  bool enter() {
    if (keys_.size() == kMaxDepth) return fail("is nested too deep");
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }
  bool fail(std::string why) {
    problem_ = std::move(why);
    return false;
  }

  std::vector<std::set<std::string, std::less<>>> keys_;  // of the objects that are open
  std::string problem_;
};

// ---- fields ----

std::string described(const json& value) {
  if (value.is_string()) return fmt::format("'{}'", Structure::shown(value.get_ref<const std::string&>()));
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  return Structure::shown(value.dump());
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

// A name that leads nowhere but into the package's folder.
bool is_file_name(std::string_view text) { return is_word(text) && text.front() != '.' && text != kManifestName; }

bool is_symbol(std::string_view text) {
  return is_word(text) && text.find_first_of(".-") == std::string_view::npos &&
         !(text.front() >= '0' && text.front() <= '9');
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// An object of the manifest. Fields are taken; done() refuses what is left.
class Fields {
 public:
  static Result<Fields> of(const json& value, std::string path) {
    if (!value.is_object()) return bad(fmt::format("{} must be an object, got {}", path, described(value)));
    return Fields(value, std::move(path));
  }

  // `wanted` says in words what `fits` tests.
  template <typename Fits>
  Status text(const char* name, std::string_view wanted, Fits fits, std::string& out) {
    HONE_ASSIGN_OR_RETURN(const json* const value, take(name));
    if (!value->is_string() || !fits(std::string_view(value->get_ref<const std::string&>())))
      return wrong(name, wanted, *value);
    out = value->get<std::string>();
    return {};
  }
  Status line(const char* name, std::string& out) {
    return text(
        name, fmt::format("1 to {} printable characters", kMaxText),
        [](std::string_view t) { return !t.empty() && t.size() <= kMaxText && is_printable(t); }, out);
  }
  Status word(const char* name, std::string& out) {
    return text(name, "a name of letters, digits, '.', '_' and '-'", is_word, out);
  }
  Status file_name(const char* name, std::string& out) {
    return text(name, "the name of a file in the package (letters, digits, '.', '_', '-'; no folder)", is_file_name,
                out);
  }

  Status number(const char* name, int64_t low, int64_t high, int64_t& out) {
    HONE_ASSIGN_OR_RETURN(const json* const value, take(name));
    const bool fits = value->is_number_unsigned() && value->get<uint64_t>() >= static_cast<uint64_t>(low) &&
                      value->get<uint64_t>() <= static_cast<uint64_t>(high);
    if (!fits) return wrong(name, fmt::format("a whole number from {} to {}", low, high), *value);
    out = value->get<int64_t>();
    return {};
  }

  // Each element with the path that messages call it by.
  template <typename Read>
  Status list(const char* name, size_t low, size_t high, Read read) {
    HONE_ASSIGN_OR_RETURN(const json* const value, take(name));
    if (!value->is_array() || value->size() < low || value->size() > high)
      return wrong(name, fmt::format("a list of {} to {} elements", low, high), *value);
    for (size_t i = 0; i < value->size(); ++i)
      HONE_RETURN_IF_ERROR(read((*value)[i], fmt::format("{}[{}]", path(name), i)));
    return {};
  }

  // The value of a field that decides what the others mean.
  Result<const json*> take(const char* name) {
    const auto at = object_->find(name);
    if (at == object_->end()) return bad(fmt::format("{} is missing", path(name)));
    taken_.insert(name);
    return &*at;
  }
  Status wrong(const char* name, std::string_view wanted, const json& got) const {
    return bad(fmt::format("{} must be {}, got {}", path(name), wanted, described(got)));
  }
  Status done() const {
    for (const auto& [key, value] : object_->items())
      if (!taken_.contains(key)) return bad(fmt::format("{} is no field of this format", path(Structure::shown(key))));
    return {};
  }

 private:
  Fields(const json& object, std::string path) : object_(&object), path_(std::move(path)) {}
  std::string path(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  const json* object_;
  std::string path_;
  std::set<std::string, std::less<>> taken_;
};

Status read_file_entry(const json& value, const std::string& path, PackageFile& file) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.file_name("name", file.name));
  HONE_RETURN_IF_ERROR(fields.number("bytes", 0, kMaxFileBytes, file.bytes));
  HONE_RETURN_IF_ERROR(fields.text("sha256", "64 hexadecimal digits, lower case", is_sha256, file.sha256));
  return fields.done();
}

Status read_kernel(const json& value, const std::string& path, PackageKernel& kernel) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.text("symbol", "the name of a C function", is_symbol, kernel.symbol));
  HONE_RETURN_IF_ERROR(fields.file_name("loop_ir", kernel.loop_ir));
  return fields.done();
}

Status read_feature(const json& value, const std::string& path, std::vector<std::string>& features) {
  if (!value.is_string() || !is_word(value.get_ref<const std::string&>()))
    return bad(fmt::format("{} must be the name of a CPU feature, got {}", path, described(value)));
  features.push_back(value.get<std::string>());
  return {};
}

// What variants of ops and the kernels of a graph have alike. Code: PackageVariant, PackageCode.
template <typename Code>
Status read_code(Fields& fields, size_t most_kernels, Code& code) {
  HONE_RETURN_IF_ERROR(fields.word("isa", code.isa));
  HONE_RETURN_IF_ERROR(fields.word("arch", code.arch));
  HONE_RETURN_IF_ERROR(fields.text(
      "mcpu", "the name of a CPU, or empty", [](std::string_view t) { return t.empty() || is_word(t); }, code.mcpu));
  HONE_RETURN_IF_ERROR(fields.list("features", 0, kMaxFeatures, [&](const json& v, const std::string& p) {
    return read_feature(v, p, code.features);
  }));
  HONE_RETURN_IF_ERROR(fields.line("codegen", code.codegen));
  HONE_RETURN_IF_ERROR(fields.file_name("object", code.object));
  return fields.list("kernels", 1, most_kernels, [&](const json& v, const std::string& p) {
    return read_kernel(v, p, code.kernels.emplace_back());
  });
}

Status read_variant(const json& value, const std::string& path, PackageVariant& variant) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(read_code(fields, kMaxKernels, variant));
  HONE_RETURN_IF_ERROR(fields.line("program", variant.program));
  HONE_RETURN_IF_ERROR(fields.line("numerics", variant.numerics));
  HONE_RETURN_IF_ERROR(fields.number("threads", 0, kMaxPreferredThreads, variant.threads));
  return fields.done();
}

Status read_graph_code(const json& value, const std::string& path, PackageCode& code) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(read_code(fields, kMaxGraphKernels, code));
  return fields.done();
}

Status read_op(const json& value, const std::string& path, PackageOp& op) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.line("problem", op.problem));
  HONE_RETURN_IF_ERROR(fields.list("variants", 1, kMaxVariants, [&](const json& v, const std::string& p) {
    return read_variant(v, p, op.variants.emplace_back());
  }));
  return fields.done();
}

// ---- graphs ----

Status read_guard(const json& value, const std::string& path, PackageGuard& guard) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.text(
      "kind", fmt::format("one of {}", fmt::join(kGuardKinds, ", ")),
      [](std::string_view t) { return std::ranges::find(kGuardKinds, t) != std::end(kGuardKinds); }, guard.kind));
  HONE_RETURN_IF_ERROR(fields.line("left", guard.left));
  HONE_RETURN_IF_ERROR(fields.line("right", guard.right));
  HONE_RETURN_IF_ERROR(fields.line("what", guard.what));
  HONE_RETURN_IF_ERROR(fields.line("rule", guard.rule));
  return fields.done();
}

Status read_constant(const json& value, const std::string& path, PackageConstant& constant) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.line("name", constant.name));
  HONE_RETURN_IF_ERROR(fields.file_name("file", constant.file));
  return fields.done();
}

Status read_tokens(const json& value, const std::string& path, std::vector<int64_t>& tokens) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > uint64_t{kMaxTokenCount})
    return bad(fmt::format("{} must be a whole number from 1 to {}, got {}", path, kMaxTokenCount, described(value)));
  tokens.push_back(value.get<int64_t>());
  return {};
}

Status read_graph(const json& value, const std::string& path, PackageGraph& graph) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.file_name("text", graph.text));
  HONE_RETURN_IF_ERROR(fields.line("policy", graph.policy));
  HONE_RETURN_IF_ERROR(fields.list(
      "tokens", 1, kMaxTokens, [&](const json& v, const std::string& p) { return read_tokens(v, p, graph.tokens); }));
  HONE_RETURN_IF_ERROR(fields.list("guards", 0, kMaxGuards, [&](const json& v, const std::string& p) {
    return read_guard(v, p, graph.guards.emplace_back());
  }));
  HONE_RETURN_IF_ERROR(fields.list("constants", 0, kMaxConstants, [&](const json& v, const std::string& p) {
    return read_constant(v, p, graph.constants.emplace_back());
  }));
  return fields.done();
}

// The numbers that say whether the rest can be understood come first.
Status read_versions(Fields& fields, int64_t& version) {
  std::string format;
  HONE_RETURN_IF_ERROR(fields.text(
      "format", fmt::format("'{}'", kFormatName), [](std::string_view t) { return t == kFormatName; }, format));
  int64_t abi = 0;
  HONE_RETURN_IF_ERROR(fields.number("version", 1, INT32_MAX, version));
  if (version > kPackageFormat)
    return unsupported(
        fmt::format("{}: version {} of the format, this build reads up to {}; compile the package again, or use the "
                    "hone that wrote it",
                    kManifestName, version, kPackageFormat));
  HONE_RETURN_IF_ERROR(fields.number("abi", 1, INT32_MAX, abi));
  if (abi != kPackageAbi)
    return unsupported(fmt::format("{}: abi {} of kernels, this build calls {}; compile the package again",
                                   kManifestName, abi, kPackageAbi));
  return {};
}

// Every name is listed once, and what is named is listed.
class References {
 public:
  explicit References(const Manifest& manifest) : m_(manifest) {}

  Status check() {
    for (const PackageFile& f : m_.files)
      if (!names_.insert(f.name).second) return bad(fmt::format("files lists '{}' twice", f.name));
    HONE_RETURN_IF_ERROR(check_ops());
    for (size_t i = 0; i < m_.kernels.size(); ++i)
      HONE_RETURN_IF_ERROR(check_code(fmt::format("kernels[{}]", i), m_.kernels[i].object, m_.kernels[i].kernels));
    return m_.graph ? check_graph(*m_.graph) : Status();
  }

 private:
  Status listed(const std::string& field, const std::string& name) const {
    if (names_.contains(name)) return {};
    return bad(fmt::format("{} names '{}', which files does not list", field, name));
  }

  Status check_code(const std::string& path, const std::string& object, const std::vector<PackageKernel>& kernels) {
    HONE_RETURN_IF_ERROR(listed(path + ".object", object));
    for (size_t k = 0; k < kernels.size(); ++k)
      HONE_RETURN_IF_ERROR(listed(fmt::format("{}.kernels[{}].loop_ir", path, k), kernels[k].loop_ir));
    return {};
  }

  Status check_ops() {
    std::set<std::string_view> problems;
    for (size_t i = 0; i < m_.ops.size(); ++i) {
      const PackageOp& op = m_.ops[i];
      if (!problems.insert(op.problem).second) return bad(fmt::format("ops[{}].problem is there twice", i));
      for (size_t v = 0; v < op.variants.size(); ++v)
        HONE_RETURN_IF_ERROR(
            check_code(fmt::format("ops[{}].variants[{}]", i, v), op.variants[v].object, op.variants[v].kernels));
    }
    return {};
  }

  Status check_graph(const PackageGraph& graph) {
    HONE_RETURN_IF_ERROR(listed("graph.text", graph.text));
    std::set<std::string_view> constants;
    for (size_t i = 0; i < graph.constants.size(); ++i) {
      const PackageConstant& c = graph.constants[i];
      if (!constants.insert(c.name).second) return bad(fmt::format("graph.constants[{}].name is there twice", i));
      HONE_RETURN_IF_ERROR(listed(fmt::format("graph.constants[{}].file", i), c.file));
    }
    return {};
  }

  const Manifest& m_;
  std::set<std::string_view> names_;
};

ordered_json to_json(const std::vector<PackageKernel>& kernels) {
  ordered_json all = ordered_json::array();
  for (const PackageKernel& k : kernels) all.push_back({{"symbol", k.symbol}, {"loop_ir", k.loop_ir}});
  return all;
}

ordered_json to_json(const PackageVariant& variant) {
  return {{"isa", variant.isa},           {"arch", variant.arch},
          {"mcpu", variant.mcpu},         {"features", variant.features},
          {"codegen", variant.codegen},   {"program", variant.program},
          {"numerics", variant.numerics}, {"threads", variant.threads},
          {"object", variant.object},     {"kernels", to_json(variant.kernels)}};
}

ordered_json to_json(const PackageCode& code) {
  return {{"isa", code.isa},
          {"arch", code.arch},
          {"mcpu", code.mcpu},
          {"features", code.features},
          {"codegen", code.codegen},
          {"object", code.object},
          {"kernels", to_json(code.kernels)}};
}

ordered_json to_json(const PackageGraph& graph) {
  ordered_json guards = ordered_json::array(), constants = ordered_json::array();
  for (const PackageGuard& g : graph.guards)
    guards.push_back({{"kind", g.kind}, {"left", g.left}, {"right", g.right}, {"what", g.what}, {"rule", g.rule}});
  for (const PackageConstant& c : graph.constants) constants.push_back({{"name", c.name}, {"file", c.file}});
  return {{"text", graph.text},
          {"policy", graph.policy},
          {"tokens", graph.tokens},
          {"guards", guards},
          {"constants", constants}};
}

}  // namespace

PackageCode code_of(const PackageVariant& v) {
  return {.isa = v.isa,
          .arch = v.arch,
          .mcpu = v.mcpu,
          .features = v.features,
          .codegen = v.codegen,
          .object = v.object,
          .kernels = v.kernels};
}

const PackageFile* Manifest::file(std::string_view name) const {
  const auto at = std::find_if(files.begin(), files.end(), [&](const PackageFile& f) { return f.name == name; });
  return at == files.end() ? nullptr : &*at;
}

namespace {

ordered_json to_json(const Manifest& manifest) {
  ordered_json files = ordered_json::array(), ops = ordered_json::array();
  for (const PackageFile& f : manifest.files)
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  for (const PackageOp& op : manifest.ops) {
    ordered_json variants = ordered_json::array();
    for (const PackageVariant& v : op.variants) variants.push_back(to_json(v));
    ops.push_back({{"problem", op.problem}, {"variants", variants}});
  }
  ordered_json all = {{"format", kFormatName},
                      {"version", manifest.graph ? kPackageFormat : kKernelsFormat},
                      {"abi", kPackageAbi},
                      {"engine", manifest.engine},
                      {"kind", manifest.graph ? kGraph : kKernels},
                      {"files", files},
                      {"ops", ops}};
  if (manifest.graph) {
    all["kernels"] = ordered_json::array();
    for (const PackageCode& code : manifest.kernels) all["kernels"].push_back(to_json(code));
    all["graph"] = to_json(*manifest.graph);
  }
  return all;
}

// Of all that the manifest of a graph says: it decides what runs as its files do, so damage to it is found like theirs.
std::string digest(const ordered_json& manifest) { return sha256_hex(manifest.dump()); }

}  // namespace

std::string print(const Manifest& manifest) {
  ordered_json all = to_json(manifest);
  if (manifest.graph) all["sha256"] = digest(all);
  return all.dump(2) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return bad(fmt::format("has {} bytes, more than {}", text.size(), kMaxManifestBytes));
  Structure structure;
  if (!json::sax_parse(text, &structure)) return bad(structure.problem());
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return bad("is not JSON");
  if (!parsed.is_object()) return bad(fmt::format("must be an object, got {}", described(parsed)));
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(parsed, ""));
  int64_t version = 0;
  HONE_RETURN_IF_ERROR(read_versions(fields, version));
  Manifest manifest;
  std::string kind, sha256;
  const std::string_view wanted = version == kKernelsFormat ? kKernels : kGraph;
  HONE_RETURN_IF_ERROR(fields.line("engine", manifest.engine));
  HONE_RETURN_IF_ERROR(fields.text(
      "kind", fmt::format("'{}'", wanted), [&](std::string_view t) { return t == wanted; }, kind));
  HONE_RETURN_IF_ERROR(fields.list("files", 1, kMaxFiles, [&](const json& v, const std::string& p) {
    return read_file_entry(v, p, manifest.files.emplace_back());
  }));
  HONE_RETURN_IF_ERROR(fields.list("ops", kind == kGraph ? 0 : 1, kMaxOps, [&](const json& v, const std::string& p) {
    return read_op(v, p, manifest.ops.emplace_back());
  }));
  if (kind == kGraph) {
    HONE_RETURN_IF_ERROR(fields.list("kernels", 0, kMaxVariants, [&](const json& v, const std::string& p) {
      return read_graph_code(v, p, manifest.kernels.emplace_back());
    }));
    HONE_ASSIGN_OR_RETURN(const json* const graph, fields.take("graph"));
    HONE_RETURN_IF_ERROR(read_graph(*graph, "graph", manifest.graph.emplace()));
    HONE_RETURN_IF_ERROR(fields.text("sha256", "64 hexadecimal digits, lower case", is_sha256, sha256));
  }
  HONE_RETURN_IF_ERROR(fields.done());
  HONE_RETURN_IF_ERROR(References(manifest).check());
  if (manifest.graph && sha256 != digest(to_json(manifest)))
    return bad("is not as it was packed: its sha256 is another");
  return manifest;
}

}  // namespace hone::jit
