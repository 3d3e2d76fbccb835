#include "platform/artifacts/artifacts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::artifacts {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

const model::RunId kRun{"demo", 1}, kOther{"demo", 2};

class ArtifactsTest : public ::testing::Test {
 protected:
  Result<Artifact> put(const model::RunId& run, const std::string& path, std::string_view content) {
    auto incoming = artifacts_.begin().value();
    EXPECT_TRUE(incoming->add(content.substr(0, content.size() / 2)));
    EXPECT_TRUE(incoming->add(content.substr(content.size() / 2)));
    return artifacts_.add(run, path, *incoming);
  }
  std::string content(const model::RunId& run, const std::string& path) {
    const Fd file = artifacts_.open(artifacts_.find(run, path).value()).value();
    std::string bytes(100, '\0');
    bytes.resize(static_cast<std::size_t>(::read(file.get(), bytes.data(), bytes.size())));
    return bytes;
  }
  std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> all;
    for (const Artifact& one : artifacts_.list(kRun, folder).value())
      all.push_back(one.is_folder ? one.path + "/" : one.path);
    return all;
  }
  std::size_t files(const std::string& below) {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(home_.path() / "artifacts" / below))
      if (entry.is_regular_file()) ++count;
    return count;
  }

  const TemporaryFolder home_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  Artifacts artifacts_{*database_, home_.path() / "artifacts"};
};

TEST_F(ArtifactsTest, EqualContentsAreOneFile) {
  ASSERT_TRUE(put(kRun, "a/b.txt", "words"));
  ASSERT_TRUE(put(kRun, "c.txt", "words"));
  ASSERT_TRUE(put(kOther, "c.txt", "words"));
  EXPECT_EQ(files("files"), 1u);
  EXPECT_EQ(files("incoming"), 0u);
  EXPECT_EQ(content(kOther, "c.txt"), "words");
  EXPECT_TRUE(artifacts_.remove(kRun, "a").value());
  EXPECT_TRUE(artifacts_.remove(kOther, "c.txt").value());
  EXPECT_FALSE(artifacts_.clean_up().value());
  EXPECT_EQ(content(kRun, "c.txt"), "words");
  EXPECT_TRUE(artifacts_.remove(kRun, "c.txt").value());
  EXPECT_FALSE(artifacts_.remove(kRun, "c.txt").value());
  EXPECT_FALSE(artifacts_.clean_up().value());
  EXPECT_EQ(files("files"), 0u);
}

TEST_F(ArtifactsTest, AReplacedContentIsRemoved) {
  ASSERT_TRUE(put(kRun, "a", "one"));
  ASSERT_TRUE(put(kRun, "a", "two"));
  ASSERT_FALSE(artifacts_.clean_up().value());
  EXPECT_EQ(files("files"), 1u);
  EXPECT_EQ(content(kRun, "a"), "two");
}

TEST_F(ArtifactsTest, AFolderHasEachNameOnce) {
  for (const auto* path : {"a/b/c", "a/d", "a-b", "a.txt", "a/b/e"})
    ASSERT_TRUE(put(kRun, path, path));
  EXPECT_THAT(names(""), ElementsAre("a/", "a-b", "a.txt"));
  EXPECT_THAT(names("a"), ElementsAre("a/b/", "a/d"));
  EXPECT_THAT(names("a/b"), ElementsAre("a/b/c", "a/b/e"));
  EXPECT_THAT(names("no"), ElementsAre());
}

TEST_F(ArtifactsTest, APathIsAFileOrAFolder) {
  ASSERT_TRUE(put(kRun, "a/b", "x"));
  EXPECT_EQ(put(kRun, "a", "x").error().code, Code::invalid);
  EXPECT_EQ(put(kRun, "a/b/c", "x").error().code, Code::invalid);
  EXPECT_EQ(artifacts_.find(kRun, "a").error().code, Code::not_found);
}

TEST_F(ArtifactsTest, AnIncompleteContentIsRemoved) {
  {
    auto incoming = artifacts_.begin().value();
    ASSERT_TRUE(incoming->add("half"));
    EXPECT_EQ(files("incoming"), 1u);
  }
  EXPECT_EQ(files("incoming"), 0u);
  ASSERT_TRUE(write_file(home_.path() / "artifacts" / "incoming" / "7", "of a killed daemon"));
  const Artifacts next(*database_, home_.path() / "artifacts");
  EXPECT_FALSE(fs::exists(home_.path() / "artifacts" / "incoming"));
}

TEST(ArtifactPath, LeadsToNoOtherPlace) {
  EXPECT_EQ(checked_path("a/b c/\u00e9.txt").value(), "a/b c/\u00e9.txt");
  for (const std::string& path :
       {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("a/../b"),
        std::string("a//b"), std::string("a/"), std::string("./a"), std::string("a\\b"),
        std::string("a\0b", 3), std::string("%2e%2e/a"), std::string("a%2Fb"), std::string("\xff"),
        std::string(1001, 'a')})
    EXPECT_EQ(checked_path(path).error().code, Code::invalid) << path;
}

}  // namespace
}  // namespace lockstep::artifacts
