#include "db/owner.h"

#include <gmock/gmock.h>

#include "tests/db/db_testing.h"

namespace hone::db {
namespace {

namespace fs = std::filesystem;

// A /proc with what owners are made of.
class FakeProc : public Folder {
 public:
  FakeProc(const std::string& boot, const std::string& space) {
    fs::create_directories(path() + "/proc/sys/kernel/random");
    fs::create_directories(path() + "/proc/self/ns");
    spit(path() + "/proc/sys/kernel/random/boot_id", boot + "\n");
    fs::create_symlink(space, path() + "/proc/self/ns/pid");
  }
  void process(const std::string& folder, int pid, int start, char state = 'S', const std::string& name = "hone") {
    fs::create_directories(path() + "/proc/" + folder);
    std::string text = std::to_string(pid) + " (" + name + ") " + state;
    for (int i = 4; i <= 21; ++i) text += " 0";
    spit(path() + "/proc/" + folder + "/stat", text + " " + std::to_string(start) + " 0 0\n");
  }
};

TEST(DbOwner, NamesBootNamespaceProcessAndStart) {
  FakeProc proc("b00t", "pid:[7]");
  proc.process("self", 41, 999, 'S', "a) (b 1 2");
  EXPECT_EQ(process_owner(proc.path()), "b00t/pid:[7]/41/999");
}

TEST(DbOwner, GoneWhenTheProcessEndedOrItsPidIsAnothers) {
  FakeProc proc("b00t", "pid:[7]");
  const auto gone = [&](const std::string& owner) { return owner_is_gone(owner, 1000, 1001, proc.path()); };
  proc.process("41", 41, 999);
  EXPECT_FALSE(gone("b00t/pid:[7]/41/999"));
  EXPECT_TRUE(gone("b00t/pid:[7]/41/998")) << "the pid was used again";
  EXPECT_TRUE(gone("b00t/pid:[7]/42/999")) << "no such process";
  EXPECT_TRUE(gone("")) << "released";
  proc.process("43", 43, 5, 'Z');
  EXPECT_TRUE(gone("b00t/pid:[7]/43/5")) << "a zombie does no work";
}

// Where a pid says nothing, only silence does.
TEST(DbOwner, OtherHostsAndNamespacesAreGoneAfterTenMinutes) {
  FakeProc proc("b00t", "pid:[7]");
  for (const char* owner : {"other/pid:[7]/41/999", "b00t/pid:[8]/41/999", "nonsense", "/41/999", "//41/9"}) {
    EXPECT_FALSE(owner_is_gone(owner, 1000, 1600, proc.path())) << owner;
    EXPECT_TRUE(owner_is_gone(owner, 1000, 1601, proc.path())) << owner;
  }
  Folder without_proc;
  EXPECT_FALSE(owner_is_gone("b00t/pid:[7]/41/999", 1000, 1600, without_proc.path()));
  EXPECT_TRUE(owner_is_gone("b00t/pid:[7]/41/999", 1000, 1601, without_proc.path()));
}

TEST(DbOwner, ThisProcessIsNotGoneAndAnEndedChildIs) {
  EXPECT_FALSE(owner_is_gone(process_owner(), 0, 1)) << process_owner();
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  in_processes(1, [&](int) {
    const std::string owner = process_owner();
    return write(pipes[1], owner.data(), owner.size()) > 0 ? 0 : 1;
  });
  std::string owner(512, '\0');
  owner.resize(static_cast<size_t>(std::max<ssize_t>(0, read(pipes[0], owner.data(), owner.size()))));
  close(pipes[0]);
  close(pipes[1]);
  if (process_owner().front() == '/') GTEST_SKIP() << "/proc does not tell who runs";
  EXPECT_TRUE(owner_is_gone(owner, 1000, 1001)) << owner;
}

}  // namespace
}  // namespace hone::db
