#include "platform/host/home_identity.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

class PlaceTest : public ::testing::Test {
 protected:
  PlaceTest() {
    fs::create_directory(first_.folder);
    EXPECT_TRUE(record_home_identity(first_));
  }

  const TemporaryFolder root_;
  const Home first_{.folder = root_ / "first"}, second_{.folder = root_ / "second"};
};

TEST_F(PlaceTest, AFolderThatWasRenamedIsTheSame) {
  fs::rename(first_.folder, second_.folder);
  fs::create_directory(first_.folder);
  EXPECT_EQ(home_identity_of(second_).value(), HomeIdentity::same);
  EXPECT_FALSE(original_home_of(second_).value());
  EXPECT_EQ(home_identity_of(first_).value(), HomeIdentity::same) << "it has none of its files";
}

TEST_F(PlaceTest, ACopyNamesItsOriginal) {
  fs::copy(first_.folder, second_.folder, fs::copy_options::recursive);
  EXPECT_EQ(home_identity_of(second_).value(), HomeIdentity::copied);
  EXPECT_EQ(original_home_of(second_).value(), first_.folder);
  EXPECT_EQ(home_identity_of(first_).value(), HomeIdentity::same);
}

TEST_F(PlaceTest, ACopyInTheOriginalsPlaceFindsItBesideIt) {
  const fs::path aside = root_ / "aside";
  fs::rename(first_.folder, aside);
  fs::copy(aside, first_.folder, fs::copy_options::recursive);
  EXPECT_EQ(home_identity_of(first_).value(), HomeIdentity::copied);
  EXPECT_EQ(original_home_of(first_).value(), aside);
}

TEST_F(PlaceTest, ACopyWithoutAnOriginalIsServedFromThenOn) {
  fs::copy(first_.folder, second_.folder, fs::copy_options::recursive);
  fs::remove_all(first_.folder);
  EXPECT_EQ(home_identity_of(second_).value(), HomeIdentity::copied);
  EXPECT_FALSE(original_home_of(second_).value());
  ASSERT_TRUE(record_home_identity(second_));
  EXPECT_EQ(home_identity_of(second_).value(), HomeIdentity::same);
}

TEST_F(PlaceTest, ADamagedFileIsNamed) {
  ASSERT_TRUE(write_file(first_.folder / "place.json", "{"));
  EXPECT_NE(home_identity_of(first_).error().message.find("place.json is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::host
