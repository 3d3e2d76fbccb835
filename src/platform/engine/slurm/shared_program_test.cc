#include "platform/engine/slurm/shared_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::engine {
namespace {

namespace fs = std::filesystem;

class SharedProgram : public testing::Test {
 protected:
  SharedProgram()
      : home_(fs::temp_directory_path() / format("shared_program_test-{}", ::getpid())) {}
  ~SharedProgram() override { fs::remove_all(home_); }
  fs::path add_version(const std::string& name) const {
    const fs::path program = home_ / "bin" / name / "lockstep";
    EXPECT_TRUE(make_folders(program.parent_path()));
    EXPECT_TRUE(write_file(program, "a program"));
    return program;
  }
  const fs::path home_;
};

TEST_F(SharedProgram, OnlyTheOwnVersionStays) {
  const fs::path own = add_version("1-2"), old = add_version("0-1");
  const fs::path notes = home_ / "bin" / "mine" / "notes";
  EXPECT_TRUE(make_folders(notes.parent_path()));
  EXPECT_TRUE(write_file(notes, "a user's file"));
  remove_other_programs(home_, own);
  EXPECT_TRUE(fs::exists(own));
  EXPECT_FALSE(fs::exists(old.parent_path()));
  EXPECT_TRUE(fs::exists(notes));
}

TEST_F(SharedProgram, WithoutAFolderNothingHappens) {
  remove_other_programs(home_, home_ / "bin" / "1-2" / "lockstep");
  EXPECT_FALSE(fs::exists(home_));
}

}  // namespace
}  // namespace lockstep::engine
