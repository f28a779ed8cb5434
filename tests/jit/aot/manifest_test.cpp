// The manifest, both ways, and what a hostile one gets.
#include "jit/aot/manifest.h"

#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace hone::jit {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

Manifest sample() {
  PackageVariant avx512{.isa = "avx512",
                        .arch = "x86_64",
                        .mcpu = "znver4",
                        .features = {"avx", "avx512f"},
                        .codegen = "llvm-19.1.7/5",
                        .program = "a program(1)",
                        .numerics = "ordered",
                        .threads = 2,
                        .object = "0.avx512.so",
                        .kernels = {{"hone_k", "0.avx512.0.loopir"}, {"hone_l", "0.avx512.1.loopir"}}};
  PackageVariant avx2 = avx512;
  avx2.isa = "avx2", avx2.mcpu = "", avx2.features = {}, avx2.threads = 0;
  return {.engine = "hone 0.1.0",
          .files = {{"0.avx512.so", 4096, std::string(64, 'a')},
                    {"0.avx512.0.loopir", 0, std::string(64, '0')},
                    {"0.avx512.1.loopir", 17, std::string(64, '9')}},
          .ops = {{.problem = "an op:of sizes", .variants = {avx512, avx2}}}};
}

Manifest graph_sample() {
  Manifest manifest = sample();
  manifest.files.push_back({"graph.txt", 9, std::string(64, '1')});
  manifest.files.push_back({"constant.0.bin", 128, std::string(64, '2')});
  manifest.kernels = {code_of(manifest.ops[0].variants[0])};
  manifest.graph = {.text = "graph.txt",
                    .policy = "default",
                    .tokens = {1, 128},
                    .guards = {{"at_most", "p + s", "4096", "tokens after this call", "state k holds 4096 rows"}},
                    .constants = {{"wq", "constant.0.bin"}}};
  return manifest;
}

TEST(AotManifest, PrintsWhatItParses) {
  for (const Manifest& manifest : {sample(), graph_sample()}) {
    const std::string text = print(manifest);
    const Result<Manifest> parsed = parse_manifest(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, manifest);
    EXPECT_EQ(print(*parsed), text);
  }
  Manifest without_ops = graph_sample();
  without_ops.ops.clear(), without_ops.kernels.clear();
  EXPECT_TRUE(parse_manifest(print(without_ops)).ok()) << "a graph may have no matmul, and no row program";
}

TEST(AotManifest, PackagesOfOpsKeepTheirNumber) {
  EXPECT_EQ(ordered_json::parse(print(sample()))["version"], 1);
  EXPECT_EQ(ordered_json::parse(print(graph_sample()))["version"], 2);
}

TEST(AotManifest, FindsFiles) {
  const Manifest manifest = sample();
  ASSERT_NE(manifest.file("0.avx512.1.loopir"), nullptr);
  EXPECT_EQ(manifest.file("0.avx512.1.loopir")->bytes, 17);
  EXPECT_EQ(manifest.file("0.avx512"), nullptr);
}

// Every field of the format, as a JSON pointer, with values that it may not have. Those of format 1 first.
struct Field {
  const char* pointer;
  const char* named;  // how messages call it
  std::vector<ordered_json> bad;
};

const ordered_json kNone = nullptr, kList = ordered_json::array(), kObject = ordered_json::object();

std::vector<Field> fields() {
  const std::vector<ordered_json> no_name = {
      kNone, 1, kList, kObject, "", "a b", "a/b", "a\n", "caf\u00e9", std::string("a\0b", 3), std::string(129, 'a')};
  const std::vector<ordered_json> no_line = {
      kNone, 1, kList, "", "two\nlines", "tab\t", "caf\u00e9", std::string("a\0b", 3), std::string(4097, 'a')};
  std::vector<ordered_json> no_file = no_name;
  for (const char* path :
       {"..", ".", "../x.so", "/etc/passwd", "a/../b", ".hidden", "sub/x.so", "x.so/", "\\x", "manifest.json"})
    no_file.emplace_back(path);
  const std::vector<ordered_json> no_list = {kNone, 1, "a", kObject};
  std::vector<ordered_json> empty_too = no_list;
  empty_too.push_back(kList);
  const auto no_number = [](std::vector<ordered_json> more) {
    for (const ordered_json& j : {ordered_json(-1), ordered_json("1"), ordered_json(1.5), ordered_json(1e300), kNone,
                                  kList, ordered_json(18446744073709551615ull)})
      more.push_back(j);
    return more;
  };
  return {
      {"/format", "format", {kNone, 1, "", "another package", kList}},
      {"/version", "", no_number({0, 2, 3, 999})},
      {"/abi", "abi", no_number({0, 2})},
      {"/engine", "engine", no_line},
      {"/kind", "kind", {kNone, "graph", "kernels ", 1, ""}},
      {"/files", "files", empty_too},
      {"/files/0", "files[0]", {kNone, 1, "a", kList}},
      {"/files/0/name", "files[0].name", no_file},
      {"/files/0/bytes", "files[0].bytes", no_number({(int64_t{1} << 40) + 1})},
      {"/files/0/sha256",
       "files[0].sha256",
       {kNone, 1, "", std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'A'), std::string(64, 'g')}},
      {"/ops", "ops", empty_too},
      {"/ops/0", "ops[0]", {kNone, "a", kList}},
      {"/ops/0/problem", "ops[0].problem", no_line},
      {"/ops/0/variants", "ops[0].variants", empty_too},
      {"/ops/0/variants/1", "ops[0].variants[1]", {kNone, "a", kList}},
      {"/ops/0/variants/1/isa", "ops[0].variants[1].isa", no_name},
      {"/ops/0/variants/1/arch", "ops[0].variants[1].arch", no_name},
      {"/ops/0/variants/0/mcpu", "ops[0].variants[0].mcpu", {kNone, 1, "a b", "a/b", kList}},
      {"/ops/0/variants/0/features", "ops[0].variants[0].features", no_list},
      {"/ops/0/variants/0/features/1", "ops[0].variants[0].features[1]", {kNone, 1, "", "a b", kList}},
      {"/ops/0/variants/0/codegen", "ops[0].variants[0].codegen", no_line},
      {"/ops/0/variants/0/program", "ops[0].variants[0].program", no_line},
      {"/ops/0/variants/0/numerics", "ops[0].variants[0].numerics", no_line},
      {"/ops/0/variants/0/threads", "ops[0].variants[0].threads", no_number({4097})},
      {"/ops/0/variants/0/object", "ops[0].variants[0].object", no_file},
      {"/ops/0/variants/0/kernels", "ops[0].variants[0].kernels", empty_too},
      {"/ops/0/variants/0/kernels/1", "ops[0].variants[0].kernels[1]", {kNone, "a", kList}},
      {"/ops/0/variants/0/kernels/1/symbol",
       "ops[0].variants[0].kernels[1].symbol",
       {kNone, 1, "", "a-b", "a.b", "1a", "a b"}},
      {"/ops/0/variants/0/kernels/1/loop_ir", "ops[0].variants[0].kernels[1].loop_ir", no_file},
  };
}

// What a graph has on top of that.
std::vector<Field> graph_fields() {
  const std::vector<ordered_json> no_line = {kNone, 1, kList, "", "two\nlines", std::string(4097, 'a')};
  const std::vector<ordered_json> no_file = {kNone,         1,     "",        "..",           "../x",
                                             "/etc/passwd", "a/b", ".hidden", "manifest.json"};
  const std::vector<ordered_json> no_list = {kNone, 1, "a", kObject};
  const std::vector<ordered_json> no_object = {kNone, 1, "a", kList};
  std::vector<ordered_json> empty_too = no_list;
  empty_too.push_back(kList);
  const std::vector<ordered_json> no_count = {kNone, 0, -1, 1.5, "1", kList, (int64_t{1} << 31) + 1};
  return {
      {"/kind", "kind", {kNone, "kernels", 1, ""}},
      {"/kernels", "kernels", no_list},
      {"/kernels/0", "kernels[0]", no_object},
      {"/kernels/0/isa", "kernels[0].isa", {kNone, 1, "", "a b"}},
      {"/kernels/0/object", "kernels[0].object", no_file},
      {"/kernels/0/kernels", "kernels[0].kernels", empty_too},
      {"/kernels/0/kernels/1/symbol", "kernels[0].kernels[1].symbol", {kNone, 1, "", "a-b", "1a"}},
      {"/kernels/0/kernels/1/loop_ir", "kernels[0].kernels[1].loop_ir", no_file},
      {"/graph", "graph", no_object},
      {"/graph/text", "graph.text", no_file},
      {"/graph/policy", "graph.policy", no_line},
      {"/graph/tokens", "graph.tokens", empty_too},
      {"/graph/tokens/1", "graph.tokens[1]", no_count},
      {"/graph/guards", "graph.guards", no_list},
      {"/graph/guards/0", "graph.guards[0]", no_object},
      {"/graph/guards/0/kind", "graph.guards[0].kind", {kNone, 1, "", "less"}},
      {"/graph/guards/0/left", "graph.guards[0].left", no_line},
      {"/graph/guards/0/right", "graph.guards[0].right", no_line},
      {"/graph/guards/0/what", "graph.guards[0].what", no_line},
      {"/graph/guards/0/rule", "graph.guards[0].rule", no_line},
      {"/graph/constants", "graph.constants", no_list},
      {"/graph/constants/0", "graph.constants[0]", no_object},
      {"/graph/constants/0/name", "graph.constants[0].name", no_line},
      {"/graph/constants/0/file", "graph.constants[0].file", no_file},
      {"/sha256", "sha256", {kNone, 1, "", std::string(64, 'A'), std::string(64, 'a')}},
  };
}

void expect_refused(const Manifest& manifest, const std::vector<Field>& all) {
  const ordered_json good = ordered_json::parse(print(manifest));
  for (const Field& field : all) {
    for (const ordered_json& value : field.bad) {
      ordered_json bad = good;
      bad[ordered_json::json_pointer(field.pointer)] = value;
      SCOPED_TRACE(std::string(field.pointer) + " = " + value.dump());
      const Result<Manifest> parsed = parse_manifest(bad.dump());
      ASSERT_FALSE(parsed.ok());
      EXPECT_THAT(parsed.status().message(), HasSubstr(field.named));
      EXPECT_THAT(parsed.status().message(), HasSubstr("manifest.json"));
    }
  }
}

TEST(AotManifest, EachFieldIsRefusedByName) {
  expect_refused(sample(), fields());
  expect_refused(graph_sample(), graph_fields());
}

// Walks the whole document: whatever object it is, a field that is not there and one too many are refused.
void each_object(const ordered_json& value, const std::string& pointer,
                 const std::function<void(const std::string&)>& visit) {
  if (value.is_object()) visit(pointer);
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) each_object(inner, pointer + "/" + key, visit);
}

int each_object_refused(const Manifest& manifest) {
  const ordered_json good = ordered_json::parse(print(manifest));
  int objects = 0;
  each_object(good, "", [&](const std::string& at) {
    ++objects;
    const ordered_json::json_pointer pointer(at);
    for (const auto& [key, value] : good[pointer].items()) {
      ordered_json bad = good;
      bad[pointer].erase(key);
      const Result<Manifest> parsed = parse_manifest(bad.dump());
      ASSERT_FALSE(parsed.ok()) << at << "/" << key;
      EXPECT_THAT(parsed.status().message(), HasSubstr(key + " is missing"));
    }
    ordered_json bad = good;
    bad[pointer]["surplus"] = 1;
    const Result<Manifest> parsed = parse_manifest(bad.dump());
    ASSERT_FALSE(parsed.ok()) << at;
    EXPECT_THAT(parsed.status().message(), HasSubstr("surplus is no field"));
  });
  return objects;
}

TEST(AotManifest, MissingAndUnknownFieldsAreRefused) {
  EXPECT_EQ(each_object_refused(sample()), 1 + 3 + 1 + 2 + 4);
  EXPECT_EQ(each_object_refused(graph_sample()), 1 + 5 + 1 + 2 + 4 + (1 + 2) + (1 + 1 + 1));
}

TEST(AotManifest, VersionsOfOthersAreUnsupported) {
  ordered_json other = ordered_json::parse(print(sample()));
  other["version"] = 3;
  EXPECT_EQ(parse_manifest(other.dump()).status().code(), Code::kUnsupported);
  other["version"] = 1, other["abi"] = 7;
  EXPECT_EQ(parse_manifest(other.dump()).status().code(), Code::kUnsupported);
  EXPECT_THAT(parse_manifest(other.dump()).status().message(), HasSubstr("abi 7"));
}

TEST(AotManifest, ReferencesAreChecked) {
  const auto refused = [](const std::function<void(Manifest&)>& change, const std::string& why) {
    Manifest manifest = graph_sample();
    change(manifest);
    const Result<Manifest> parsed = parse_manifest(print(manifest));
    ASSERT_FALSE(parsed.ok()) << why;
    EXPECT_THAT(parsed.status().message(), HasSubstr(why));
  };
  refused([](Manifest& m) { m.files.push_back(m.files[0]); }, "'0.avx512.so' twice");
  refused([](Manifest& m) { m.ops.push_back(m.ops[0]); }, "ops[1].problem is there twice");
  refused([](Manifest& m) { m.ops[0].variants[1].object = "x.so"; }, "ops[0].variants[1].object names 'x.so'");
  refused([](Manifest& m) { m.ops[0].variants[0].kernels[1].loop_ir = "y"; }, "kernels[1].loop_ir names 'y'");
  refused([](Manifest& m) { m.kernels[0].object = "x.so"; }, "kernels[0].object names 'x.so'");
  refused([](Manifest& m) { m.kernels[0].kernels[0].loop_ir = "y"; }, "kernels[0].kernels[0].loop_ir names 'y'");
  refused([](Manifest& m) { m.graph->text = "z"; }, "graph.text names 'z'");
  refused([](Manifest& m) { m.graph->constants[0].file = "z"; }, "graph.constants[0].file names 'z'");
  refused([](Manifest& m) { m.graph->constants.push_back(m.graph->constants[0]); },
          "graph.constants[1].name is there twice");
}

// Whatever changes in the manifest of a graph, and however valid it is then: it is not what was packed.
TEST(AotManifest, TheManifestOfAGraphVouchesForItself) {
  const std::string good = print(graph_sample());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_FALSE(parse_manifest(bad).ok()) << "byte " << at << ": '" << good[at] << "' became '" << bad[at] << "'";
  }
  ordered_json other = ordered_json::parse(good);
  other["graph"]["guards"][0]["right"] = "4097";
  EXPECT_THAT(parse_manifest(other.dump()).status().message(), HasSubstr("its sha256 is another"));
}

TEST(AotManifest, TextThatIsNoTree) {
  const std::string good = print(sample());
  const auto refused = [](const std::string& text, const std::string& why) {
    const Result<Manifest> parsed = parse_manifest(text);
    ASSERT_FALSE(parsed.ok()) << why;
    EXPECT_EQ(parsed.status().code(), Code::kDataLoss);
    EXPECT_THAT(parsed.status().message(), HasSubstr(why));
  };
  refused("", "is not JSON");
  refused("{", "is not JSON");
  refused("[]", "must be an object");
  refused("7", "must be an object");
  refused(good + "x", "is not JSON");
  refused("{\"format\": 1e999}", "is not JSON");
  refused("{\"engine\": 1, \"engine\": 2}", "'engine' is there twice");
  refused("{\"a\": {\"b\": 1, \"b\": 1}}", "'b' is there twice");
  refused("{\"\\u001b[31m\": 1, \"\\u001b[31m\": 1}", "'?[31m' is there twice");
  refused(std::string(1'000'000, '['), "nested too deep");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  refused(deep, "nested too deep");
  refused(std::string("{\"a\": \"\xff\"}"), "is not JSON");
  for (size_t length = 0; length < good.size(); length += 7) EXPECT_FALSE(parse_manifest(good.substr(0, length)).ok());
}

}  // namespace
}  // namespace hone::jit
