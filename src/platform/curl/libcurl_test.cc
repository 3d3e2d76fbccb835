#include "platform/curl/libcurl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::curl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(LoadLibcurl, AHostWithoutItIsToldThePackageToInstall) {
  const auto loaded = load_libcurl_from("libcurl-missing.so.4");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::unavailable);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("libcurl-missing.so.4: cannot open"),
                    HasSubstr("`apt-get install libcurl4`"), Not(HasSubstr("\n"))));
}

TEST(LoadLibcurl, ALibraryOfOtherFunctionsIsNotIt) {
  const auto loaded = load_libcurl_from("libm.so.6");
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("it has no curl_global_init"));
}

TEST(LoadLibcurl, ThisHostHasIt) { EXPECT_TRUE(load_libcurl()); }

}  // namespace
}  // namespace lockstep::curl
