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

TEST(AotManifest, PrintsWhatItParses) {
  const std::string text = print(sample());
  const Result<Manifest> parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, sample());
  EXPECT_EQ(print(*parsed), text);
}

TEST(AotManifest, FindsFiles) {
  const Manifest manifest = sample();
  ASSERT_NE(manifest.file("0.avx512.1.loopir"), nullptr);
  EXPECT_EQ(manifest.file("0.avx512.1.loopir")->bytes, 17);
  EXPECT_EQ(manifest.file("0.avx512"), nullptr);
}

// Every field of the format, as a JSON pointer, with values that it may not have.
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
      {"/version", "version", no_number({0, 2, 999})},
      {"/abi", "abi", no_number({0, 2})},
      {"/engine", "engine", no_line},
      {"/kind", "kind", {kNone, "graph", 1, ""}},
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

TEST(AotManifest, EachFieldIsRefusedByName) {
  const ordered_json good = ordered_json::parse(print(sample()));
  for (const Field& field : fields()) {
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

// Walks the whole document: whatever object it is, a field that is not there and one too many are refused.
void each_object(const ordered_json& value, const std::string& pointer,
                 const std::function<void(const std::string&)>& visit) {
  if (value.is_object()) visit(pointer);
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) each_object(inner, pointer + "/" + key, visit);
}

TEST(AotManifest, MissingAndUnknownFieldsAreRefused) {
  const ordered_json good = ordered_json::parse(print(sample()));
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
  EXPECT_EQ(objects, 1 + 3 + 1 + 2 + 4);
}

TEST(AotManifest, VersionsOfOthersAreUnsupported) {
  ordered_json other = ordered_json::parse(print(sample()));
  other["version"] = 2;
  EXPECT_EQ(parse_manifest(other.dump()).status().code(), Code::kUnsupported);
  other["version"] = 1, other["abi"] = 7;
  EXPECT_EQ(parse_manifest(other.dump()).status().code(), Code::kUnsupported);
  EXPECT_THAT(parse_manifest(other.dump()).status().message(), HasSubstr("abi 7"));
}

TEST(AotManifest, ReferencesAreChecked) {
  const auto refused = [](const std::function<void(Manifest&)>& change, const std::string& why) {
    Manifest manifest = sample();
    change(manifest);
    const Result<Manifest> parsed = parse_manifest(print(manifest));
    ASSERT_FALSE(parsed.ok()) << why;
    EXPECT_THAT(parsed.status().message(), HasSubstr(why));
  };
  refused([](Manifest& m) { m.files.push_back(m.files[0]); }, "'0.avx512.so' twice");
  refused([](Manifest& m) { m.ops.push_back(m.ops[0]); }, "ops[1].problem is there twice");
  refused([](Manifest& m) { m.ops[0].variants[1].object = "x.so"; }, "ops[0].variants[1].object names 'x.so'");
  refused([](Manifest& m) { m.ops[0].variants[0].kernels[1].loop_ir = "y"; }, "kernels[1].loop_ir names 'y'");
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
