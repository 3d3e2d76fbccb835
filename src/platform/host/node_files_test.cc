#include "platform/host/node_files.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"

namespace lockstep::host {
namespace {

// Sets $XDG_RUNTIME_DIR for a test, and restores it afterwards.
class SocketFoldersTest : public ::testing::Test {
 protected:
  SocketFoldersTest() {
    if (const char* before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
  }
  ~SocketFoldersTest() override { ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1); }

  static void set(const std::string& base) { ::setenv("XDG_RUNTIME_DIR", base.c_str(), 1); }

  std::string before_;
};

TEST(NodeFiles, ANodesFolderIsFoundByItsName) {
  const model::NodeName node{"0f5c", model::parse_node_id("demo/42.2/1").value()};
  EXPECT_EQ(node_folder("/home/x", node), "/home/x/runs/0f5c/demo/42/attempt-2/node-1");
  // Created before stores had generations.
  EXPECT_EQ(node_folder("/home/x", {"", node.id}), "/home/x/runs/demo/42/attempt-2/node-1");
  const NodeFiles files{node_folder("/h", node)};
  EXPECT_EQ(files.launch_file(), "/h/runs/0f5c/demo/42/attempt-2/node-1/launch.json");
  EXPECT_EQ(files.rank_log(12).filename(), "rank-12.log");
}

TEST_F(SocketFoldersTest, AreTheSameForAllWhoKnowTheToken) {
  set("/run/user/7");
  const auto folders = socket_folders("0123456789abcdef:demo/42.2/1");
  EXPECT_EQ(folders, socket_folders("0123456789abcdef:demo/42.2/1"));
  EXPECT_NE(folders, socket_folders("0123456789abcdef:demo/42.2/0"));
  const std::string name = format("lockstep-{}-", ::geteuid());
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[0].parent_path(), "/run/user/7");
  EXPECT_EQ(folders[1].parent_path(), "/tmp");
  for (const auto& folder : folders) {
    EXPECT_THAT(folder.filename().string(), ::testing::StartsWith(name));
    EXPECT_EQ(folder.filename().string().size(), name.size() + 16);
  }
}

TEST_F(SocketFoldersTest, AreWhereTheSocketsOfTheHighestRankFit) {
  set("/" + std::string(90, 'x'));
  const auto folders = socket_folders("token");
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(folders[0].parent_path(), "/tmp");
  EXPECT_LE(report_socket(folders[0], 2'000'000'000).native().size(), 107u);
}

TEST_F(SocketFoldersTest, AreInTmpAloneWithoutARuntimeFolder) {
  set("");
  EXPECT_EQ(socket_folders("token").size(), 1u);
  set("relative");
  EXPECT_EQ(socket_folders("token").size(), 1u);
}

}  // namespace
}  // namespace lockstep::host
