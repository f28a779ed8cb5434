// See manifest.h. Two passes over the text: the first only follows its structure and refuses what a tree would hide
// (a key twice, of which a tree keeps one) or choke on (nesting without end); the second takes field by field, each by
// its name, and what is then left in an object is a field that nobody knows.
#include "jit/aot/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace hone::jit {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxDepth = 8;  // ops, variants, kernels and the objects in them are 7 deep
constexpr size_t kMaxName = 128;
constexpr size_t kMaxText = 4096;  // the longest canonical problem has some hundred characters
constexpr size_t kMaxFiles = 1 << 20, kMaxOps = 1 << 16, kMaxVariants = 64, kMaxKernels = 64, kMaxFeatures = 256;
constexpr int64_t kMaxFileBytes = int64_t{1} << 40;
constexpr int64_t kMaxPreferredThreads = 4096;

constexpr std::string_view kFormatName = "hone package";
constexpr std::string_view kKind = "kernels";

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

Status read_variant(const json& value, const std::string& path, PackageVariant& variant) {
  HONE_ASSIGN_OR_RETURN(Fields fields, Fields::of(value, path));
  HONE_RETURN_IF_ERROR(fields.word("isa", variant.isa));
  HONE_RETURN_IF_ERROR(fields.word("arch", variant.arch));
  HONE_RETURN_IF_ERROR(fields.text(
      "mcpu", "the name of a CPU, or empty", [](std::string_view t) { return t.empty() || is_word(t); }, variant.mcpu));
  HONE_RETURN_IF_ERROR(fields.list("features", 0, kMaxFeatures, [&](const json& v, const std::string& p) {
    return read_feature(v, p, variant.features);
  }));
  HONE_RETURN_IF_ERROR(fields.line("codegen", variant.codegen));
  HONE_RETURN_IF_ERROR(fields.line("program", variant.program));
  HONE_RETURN_IF_ERROR(fields.line("numerics", variant.numerics));
  HONE_RETURN_IF_ERROR(fields.number("threads", 0, kMaxPreferredThreads, variant.threads));
  HONE_RETURN_IF_ERROR(fields.file_name("object", variant.object));
  HONE_RETURN_IF_ERROR(fields.list("kernels", 1, kMaxKernels, [&](const json& v, const std::string& p) {
    return read_kernel(v, p, variant.kernels.emplace_back());
  }));
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

// The numbers that say whether the rest can be understood come first.
Status read_versions(Fields& fields) {
  std::string format;
  HONE_RETURN_IF_ERROR(fields.text(
      "format", fmt::format("'{}'", kFormatName), [](std::string_view t) { return t == kFormatName; }, format));
  int64_t version = 0, abi = 0;
  HONE_RETURN_IF_ERROR(fields.number("version", 1, INT32_MAX, version));
  if (version != kPackageFormat)
    return unsupported(fmt::format(
        "{}: version {} of the format, this build reads {}; compile the package again, or use the hone that wrote it",
        kManifestName, version, kPackageFormat));
  HONE_RETURN_IF_ERROR(fields.number("abi", 1, INT32_MAX, abi));
  if (abi != kPackageAbi)
    return unsupported(fmt::format("{}: abi {} of kernels, this build calls {}; compile the package again",
                                   kManifestName, abi, kPackageAbi));
  return {};
}

// Every name is listed once, and what ops name is listed.
Status check_references(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const PackageFile& f : manifest.files)
    if (!names.insert(f.name).second) return bad(fmt::format("files lists '{}' twice", f.name));
  std::set<std::string_view> problems;
  for (size_t i = 0; i < manifest.ops.size(); ++i) {
    const PackageOp& op = manifest.ops[i];
    if (!problems.insert(op.problem).second) return bad(fmt::format("ops[{}].problem is there twice", i));
    for (size_t v = 0; v < op.variants.size(); ++v) {
      const auto missing = [&](std::string_view field, std::string_view name) {
        return bad(fmt::format("ops[{}].variants[{}].{} names '{}', which files does not list", i, v, field, name));
      };
      if (!names.contains(op.variants[v].object)) return missing("object", op.variants[v].object);
      for (size_t k = 0; k < op.variants[v].kernels.size(); ++k) {
        const std::string& name = op.variants[v].kernels[k].loop_ir;
        if (!names.contains(name)) return missing(fmt::format("kernels[{}].loop_ir", k), name);
      }
    }
  }
  return {};
}

ordered_json to_json(const PackageVariant& variant) {
  ordered_json kernels = ordered_json::array();
  for (const PackageKernel& k : variant.kernels) kernels.push_back({{"symbol", k.symbol}, {"loop_ir", k.loop_ir}});
  return {{"isa", variant.isa},           {"arch", variant.arch},
          {"mcpu", variant.mcpu},         {"features", variant.features},
          {"codegen", variant.codegen},   {"program", variant.program},
          {"numerics", variant.numerics}, {"threads", variant.threads},
          {"object", variant.object},     {"kernels", kernels}};
}

}  // namespace

const PackageFile* Manifest::file(std::string_view name) const {
  const auto at = std::find_if(files.begin(), files.end(), [&](const PackageFile& f) { return f.name == name; });
  return at == files.end() ? nullptr : &*at;
}

std::string print(const Manifest& manifest) {
  ordered_json files = ordered_json::array(), ops = ordered_json::array();
  for (const PackageFile& f : manifest.files)
    files.push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", f.sha256}});
  for (const PackageOp& op : manifest.ops) {
    ordered_json variants = ordered_json::array();
    for (const PackageVariant& v : op.variants) variants.push_back(to_json(v));
    ops.push_back({{"problem", op.problem}, {"variants", variants}});
  }
  const ordered_json all = {{"format", kFormatName},
                            {"version", kPackageFormat},
                            {"abi", kPackageAbi},
                            {"engine", manifest.engine},
                            {"kind", kKind},
                            {"files", files},
                            {"ops", ops}};
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
  HONE_RETURN_IF_ERROR(read_versions(fields));
  Manifest manifest;
  std::string kind;
  HONE_RETURN_IF_ERROR(fields.line("engine", manifest.engine));
  HONE_RETURN_IF_ERROR(fields.text(
      "kind", fmt::format("'{}'", kKind), [](std::string_view t) { return t == kKind; }, kind));
  HONE_RETURN_IF_ERROR(fields.list("files", 1, kMaxFiles, [&](const json& v, const std::string& p) {
    return read_file_entry(v, p, manifest.files.emplace_back());
  }));
  HONE_RETURN_IF_ERROR(fields.list("ops", 1, kMaxOps, [&](const json& v, const std::string& p) {
    return read_op(v, p, manifest.ops.emplace_back());
  }));
  HONE_RETURN_IF_ERROR(fields.done());
  HONE_RETURN_IF_ERROR(check_references(manifest));
  return manifest;
}

}  // namespace hone::jit
