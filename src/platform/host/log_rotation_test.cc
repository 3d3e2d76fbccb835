#include "platform/host/log_rotation.h"

#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

// Redirects standard error to the log during a test.
class OwnLogTest : public ::testing::Test {
 protected:
  OwnLogTest() : log_(home_ / "daemon.log"), kept_(::dup(STDERR_FILENO)) {
    const auto file = open_file(log_, O_WRONLY | O_CREAT | O_APPEND).value();
    ::dup2(file.get(), STDERR_FILENO);
  }
  ~OwnLogTest() override { ::dup2(kept_.get(), STDERR_FILENO); }
  static void say(const std::string& words) { (void)write_all(STDERR_FILENO, words); }

  const TemporaryFolder home_;
  const fs::path log_;
  Fd kept_;
};

TEST_F(OwnLogTest, ItIsKeptToItsLimitAndOneOlderFile) {
  for (int i = 0; i < 50; ++i) {
    say(std::string(300, static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(rotate_own_log(log_, 1_KiB));
  }
  say("last");
  EXPECT_LE(fs::file_size(log_), 1324u);
  EXPECT_LE(fs::file_size(log_.string() + ".1"), 1324u);
  EXPECT_TRUE(read_file(log_)->ends_with("last"));
  std::size_t logs = 0;
  for (const auto& file : fs::directory_iterator(home_.path()))
    logs += file.path().filename().string().starts_with("daemon.log") ? 1 : 0;
  EXPECT_EQ(logs, 2u);
}

TEST_F(OwnLogTest, AFileThatStandardErrorDoesNotGoToIsNotTouched) {
  const fs::path other = home_ / "other.log";
  ASSERT_TRUE(write_file(other, std::string(5000, 'x')));
  ASSERT_TRUE(rotate_own_log(other, 1_KiB));
  EXPECT_EQ(fs::file_size(other), 5000u);
  EXPECT_FALSE(fs::exists(other.string() + ".1"));
}

}  // namespace
}  // namespace lockstep::host
