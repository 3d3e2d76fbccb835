#include "platform/k8s/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::k8s {
namespace {

using testing::HasSubstr;

TEST(Names, OfServicesBeginWithALetterAndAreShort) {
  for (const char* good : {"a", "train", "train-1", "a0"})
    EXPECT_TRUE(check_dns_label(good)) << good;
  for (const char* bad : {"", "1a", "-a", "a-", "A", "a_b", "a.b", "ü"})
    EXPECT_FALSE(check_dns_label(bad)) << bad;
  EXPECT_TRUE(check_dns_label("abcde", 5));
  EXPECT_FALSE(check_dns_label("abcdef", 5));
}

TEST(Names, OfOtherObjectsMayHaveDots) {
  for (const char* good : {"a", "0", "a.b-c.d", "kube-root-ca.crt"})
    EXPECT_TRUE(check_object_name(good)) << good;
  for (const char* bad : {"", ".a", "a.", "a..b", "A", "a/b"})
    EXPECT_FALSE(check_object_name(bad)) << bad;
}

TEST(Names, OfVariablesDoNotBeginWithADigit) {
  EXPECT_TRUE(check_variable("NCCL_DEBUG"));
  for (const char* bad : {"", "1A", "A B", "A=B"}) EXPECT_FALSE(check_variable(bad)) << bad;
}

TEST(Names, KeysOfLabelsMayHaveADnsPrefix) {
  for (const char* good : {"team", "example.com/team", "nvidia.com/gpu.product", "A_b.c"})
    EXPECT_TRUE(check_key(good)) << good;
  for (const char* bad : {"", "/team", "example.com/", "a/b/c", "UPPER/team", "-a"})
    EXPECT_FALSE(check_key(bad)) << bad;
}

TEST(Names, ALabelMayHaveNoValueAndItsValueIsShort) {
  EXPECT_EQ(parse_label("team=").value(), KeyValue("team", ""));
  EXPECT_EQ(parse_label("team=a").value(), KeyValue("team", "a"));
  EXPECT_FALSE(parse_label("team"));
  EXPECT_FALSE(parse_label("team=a b"));
  EXPECT_FALSE(parse_label("team=" + std::string(64, 'a')));
}

TEST(Names, AValueMayContainTheSignOfItsEnd) {
  EXPECT_EQ(parse_key_value("A=b=c").value(), KeyValue("A", "b=c"));
}

TEST(Quantities, AreThoseOfKubernetes) {
  for (const char* good : {"2", "0.5", "500m", "64Gi", "100G", "1Ei"})
    EXPECT_EQ(parse_quantity(good).value(), good);
  for (const char* bad : {"", "Gi", "-1", "1.", ".5", "1KiB2", "64gi", "1e", "B"})
    EXPECT_FALSE(parse_quantity(bad)) << bad;
}

TEST(Quantities, MayBeWrittenAsInRuns) {
  EXPECT_EQ(parse_quantity("64 GiB").value(), "64Gi");
  EXPECT_EQ(parse_quantity("100GB").value(), "100G");
  EXPECT_THAT(parse_quantity("much").error().message, HasSubstr("'much'"));
}

}  // namespace
}  // namespace lockstep::k8s
