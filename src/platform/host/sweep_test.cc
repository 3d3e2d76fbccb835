#include "platform/host/sweep.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/host/node_files.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

TEST(Sweep, ALinkInAFoldersPlaceIsRemovedAndNotTheFilesBehindIt) {
  const TemporaryFolder root;
  const host::NodeFiles files{root / "node"};
  ASSERT_TRUE(make_folders(files.folder));
  ASSERT_TRUE(make_folders(root / "others"));
  ASSERT_TRUE(write_file(root / "others" / "thesis", "x"));
  fs::create_directory_symlink(root / "others", files.flight());
  ASSERT_TRUE(sweep_logs(files));
  EXPECT_TRUE(fs::exists(root / "others" / "thesis"));
  EXPECT_FALSE(fs::exists(files.folder));
}

}  // namespace
}  // namespace lockstep::host
