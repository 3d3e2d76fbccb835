#include "base/os/file_lock.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep {
namespace {

class FileLockTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "lock";
};

TEST_F(FileLockTest, OneHoldsItAndOthersSeeThat) {
  EXPECT_FALSE(is_locked(file_));
  auto lock = try_lock(file_).value();
  EXPECT_TRUE(is_locked(file_));
  EXPECT_FALSE(*try_lock(file_));
  lock.reset();
  EXPECT_FALSE(is_locked(file_));
  EXPECT_TRUE(*try_lock(file_));
}

TEST_F(FileLockTest, WhoLooksAllTheTimeKeepsNobodyFromTakingIt) {
  (void)try_lock(file_).value();
  std::atomic<bool> over = false;
  std::thread looker([&] {
    while (!over) (void)is_locked(file_);
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(*try_lock(file_)) << i;
  over = true;
  looker.join();
}

TEST_F(FileLockTest, WhoHasPatienceGetsItWhenItIsLetGo) {
  auto held = try_lock(file_).value();
  bool taken = false;
  std::thread other([&] { taken = static_cast<bool>(*try_lock(file_, std::chrono::seconds(20))); });
  held.reset();
  other.join();
  EXPECT_TRUE(taken);
}

// Takes the lock in a separate process, which ends when the object does.
class Holder {
 public:
  Holder(const std::filesystem::path& file, bool signs) {
    int ready[2], go[2];
    EXPECT_EQ(::pipe(ready) + ::pipe(go), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto lock = try_lock(file);
      const bool held = lock && *lock && (!signs || record_lock_owner(*lock));
      char word = held ? 'y' : 'n';
      ::close(go[1]);
      if (::write(ready[1], &word, 1) == 1) (void)!::read(go[0], &word, 1);
      ::_exit(0);
    }
    ::close(ready[1]);
    ::close(go[0]);
    char word = 'n';
    EXPECT_EQ(::read(ready[0], &word, 1), 1);
    EXPECT_EQ(word, 'y');
    ::close(ready[0]);
    go_ = go[1];
  }
  ~Holder() {
    ::close(go_);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int go_ = -1;
};

TEST_F(FileLockTest, TheHolderIsKnownWhileItHoldsIt) {
  {
    const Holder holder(file_, true);
    EXPECT_TRUE(is_locked(file_));
    EXPECT_EQ(lock_owner(file_), holder.pid());
  }
  EXPECT_FALSE(is_locked(file_));
  EXPECT_FALSE(lock_owner(file_));
}

TEST_F(FileLockTest, AHolderThatHasNotSignedIsNotNamed) {
  const Holder holder(file_, false);
  EXPECT_TRUE(is_locked(file_));
  EXPECT_FALSE(lock_owner(file_));
}

TEST_F(FileLockTest, ASignatureLeavesTheContentAsItIs) {
  ASSERT_TRUE(write_file(file_, "content"));
  const Holder holder(file_, true);
  EXPECT_EQ(read_file(file_).value(), "content");
  EXPECT_EQ(lock_owner(file_), holder.pid());
}

}  // namespace
}  // namespace lockstep
