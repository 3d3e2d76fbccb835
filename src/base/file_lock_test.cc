#include "base/file_lock.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/format.h"
#include "base/processes.h"
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

TEST_F(FileLockTest, TheHolderIsKnownWhileItHoldsIt) {
  auto lock = try_lock(file_).value();
  EXPECT_FALSE(holder_of_lock(file_)) << "it has not signed";
  ASSERT_TRUE(sign_lock(lock));
  EXPECT_EQ(holder_of_lock(file_), ::getpid());
  lock.reset();
  EXPECT_FALSE(holder_of_lock(file_));
}

TEST_F(FileLockTest, WhatADeadHolderLeftIsNotBelievedOfTheNext) {
  const auto self = find_process(::getpid()).value();
  const auto lock = try_lock(file_).value();
  // As a daemon wrote it that was killed, whose number this process has by chance.
  ASSERT_TRUE(write_file(folder_ / "left", format("{} {}\n", self.pid, self.started - 1)));
  const auto left = read_file(folder_ / "left").value();
  ASSERT_EQ(::pwrite(lock.get(), left.data(), left.size(), 0), std::ssize(left));
  EXPECT_FALSE(holder_of_lock(file_));
}

TEST_F(FileLockTest, AShorterSignatureLeavesNothingOfALongerOne) {
  const auto lock = try_lock(file_).value();
  const std::string longer(100, '7');
  ASSERT_EQ(::pwrite(lock.get(), longer.data(), longer.size(), 0), std::ssize(longer));
  ASSERT_TRUE(sign_lock(lock));
  EXPECT_EQ(holder_of_lock(file_), ::getpid());
}

}  // namespace
}  // namespace lockstep
