#include "platform/agent/fetch/copy_folder.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "platform/agent/fetch/earlier_copies.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Gives 3 bytes at once.
class FolderOfTest : public UploadSource {
 public:
  void add(std::string path, const std::string& content, bool executable = false) {
    const std::string sha256 = net::sha256_hex(content);
    contents[sha256] = content;
    files.push_back({.path = std::move(path),
                     .sha256 = sha256,
                     .size = Bytes(std::ssize(content)),
                     .executable = executable});
  }
  Result<model::UploadManifest> manifest() override { return model::UploadManifest{files}; }
  Result<api::UploadParts> parts(const api::UploadPartsRequest& request) override {
    ++calls;
    api::UploadParts answer;
    std::size_t room = 3;
    for (const api::UploadPartName& name : request.parts) {
      if (room == 0) break;
      const std::string bytes =
          contents.at(name.sha256).substr(static_cast<std::size_t>(name.offset), room);
      room -= bytes.size();
      answer.parts.push_back(
          {name.sha256, name.offset,
           net::to_base64(std::as_bytes(std::span(bytes.data(), bytes.size())))});
    }
    return answer;
  }

  std::vector<model::UploadEntry> files;
  std::map<std::string, std::string> contents;
  int calls = 0;
};

class CopyFolderTest : public ::testing::Test {
 protected:
  Result<Bytes> copy() {
    return copy_folder(source_, folder(), [] { return false; });
  }
  fs::path folder() const { return root_ / "upload"; }
  std::string content(const std::string& path) const {
    return read_file(folder() / path).value_or("none");
  }
  unsigned mode(const std::string& path) const {
    struct stat info{};
    return ::stat((folder() / path).c_str(), &info) == 0 ? info.st_mode & 0777u : 0;
  }

  const TemporaryFolder root_;
  FolderOfTest source_;
};

TEST_F(CopyFolderTest, HasFilesModesAndLinks) {
  source_.add("a/b/data", "0123456789");
  source_.add("empty", "");
  source_.files.push_back({.path = "link", .link = "a/b"});
  source_.add("same", "0123456789", true);
  source_.add("train.sh", "#!", true);
  const auto copied = copy();
  ASSERT_TRUE(copied) << copied.error().message;
  EXPECT_EQ(*copied, 22_B);
  EXPECT_EQ(content("a/b/data"), "0123456789");
  EXPECT_EQ(content("empty"), "");
  EXPECT_EQ(content("link/data"), "0123456789");
  EXPECT_TRUE(fs::is_symlink(folder() / "link"));
  EXPECT_EQ(content("same"), "0123456789");
  EXPECT_EQ(mode("a/b/data"), 0600u);
  EXPECT_EQ(mode("same"), 0700u);
  EXPECT_EQ(mode("train.sh"), 0700u);
  EXPECT_LE(source_.calls, 5) << "each content comes once";
}

TEST_F(CopyFolderTest, IsFresh) {
  ASSERT_TRUE(make_folders(folder()));
  ASSERT_TRUE(write_file(folder() / "old", "old"));
  source_.add("new", "new");
  ASSERT_TRUE(copy());
  EXPECT_EQ(content("old"), "none");
  EXPECT_EQ(content("new"), "new");
}

TEST_F(CopyFolderTest, TakesWhatAnEarlierAttemptHasUnchanged) {
  const fs::path run = root_.path() / "run";
  for (const char* attempt : {"attempt-9/node-0", "attempt-10/node-1", "attempt-11/node-0"})
    ASSERT_TRUE(make_folders(run / attempt / "upload"));
  const auto earlier = earlier_copies(run / "attempt-11/node-0");
  EXPECT_THAT(earlier, ::testing::ElementsAre(run / "attempt-10/node-1/upload",
                                              run / "attempt-9/node-0/upload"));
  for (const char* name : {"a/same", "changed", "linked", "other"})
    source_.add(name, std::string("it is ") + name, true);
  ASSERT_TRUE(make_folders(earlier[0] / "a"));
  ASSERT_TRUE(write_file(earlier[0] / "changed", "it was changed!"));
  ASSERT_TRUE(write_file(earlier[0] / "linked.aside", "it is linked"));
  fs::create_symlink("linked.aside", earlier[0] / "linked");
  ASSERT_EQ(::mkfifo((earlier[0] / "other").c_str(), 0600), 0);
  ASSERT_TRUE(write_file(earlier[0] / "a/same", "it is a/same"));
  source_.contents.erase(net::sha256_hex("it is a/same"));  // asking for it would throw
  const auto copied = copy_folder(source_, folder(), [] { return false; }, earlier);
  ASSERT_TRUE(copied) << copied.error().message;
  for (const char* name : {"a/same", "changed", "linked", "other"})
    EXPECT_EQ(content(name), std::string("it is ") + name);
  EXPECT_EQ(mode("a/same"), 0700u);
}

TEST_F(CopyFolderTest, WritesNothingOutsideOfIt) {
  source_.add("../outside", "x");
  EXPECT_EQ(copy().error().code, Code::invalid);
  source_.files = {{.path = "a", .link = "/etc"}};
  EXPECT_EQ(copy().error().code, Code::invalid);
  source_.files = {{.path = "a", .link = "."}};
  source_.add("a/passwd", "x");
  EXPECT_EQ(copy().error().code, Code::invalid);
  EXPECT_FALSE(fs::exists(root_ / "outside"));
}

TEST_F(CopyFolderTest, ContentThatIsNotThatOfItsSumIsNamed) {
  source_.add("train.py", "0123456789");
  source_.contents.begin()->second = "012345678X";
  const auto refused = copy();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::corrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("train.py: its SHA-256"));
  source_.contents.begin()->second = "0123";
  EXPECT_EQ(copy().error().code, Code::corrupt);
}

TEST_F(CopyFolderTest, AHostThatRefusesAFileIsAnErrorOfTheHost) {
  ASSERT_TRUE(write_file(root_ / "file", ""));
  source_.add("a", "a");
  EXPECT_EQ(copy_folder(source_, root_ / "file" / "upload", [] { return false; }).error().code,
            Code::internal);
  EXPECT_EQ(copy_folder(source_, folder(), [] { return true; }).error().code, Code::cancelled);
}

}  // namespace
}  // namespace lockstep::agent
