#include "platform/core/model/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

UploadEntry upload_file(std::string path, Bytes size = 1_B) {
  return {.path = std::move(path), .sha256 = std::string(64, 'a'), .size = size};
}
UploadEntry upload_link(std::string path, std::string target) {
  return {.path = std::move(path), .link = std::move(target)};
}
std::string refusal_of_upload(std::vector<UploadEntry> files) {
  const auto checked = check(UploadManifest{std::move(files)});
  return checked ? "" : checked.error().message;
}

TEST(Upload, FilesAndLinksWithinTheFolderAreAccepted) {
  EXPECT_EQ(refusal_of_upload({upload_file(".env"), upload_file("a b/train.py"),
                               upload_link("data", "sets/one"), upload_file("sets/one/0"),
                               upload_link("sets/up", "../data")}),
            "");
}

TEST(Upload, NamesThatLeadOutOfTheFolderAreRefused) {
  for (const char* path :
       {"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a/.", ".."})
    EXPECT_THAT(refusal_of_upload({upload_file(path)}), HasSubstr("within the folder")) << path;
  EXPECT_THAT(refusal_of_upload({upload_file(std::string("a\0b", 3))}), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal_of_upload({upload_file("\xff")}), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal_of_upload({upload_file(std::string(300, 'a'))}), Not(""));
}

TEST(Upload, LinksThatLeadOutOfTheFolderAreRefused) {
  for (const char* target : {"", "/etc", "..", "../x", "a/../../x"})
    EXPECT_THAT(refusal_of_upload({upload_link("link", target)}), HasSubstr("out of the folder"))
        << target;
  EXPECT_EQ(link_target("a/b/link", "../c/./d"), "a/c/d");
  EXPECT_EQ(link_target("a/link", ".."), "");
}

TEST(Upload, NothingIsBelowALinkOrAFile) {
  EXPECT_THAT(refusal_of_upload({upload_link("a", "b"), upload_file("a/passwd")}),
              HasSubstr("below a file or a link"));
  EXPECT_THAT(refusal_of_upload({upload_link("a", "b"), upload_file("a-1"), upload_file("a/b/c")}),
              HasSubstr("below"));
}

TEST(Upload, APathIsThereOnceAndHasItsSum) {
  EXPECT_THAT(refusal_of_upload({upload_file("a"), upload_file("a")}), HasSubstr("order"));
  EXPECT_THAT(refusal_of_upload({upload_file("b"), upload_file("a")}), HasSubstr("order"));
  EXPECT_THAT(refusal_of_upload({{.path = "a", .sha256 = "../../x"}}), HasSubstr("SHA-256"));
  EXPECT_THAT(refusal_of_upload({upload_file("a", Bytes(-1))}), HasSubstr("size"));
}

TEST(Upload, AFolderThatIsTooLargeIsRefusedWithItsLargestFiles) {
  const UploadManifest manifest{{upload_file("big", 3_MiB), upload_file("small", 1_KiB)}};
  EXPECT_TRUE(check_limits(manifest, 4_MiB));
  const auto refused = check_limits(manifest, 1_MiB);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("big (3.0 MiB), small (1.0 KiB)"), HasSubstr("upload_limit")));
  UploadManifest many;
  for (std::size_t i = 0; i <= kUploadFilesMax; ++i)
    many.files.push_back(upload_file(format("{}", i)));
  EXPECT_FALSE(check_limits(many, 1_GiB));
}

}  // namespace
}  // namespace lockstep::model
