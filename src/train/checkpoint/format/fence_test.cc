#include "train/checkpoint/format/fence.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "train/checkpoint/format/layouts_for_test.h"

namespace lockstep {
namespace {

using namespace layouts_for_test;

TEST(Fence, TellsWhenItHasBeenOvertaken) {
  const Folder folder;
  const auto fence = Fence::claim(folder, 1).value();
  ASSERT_TRUE(fence.check());
  ASSERT_EQ(Fence::claim(folder, std::nullopt).value().epoch(), 2);
  EXPECT_EQ(fence.check().error().code, Code::denied);
}

TEST(Fence, IsNotClaimedWhileTheFoldersLockIsHeld) {
  const Folder folder;
  const auto fence = Fence::claim(folder, 1).value();
  std::atomic<bool> released = false;
  auto lock = fence.lock().value();
  std::thread other([&] {
    EXPECT_EQ(Fence::claim(folder, 2).value().epoch(), 2);
    EXPECT_TRUE(released);
  });
  EXPECT_TRUE(fence.check());
  released = true;
  lock.reset();
  other.join();
}

TEST(Fence, OvertakenNothingIsMadeVisibleAndNothingDeleted) {
  const Folder folder;
  const auto old = Fence::claim(folder, 1).value();
  ASSERT_TRUE(save(folder, old, layouts()[0], 1));
  ASSERT_TRUE(save(folder, old, layouts()[0], 2));
  ASSERT_TRUE(Fence::claim(folder, 2));
  EXPECT_EQ(save(folder, old, layouts()[0], 3).error().code, Code::denied);
  EXPECT_EQ(prune_checkpoints(folder, old, 1).error().code, Code::denied);
  discard_unfinished(folder, 3, 1);
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{".lock", "EPOCH", "step-00000001", "step-00000002"}));
}

TEST(Unfinished, IsNotMadeVisibleWhereAHostWroteElsewhere) {
  const Folder folder;
  const auto fence = Fence::claim(folder, 1).value();
  Manifest manifest;
  manifest.step = 1;
  manifest.files = {{data_file_name(0), 0, {}}};
  ASSERT_TRUE(make_folders(unfinished_path(folder, 1, 1)));
  const auto committed = commit_checkpoint(folder, fence, manifest);
  ASSERT_FALSE(committed);
  EXPECT_NE(committed.error().message.find("is the folder the same one on all hosts?"),
            std::string::npos)
      << committed.error().message;
}

}  // namespace
}  // namespace lockstep
