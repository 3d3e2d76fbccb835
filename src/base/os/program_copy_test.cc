#include "base/os/program_copy.h"

#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"

namespace lockstep {
namespace {

TEST(ProgramCopy, TheCopyHasTheSizeOfThisProgramAndCanBeRun) {
  const TemporaryFolder folder;
  const auto copy = folder.path() / "bin" / "program";
  ASSERT_TRUE(copy_own_program(copy));
  ASSERT_TRUE(copy_own_program(copy)) << "again";
  EXPECT_EQ(std::filesystem::file_size(copy), std::filesystem::file_size("/proc/self/exe"));
  const auto mode = std::filesystem::status(copy).permissions();
  EXPECT_NE(mode & std::filesystem::perms::others_exec, std::filesystem::perms::none);
}

TEST(ProgramCopy, AFolderThatCannotBeMadeIsNamed) {
  const auto copied = copy_own_program("/proc/no/program");
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("/proc/no"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
