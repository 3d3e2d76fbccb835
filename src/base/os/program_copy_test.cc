#include "base/os/program_copy.h"

#include <filesystem>
#include <set>
#include <string>

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

TEST(ProgramCopy, TheLibrariesComeWithTheProgramButNotThoseOfTheSystem) {
  const TemporaryFolder folder;
  ASSERT_TRUE(copy_own_installation(folder));
  EXPECT_TRUE(std::filesystem::exists(folder / "bin/lockstep"));
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder / "lib"))
    names.insert(file.path().filename().string());
  EXPECT_EQ(names.count("libfmt.so.9"), 1u);
  EXPECT_EQ(names.count("libc.so.6"), 0u);
  EXPECT_EQ(names.count("libstdc++.so.6"), 0u);
}

TEST(ProgramCopy, AFolderThatCannotBeMadeIsNamed) {
  const auto copied = copy_own_program("/proc/no/program");
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("/proc/no"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
