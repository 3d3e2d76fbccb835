#include "base/os/environment.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class Programs : public ::testing::Test {
 protected:
  void write(const fs::path& name, unsigned mode) {
    EXPECT_TRUE(make_folders((folder_ / name).parent_path()));
    EXPECT_TRUE(write_file(folder_ / name, "", mode));
  }

  const TemporaryFolder folder_;
};

TEST_F(Programs, TheFirstInThePathThatMayBeExecutedIsFound) {
  write("a/train", 0600);
  write("b/train", 0700);
  write("c/train", 0700);
  const Environment environment = {{"PATH", "/none:a:b:" + (folder_ / "c").string()}};
  EXPECT_EQ(find_program("train", environment, folder_), folder_ / "b/train");
  EXPECT_FALSE(find_program("trial", environment, folder_));
}

TEST_F(Programs, AFolderIsNoProgram) {
  ASSERT_TRUE(make_folders(folder_ / "bin/train"));
  EXPECT_FALSE(find_program("train", {{"PATH", "bin"}}, folder_));
}

TEST_F(Programs, WithoutAPathTheSystemsFoldersAreSearched) {
  EXPECT_TRUE(find_program("sh", {}, folder_));
}

TEST(Environment, WhatTellsOfTheUserIsKnownByName) {
  EXPECT_TRUE(is_user_variable("HOME"));
  EXPECT_TRUE(is_user_variable("LC_ALL"));
  EXPECT_FALSE(is_user_variable("LD_PRELOAD"));
}

TEST(Environment, WhatTellsOfTheMachineIsKnownByName) {
  for (const auto* name : {"NCCL_IB_HCA", "TORCH_NCCL_TRACE_BUFFER_SIZE", "CUDA_VISIBLE_DEVICES",
                           "FI_PROVIDER", "NVIDIA_VISIBLE_DEVICES", "UCX_TLS", "LD_LIBRARY_PATH"})
    EXPECT_TRUE(is_node_variable(name)) << name;
  for (const auto* name : {"HOME", "LD_PRELOAD", "MY_NCCL_KEY", "NCCL", "LD_LIBRARY_PATH_64"})
    EXPECT_FALSE(is_node_variable(name)) << name;
}

}  // namespace
}  // namespace lockstep
