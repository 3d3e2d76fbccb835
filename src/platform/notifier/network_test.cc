// The addresses that a webhook may reach.
#include "platform/notifier/network.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::notifier {
namespace {

TEST(Networks, APublicAddressIsNoneOfAnyOtherKind) {
  const auto is_public_text = [](const std::string& text) {
    return is_public(parse_network(text).value().address);
  };
  for (const char* open : {"1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "100.128.0.0",
                           "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"})
    EXPECT_TRUE(is_public_text(open)) << open;
  for (const char* closed : {"0.0.0.0",
                             "10.1.2.3",
                             "127.0.0.1",
                             "127.255.255.255",
                             "169.254.169.254",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.168.0.1",
                             "100.64.0.1",
                             "192.0.2.1",
                             "198.18.0.1",
                             "224.0.0.1",
                             "240.0.0.1",
                             "255.255.255.255",
                             "::",
                             "::1",
                             "fe80::1",
                             "fd00::1",
                             "fc00::1",
                             "ff02::1",
                             "fec0::1",
                             "2001:db8::1",
                             "2002:a00:1::",
                             "2001::1",
                             "::ffff:10.0.0.1",
                             "::ffff:127.0.0.1",
                             "64:ff9b::a00:1",
                             "64:ff9b:1::1",
                             "::10.0.0.1"})
    EXPECT_FALSE(is_public_text(closed)) << closed;
}

TEST(Networks, ContainTheAddressesOfTheirBits) {
  const auto address = [](const std::string& text) { return parse_network(text).value().address; };
  const Network network = parse_network("10.1.128.0/17").value();
  EXPECT_TRUE(network.contains(address("10.1.200.1")));
  EXPECT_FALSE(network.contains(address("10.1.127.255")));
  EXPECT_TRUE(parse_network("0.0.0.0/0").value().contains(address("10.0.0.1")));
  EXPECT_FALSE(parse_network("0.0.0.0/0").value().contains(address("fd00::1")));
  EXPECT_TRUE(may_call(address("fd00::1"), {parse_network("fd00::/8").value()}));
  EXPECT_EQ(address_text(address("10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(address_text(address("fd00::1")), "fd00::1");
  for (const char* wrong :
       {"", "10.0.0.1/33", "::/129", "10.0.0/8", "a", "10.0.0.1/", "10.0.0.1/-1", "10.0.0.1/8x"})
    EXPECT_FALSE(parse_network(wrong)) << wrong;
}

}  // namespace
}  // namespace lockstep::notifier
