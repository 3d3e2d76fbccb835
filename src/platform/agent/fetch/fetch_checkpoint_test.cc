#include "platform/agent/fetch/fetch_checkpoint.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/checkpoint/format/tensor_file/data_file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kElements = 1000;  // of each file

// A checkpoint with two files, of which it gives 1,000 bytes at once.
class CheckpointOfHosts : public CheckpointSource {
 public:
  explicit CheckpointOfHosts(const fs::path& folder, char fill = 'x') : folder_(folder) {
    make_folders(folder).value();
    train::Manifest manifest;
    manifest.step = 200;
    manifest.ranks = 2;
    manifest.optimizer = train::kNoOptimizer;
    train::SavedTensor tensor;
    tensor.name = "parameter/w";
    tensor.shape = {2 * kElements};
    for (std::int64_t i : {0, 1}) {
      auto writer = train::DataWriter::create(folder / train::data_file_name(i)).value();
      writer.append(std::string(4 * kElements, fill)).value();
      manifest.files.push_back(std::move(writer).finish().value());
      tensor.slices.push_back({i * kElements, (i + 1) * kElements, i, 0});
    }
    manifest.tensors.push_back(tensor);
    write_file(folder / train::kManifestName, text(manifest)).value();
    for (const fs::path& path : list_folder(folder).value())
      chosen.files.push_back(
          {path.filename().string(), static_cast<std::int64_t>(fs::file_size(path))});
    chosen.step = 200;
    chosen.manifest = net::sha256_hex(read_file(folder / train::kManifestName).value());
  }
  Result<api::NodeCheckpoint> choice() override { return chosen; }
  Result<api::CheckpointPart> part(const api::CheckpointPartRequest& request) override {
    ++parts[request.name];
    if (request.damaged) damaged.push_back(request.name + " on " + *request.damaged);
    const bool is_second = !damaged.empty() && second_host;
    if (!damaged.empty() && !second_host) return Error{Code::corrupt, "no host has another"};
    const fs::path& folder = is_second ? *second_host : folder_;
    const std::string content = read_file(folder / request.name).value();
    const std::string bytes = content.substr(static_cast<std::size_t>(request.offset), 1000);
    return api::CheckpointPart{net::to_base64(std::as_bytes(std::span(bytes.data(), bytes.size()))),
                               is_second ? "b" : "a"};
  }

  api::NodeCheckpoint chosen;
  std::map<std::string, int> parts;
  std::vector<std::string> damaged;     // of which it was told
  std::optional<fs::path> second_host;  // gives parts once a file is damaged

 private:
  const fs::path folder_;
};

class FetchCheckpointTest : public ::testing::Test {
 protected:
  Result<std::string> fetch(CheckpointSource& source) {
    return fetch_checkpoint(source, folder(), "fetched-2-0", [] { return false; });
  }
  fs::path folder() const { return root_ / "checkpoints"; }
  bool is_whole() const {
    const auto saved = train::SavedCheckpoint::open(folder() / "step-00000200");
    return saved && saved->verify();
  }
  std::size_t entries() const { return list_folder(folder()).value().size(); }

  const TemporaryFolder root_;
  CheckpointOfHosts source_{root_ / "source"};
};

TEST_F(FetchCheckpointTest, AHostWithoutItGetsAllOfIt) {
  source_.chosen.note = "of step 300 a host is missing";
  const auto note = fetch(source_);
  ASSERT_TRUE(note) << note.error().message;
  EXPECT_EQ(*note, "of step 300 a host is missing");
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(entries(), 1u);
  source_.parts.clear();
  ASSERT_TRUE(fetch(source_));
  EXPECT_TRUE(source_.parts.empty()) << "it is there";
}

TEST_F(FetchCheckpointTest, AHostWithAPartOfItGetsTheRest) {
  ASSERT_TRUE(fetch(source_));
  fs::remove(folder() / "step-00000200" / "rank-0001.bin");
  source_.parts.clear();
  ASSERT_TRUE(fetch(source_));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(source_.parts.size(), 1u);
  EXPECT_EQ(source_.parts.begin()->first, "rank-0001.bin");
}

TEST_F(FetchCheckpointTest, ACheckpointOfAnotherAttemptIsReplaced) {
  ASSERT_TRUE(fetch(source_));
  CheckpointOfHosts other(root_ / "other", 'y');
  ASSERT_TRUE(fetch(other));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(entries(), 1u);
  EXPECT_THAT(read_file(folder() / "step-00000200" / "rank-0000.bin").value(), HasSubstr("yyyy"));
}

TEST_F(FetchCheckpointTest, DamagedFilesDoNotBecomeACheckpoint) {
  ASSERT_TRUE(write_file(root_ / "source" / "rank-0001.bin", std::string(4 * kElements, 'z')));
  const auto refused = fetch(source_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the checkpoint of step 200"));
  EXPECT_THAT(source_.damaged, ElementsAre("rank-0001.bin on a"));
  EXPECT_FALSE(fs::exists(folder() / "step-00000200"));
}

TEST_F(FetchCheckpointTest, ADamagedFileIsFetchedFromAnotherHost) {
  fs::copy(root_ / "source", root_ / "second");
  source_.second_host = root_ / "second";
  ASSERT_TRUE(write_file(root_ / "source" / "rank-0001.bin", std::string(4 * kElements, 'z')));
  const auto fetched = fetch(source_);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_THAT(source_.damaged, ElementsAre("rank-0001.bin on a"));
  EXPECT_TRUE(is_whole());
}

TEST_F(FetchCheckpointTest, AFileThatIsDamagedOnThisHostIsReplaced) {
  ASSERT_TRUE(fetch(source_));
  const fs::path file = folder() / "step-00000200" / "rank-0001.bin";
  ASSERT_TRUE(write_file(file, std::string(fs::file_size(file), 'z')));
  source_.parts.clear();
  ASSERT_TRUE(fetch(source_));
  EXPECT_TRUE(is_whole());
  EXPECT_EQ(source_.parts.size(), 1u);
}

TEST_F(FetchCheckpointTest, NamesThatLeadOutOfTheFolderAreRefused) {
  for (const char* name : {"../x", "a/b", "", ".", "..", ".hidden"}) {
    source_.chosen.files.push_back({name, 1});
    EXPECT_EQ(fetch(source_).error().code, Code::corrupt) << name;
    source_.chosen.files.pop_back();
  }
}

TEST_F(FetchCheckpointTest, NoCheckpointIsNothingToDo) {
  source_.chosen = {};
  EXPECT_EQ(fetch(source_).value(), "");
  EXPECT_FALSE(fs::exists(folder()));
}

}  // namespace
}  // namespace lockstep::agent
