// The kernel cache as a user meets it: a second process compiles nothing, hone info shows it, hone db gc cleans it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "engine/base/sha256.h"
#include "tests/tools/needs_code.h"

namespace hone::cli_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class HoneKernelCache : public NeedsCode {
 protected:
  void SetUp() override {
    NeedsCode::SetUp();
    if (!IsSkipped() && hone({"info"}).out.find("\ncodegen     llvm") == std::string::npos)
      GTEST_SKIP() << "this build has no LLVM";
  }
  Setting cached() const { return {.env = {{"HONE_CACHE", file("kernels")}, {"HONE_LOG", "jit"}}}; }
  // Compiles with LLVM and says so on stderr.
  Outcome explain(const Setting& setting) const {
    return hone({"explain", "matmul:f32:m=4,n=32,k=16", "--codegen", "llvm", "--asm"}, setting);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> all;
    for (const fs::directory_entry& e : fs::directory_iterator(file("kernels"))) all.push_back(e.path());
    return all;
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(HoneKernelCache, ASecondProcessCompilesNothing) {
  const Outcome first = explain(cached()), second = explain(cached());
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("codegen=llvm"), HasSubstr("cache=miss"), Not(HasSubstr("cache=hit"))));
  EXPECT_THAT(second.err, AllOf(HasSubstr("cache=hit"), Not(HasSubstr("cache=miss"))));
  EXPECT_EQ(first.out, second.out);
  const Outcome off = explain({.env = {{"HONE_CACHE", "off"}, {"HONE_LOG", "jit"}}});
  EXPECT_THAT(off.err, HasSubstr("cache=bypass"));
  EXPECT_EQ(off.out, first.out);
}

TEST_F(HoneKernelCache, WithoutAPlaceItWorksAndSaysSoInTheLog) {
  for (Setting setting : {Setting{}, Setting{.env = {{"HONE_CACHE", "/proc/no/such"}}},
                          Setting{.env = {{"HONE_CACHE", "/dev/full"}}}, Setting{.env = {{"HOME", "/dev/null"}}}}) {
    const Outcome silent = explain(setting);
    EXPECT_EQ(silent.code, 0);
    EXPECT_THAT(silent.err, Not(HasSubstr("cache")));
    if (setting.env.empty()) continue;
    setting.env["HONE_LOG"] = "jit";
    EXPECT_THAT(explain(setting).err, AllOf(HasSubstr("event=cache"), HasSubstr("why=")))
        << setting.env.begin()->second;
  }
}

TEST_F(HoneKernelCache, InfoShowsIt) {
  explain(cached());
  const Json cache = Json::parse(hone({"info", "--json"}, cached()).out)["kernel_cache"];
  EXPECT_EQ(cache["path"], file("kernels"));
  EXPECT_EQ(cache["state"], "ok");
  EXPECT_EQ(cache["entries"], entries().size());
  int64_t bytes = 0;
  for (const fs::path& entry : entries()) bytes += static_cast<int64_t>(fs::file_size(entry));
  EXPECT_EQ(cache["bytes"], bytes);
  EXPECT_THAT(hone({"info"}, cached()).out, HasSubstr("\nkernels     " + file("kernels")));
  EXPECT_THAT(hone({"info"}, {.env = {{"HONE_CACHE", "off"}}}).out,
              HasSubstr("\nkernels     not used: HONE_CACHE=off"));
  EXPECT_EQ(Json::parse(hone({"info", "--json"}).out)["kernel_cache"]["entries"], 0);
}

// Packed weights of models lie beside the kernels, and are shown and cleaned with them.
TEST_F(HoneKernelCache, PackedWeightsAreShownAndCleaned) {
  const std::string model = "weights/" + std::string(64, 'a'),
                    damaged = model + "/" + std::string(64, 'b') + ".weights";
  fs::create_directories(file(model));
  write(damaged, "half");
  const Setting setting{.env = {{"HONE_WEIGHTS", file("weights")}}};
  const Json shown = Json::parse(hone({"info", "--json"}, setting).out)["weights"];
  EXPECT_EQ(shown["path"], file("weights"));
  EXPECT_EQ(shown["models"], 1);
  EXPECT_EQ(shown["bytes"], 4);
  EXPECT_THAT(hone({"info"}, setting).out, HasSubstr("\nweights     " + file("weights") + " (1 model, "));
  EXPECT_THAT(hone({"info"}, {.env = {{"HONE_WEIGHTS", "off"}}}).out,
              HasSubstr("weights     not stored: HONE_WEIGHTS=off"));
  EXPECT_THAT(hone({"db", "gc", "--dry-run"}, setting).out, HasSubstr("is no file of packed weights"));
  EXPECT_TRUE(fs::exists(file(damaged)));
  EXPECT_THAT(hone({"db", "gc"}, setting).out, HasSubstr("packed weights on disk: dropped 1, 4 bytes"));
  EXPECT_FALSE(fs::exists(file(damaged)));
}

TEST_F(HoneKernelCache, GcSaysWhatItDropsAndWhy) {
  explain(cached());
  const std::string empty =
      write("empty.jsonl", "{\"type\":\"hone-export\",\"format\":2,\"schema\":3}\n{\"type\":\"end\"}\n");
  ASSERT_EQ(hone({"db", "import", empty}).code, 0);
  ASSERT_THAT(entries(), SizeIs(1));
  const std::string good = bytes_of(entries().front());
  write("kernels/" + std::string(64, 'a') + ".kernel", good.substr(0, 700));
  write("kernels/.0123456789abcdef.1.2.3.tmp", "half");
  const timespec times[2] = {{1'700'000'000, 0}, {1'700'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file("kernels/.0123456789abcdef.1.2.3.tmp").c_str(), times, 0), 0);
  fs::create_directories(file("kernels/" + std::string(64, 'c') + ".kernel/full"));
  ASSERT_EQ(chmod(file("kernels").c_str(), 0700), 0);
  const Outcome dry = hone({"db", "gc", "--dry-run"}, cached());
  EXPECT_THAT(dry.out,
              AllOf(HasSubstr("kernel aaaaaaaaaaaa: unreadable: it is truncated"),
                    HasSubstr("temporary file .0123456789abcdef.1.2.3.tmp: left behind by a writer that was ended"),
                    HasSubstr("kernels on disk: would drop 2 of 3, 1 temporary file; ")))
      << dry.err;
  EXPECT_THAT(entries(), SizeIs(4));
  const Outcome gc = hone({"db", "gc", "--json"}, cached());
  ASSERT_EQ(gc.code, 0) << gc.err;
  const Json kernels = Json::parse(gc.out)["kernels"];
  EXPECT_THAT(kernels["dropped"], SizeIs(1));
  EXPECT_THAT(kernels["temporary"], SizeIs(1));
  EXPECT_THAT(kernels["not_removed"], SizeIs(1));
  EXPECT_EQ(kernels["state"], "ok");
  EXPECT_THAT(hone({"db", "gc"}, cached()).out,
              AllOf(HasSubstr("not removed: kernel cccccccccccc: "), HasSubstr("dropped 0 of 2, 1 not removed; ")));
  fs::remove_all(file("kernels/" + std::string(64, 'c') + ".kernel"));
  ASSERT_THAT(entries(), SizeIs(1));
  EXPECT_EQ(bytes_of(entries().front()), good);
  EXPECT_THAT(explain(cached()).err, HasSubstr("cache=hit"));

  // Without a database there is nothing to drop from it, but there may be kernels.
  write("kernels/" + std::string(64, 'b') + ".kernel", "");
  Setting nowhere = cached();
  nowhere.env["HONE_DB"] = file("absent.db");
  const Outcome none = hone({"db", "gc"}, nowhere);
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.out, HasSubstr("kernel bbbbbbbbbbbb: unreadable"));
  EXPECT_THAT(entries(), SizeIs(1));
  write("kernels/" + std::string(64, 'b') + ".kernel", "");
  const Outcome listed = hone({"db", "gc", "--json"}, nowhere);
  EXPECT_EQ(listed.code, 1);
  EXPECT_THAT(Json::parse(listed.out)["kernels"]["dropped"], SizeIs(1)) << "what is removed is listed";
  EXPECT_EQ(Json::parse(listed.out)["dropped"], nullptr);

  ASSERT_EQ(chmod(file("kernels").c_str(), 0775), 0);
  EXPECT_THAT(Json::parse(hone({"db", "gc", "--json"}, cached()).out)["kernels"]["state"].get<std::string>(),
              HasSubstr("chmod go-w"));
  const Outcome open_to_all = hone({"db", "gc"}, cached());
  EXPECT_EQ(open_to_all.code, 0);
  EXPECT_THAT(open_to_all.err, AllOf(HasSubstr("kernels on disk were left alone"), HasSubstr("chmod go-w")));
  EXPECT_THAT(hone({"info"}, cached()).out, HasSubstr("kernels     not used: " + file("kernels")));
}

// What another build made is dropped when that is asked for; what this version would never look at, at once.
TEST_F(HoneKernelCache, GcKnowsOtherBuilds) {
  explain(cached());
  const std::string empty =
      write("empty.jsonl", "{\"type\":\"hone-export\",\"format\":2,\"schema\":3}\n{\"type\":\"end\"}\n");
  ASSERT_EQ(hone({"db", "import", empty}).code, 0);
  ASSERT_THAT(entries(), SizeIs(1));
  const std::string good = bytes_of(entries().front()), good_id = entries().front().filename().string().substr(0, 64);
  // The good entry with another value of a field, under another id.
  const auto with = [&](char digit, const std::string& field, const std::string& value) {
    const std::string id(64, digit);
    std::string body = good.substr(good.find("key "));
    body.replace(body.find(good_id), 64, id);
    const size_t at = body.find("\n" + field + " ") + 2 + field.size();
    body.replace(at, body.find('\n', at) - at, value);
    write("kernels/" + id + ".kernel",
          good.substr(0, good.find("sha256 ")) + "sha256 " + sha256_hex(body) + "\n" + body);
  };
  with('1', "kernel", "as_good");
  with('2', "lowering", "0123456789abcdef");
  with('3', "version", "llvm-1.2.3/4");
  with('4', "generator", "cuda");
  write("kernels/" + std::string(64, '5') + ".kernel", "hone-kernel 1\nand so on");
  const Outcome ours = hone({"db", "gc"}, cached());
  EXPECT_THAT(ours.out, AllOf(HasSubstr("made by lowering 0123456789abcdef of llvm-"), HasSubstr("dropped 1 of 6; ")));
  const Outcome all = hone({"db", "gc", "--other-builds"}, cached());
  EXPECT_THAT(all.out,
              AllOf(HasSubstr("made by llvm-1.2.3/4, this build has llvm-"), HasSubstr("this build has no cuda"),
                    HasSubstr("'hone-kernel 1'"), HasSubstr("dropped 3 of 5; ")));
  EXPECT_THAT(entries(), SizeIs(2));
  EXPECT_THAT(hone({"info"}, cached()).out, HasSubstr("(2 kernels, "));
  with('1', "lowering", "0");
  EXPECT_EQ(hone({"db", "gc"}, cached()).code, 0);
  EXPECT_THAT(hone({"info"}, cached()).out, HasSubstr("(1 kernel, "));
}

}  // namespace
}  // namespace hone::cli_test
