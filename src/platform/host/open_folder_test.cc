#include "platform/host/open_folder.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

TEST(OpenFolder, IsFoundUnderItsNewPathWhateverTakesTheOldOne) {
  const TemporaryFolder root;
  fs::create_directory(root / "a");
  const OpenFolder kept(root / "a");
  fs::rename(root / "a", root / "b");
  fs::create_directory(root / "a");
  ASSERT_TRUE(write_file(kept.path() / "file", "word"));
  EXPECT_EQ(read_file(root / "b/file").value(), "word");
  EXPECT_FALSE(fs::exists(root / "a/file"));
}

TEST(OpenFolder, IsTheOneOfItsPathOnceItWasRemoved) {
  const TemporaryFolder root;
  fs::create_directory(root / "a");
  const OpenFolder kept(root / "a");
  fs::remove(root / "a");
  EXPECT_EQ(kept.path(), root / "a");
  EXPECT_EQ(OpenFolder(root / "never").path(), root / "never");
}

}  // namespace
}  // namespace lockstep::host
