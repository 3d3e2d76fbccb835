#include "platform/host_service/checkpoint_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/host/node_files.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/tensor_file/data_file.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const model::RunId kSavedRun{"demo", 1};

class CheckpointFilesTest : public ::testing::Test {
 protected:
  fs::path folder() const { return host::default_checkpoint_folder(home_, "", kSavedRun); }
  void save(std::int64_t step) {
    const fs::path path = folder() / train::checkpoint_name(step);
    ASSERT_TRUE(make_folders(path));
    train::Manifest manifest;
    manifest.step = step;
    manifest.epoch = 3;
    manifest.optimizer = train::kNoOptimizer;
    auto writer = train::DataWriter::create(path / "rank-0000.bin").value();
    ASSERT_TRUE(writer.append("12345678"));
    manifest.files.push_back(std::move(writer).finish().value());
    manifest.tensors.push_back({.name = "parameter/w", .shape = {2}, .slices = {{0, 2, 0, 0}}});
    ASSERT_TRUE(write_file(path / train::kManifestName, text(manifest)));
  }
  api::HostFileAnswer ask(std::optional<api::CheckpointPartRequest> part = {}) {
    return carry_out(home_, {.number = 7, .run = "demo/1", .part = std::move(part)});
  }

  const TemporaryFolder home_;
};

TEST_F(CheckpointFilesTest, TheNewestAreListedWithWhatIsMissing) {
  EXPECT_THAT(ask().checkpoints, IsEmpty());
  save(100);
  save(200);
  fs::remove(folder() / "step-00000200" / "rank-0000.bin");
  const auto answer = ask();
  EXPECT_EQ(answer.number, 7);
  EXPECT_EQ(answer.error, "");
  ASSERT_EQ(answer.checkpoints.size(), 2u);
  EXPECT_EQ(answer.checkpoints[0].step, 200);
  EXPECT_EQ(answer.checkpoints[0].epoch, 3);
  EXPECT_THAT(answer.checkpoints[0].missing, ElementsAre("rank-0000.bin"));
  EXPECT_THAT(answer.checkpoints[1].missing, IsEmpty());
  ASSERT_EQ(answer.checkpoints[1].files.size(), 2u);
  EXPECT_EQ(answer.checkpoints[1].files[1].name, "rank-0000.bin");
  EXPECT_EQ(answer.checkpoints[1].files[1].size, 8);
}

TEST_F(CheckpointFilesTest, ADamagedManifestIsLeftOut) {
  save(100);
  ASSERT_TRUE(write_file(folder() / "step-00000100" / "manifest.json", "{"));
  EXPECT_THAT(ask().checkpoints, IsEmpty());
}

TEST_F(CheckpointFilesTest, APartIsSentFromItsOffset) {
  save(100);
  EXPECT_EQ(ask({{100, "rank-0000.bin", 5}}).bytes, "Njc4");
  EXPECT_EQ(ask({{100, "rank-0000.bin", 8}}).bytes, "");
}

TEST_F(CheckpointFilesTest, NoOtherFileIsSent) {
  save(100);
  ASSERT_TRUE(write_file(home_ / "key", "secret"));
  for (const char* name : {"../../../../../key", "..", "", "a/b"})
    EXPECT_THAT(ask({{100, name, 0}}).error, HasSubstr("no file")) << name;
  fs::create_symlink(home_ / "key", folder() / "step-00000100" / "link");
  EXPECT_NE(ask({{100, "link", 0}}).error, "");
  EXPECT_NE(ask({{100, "rank-0001.bin", 0}}).error, "");
  EXPECT_NE(carry_out(home_, {.number = 1, .generation = "../..", .run = "demo/1"}).error, "");
}

}  // namespace
}  // namespace lockstep::host_service
