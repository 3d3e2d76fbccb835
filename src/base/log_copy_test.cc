#include "base/log_copy.h"

#include <array>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"

namespace lockstep {
namespace {

// In a process of its own, because the copy is for the whole process.
[[noreturn]] void copy_log() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) ::_exit(1);
  copy_log_to(ends[1]);
  LS_LOG(warning, "the first line");
  std::array<char, 4096> read{};
  const ssize_t n = ::read(ends[0], read.data(), read.size());
  const std::string text(read.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  if (text.find("warning: the first line\n") == std::string::npos) ::_exit(2);
  const std::string line(1000, 'x');
  for (int i = 0; i < 1000; ++i) log_line(LogLevel::info, line);
  ::_exit(0);
}

TEST(LogCopy, EachLineIsAlsoWrittenThereAndAFullPipeDelaysNothing) {
  EXPECT_EXIT(copy_log(), testing::ExitedWithCode(0), "the first line");
}

}  // namespace
}  // namespace lockstep
