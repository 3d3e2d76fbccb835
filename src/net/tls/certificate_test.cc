#include "net/tls/certificate.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/detail/tls_peer_for_test.h"

namespace lockstep::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Certificate, IsReadAsItWasIssued) {
  const Time begin = *parse_time("2026-01-01T00:00:00Z"), end = *parse_time("2027-01-01T00:00:00Z");
  const TlsIdentity authority = authority_for_test({begin, end});
  const TlsIdentity made =
      identity_for_test(authority, {"head.example", "10.1.2.3", "fd00::1"}, {begin, end});
  const auto read = read_certificates(made.certificates).value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_THAT(read[0].names, ElementsAre("head.example", "10.1.2.3", "fd00::1"));
  EXPECT_EQ(read[0].begin, begin);
  EXPECT_EQ(read[0].end, end);
  EXPECT_EQ(read[0].fingerprint.size(), 64u);
  EXPECT_EQ(read[1].fingerprint, fingerprint_for_test(authority));
  EXPECT_TRUE(check_identity(made).has_value());
}

TEST(Certificate, TwoOfTheSameTermsDiffer) {
  EXPECT_NE(fingerprint_for_test(authority_for_test()), fingerprint_for_test(authority_for_test()));
}

TEST(Certificate, ANameThatIsNoneIsRefused) {
  const TlsIdentity authority = authority_for_test();
  for (std::string name : {"a,DNS:b", "a b", "", "a:80"})
    EXPECT_EQ(
        issue_certificate(authority, {.subject = "x", .names = {name}, .begin = {}, .end = {}})
            .error()
            .code,
        Code::invalid)
        << name;
}

TEST(Certificate, WhatIsNoIdentityIsRefusedWithTheReason) {
  const TlsIdentity authority = authority_for_test();
  const TlsIdentity one = identity_for_test(authority), other = identity_for_test(authority);
  EXPECT_THAT(check_identity({one.certificates, other.key}).error().message,
              HasSubstr("the key is not that of the first certificate"));
  EXPECT_THAT(check_identity({"", one.key}).error().message, HasSubstr("no certificate"));
  EXPECT_THAT(check_identity({one.certificates, ""}).error().message, HasSubstr("private key"));
  const std::string cut = one.certificates.substr(0, one.certificates.size() - 100);
  EXPECT_FALSE(check_identity({cut, one.key}).has_value());
}

}  // namespace
}  // namespace lockstep::net
