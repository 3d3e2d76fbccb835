#include "net/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Target, SegmentsAndQueryAreDecodedOnce) {
  auto target = parse_request_target("/api/a%20b/%252e?q=x+y%2Bz&empty=&bare");
  EXPECT_THAT(target->path, ElementsAre("api", "a b", "%2e"));
  EXPECT_THAT(target->query, ElementsAre(Pair("bare", ""), Pair("empty", ""), Pair("q", "x y+z")));
}

TEST(Target, TheRootHasNoSegmentAndATrailingSlashAnEmptyOne) {
  EXPECT_THAT(parse_request_target("/")->path, IsEmpty());
  EXPECT_THAT(parse_request_target("/?a=1")->path, IsEmpty());
  EXPECT_THAT(parse_request_target("/runs/")->path, ElementsAre("runs", ""));
}

TEST(Target, WhatTwoReadersCouldTakeDifferentlyIsRefused) {
  for (std::string_view target : {"",           "runs",     "http://host/runs",
                                  "*",          "/a/../b",  "/a/%2e%2e/b",
                                  "/a/.%2E",    "/./a",     "/a%2fb",
                                  "/a%5cb",     "/a\\b",    "/a%00b",
                                  "/a%0ab",     "/a%7fb",   "/a%",
                                  "/a%4",       "/a%zz",    "/a%ff",
                                  "/a#b",       "/a?x=%00", "/a?x=%ff",
                                  "/a?x=1&x=2", "/a?x=%"})
    EXPECT_EQ(parse_request_target(target).error().code, Code::invalid) << target;
}

TEST(Target, EncodingAndDecodingAreInverse) {
  const std::string word = "a b%c?d=e&f+g\"<é>";
  EXPECT_EQ(parse_request_target("/" + percent_encode(word))->path[0], word);
  EXPECT_EQ(parse_request_target("/x?k=" + percent_encode(word))->query["k"], word);
}

TEST(Url, AddressesOfServersAreTakenApart) {
  EXPECT_EQ(parse_url("http://127.0.0.1:8080")->authority(), "127.0.0.1:8080");
  EXPECT_EQ(parse_url("http://node-1/")->authority(), "node-1:80");
  EXPECT_EQ(parse_url("http://[::1]:9")->authority(), "[::1]:9");
  EXPECT_EQ(parse_url("http://[::1]:9")->host, "::1");
}

TEST(Url, AnAddressOverTlsMayHaveAFingerprint) {
  const std::string digits(64, 'a');
  EXPECT_EQ(parse_url("https://node-1")->text(), "https://node-1:443");
  EXPECT_EQ(parse_url("https://node-1:9/#sha256:" + digits)->text(), "https://node-1:9");
  EXPECT_EQ(parse_url("https://node-1:9#sha256:" + digits)->fingerprint, digits);
  std::string with_colons = "AA";
  for (int i = 1; i < 32; ++i) with_colons += ":AA";
  EXPECT_EQ(parse_url("https://node-1#sha256:" + with_colons)->fingerprint, digits);
  for (const std::string& words :
       {"http://a#sha256:" + digits, "https://a#" + digits, "https://a#sha256:" + digits + "b",
        "https://a#sha256:g" + digits.substr(1), std::string("https://a#")})
    EXPECT_EQ(parse_url(words).error().code, Code::invalid) << words;
}

TEST(Url, TheHeaderHostHasNoPortThatIsTheSchemesOwn) {
  EXPECT_EQ(parse_url("https://id.example")->host_field(), "id.example");
  EXPECT_EQ(parse_url("http://[::1]")->host_field(), "[::1]");
  EXPECT_EQ(parse_url("https://id.example:80")->host_field(), "id.example:80");
  EXPECT_EQ(parse_url("http://127.0.0.1:8080")->host_field(), "127.0.0.1:8080");
}

TEST(Url, OtherThingsAreRefused) {
  for (std::string_view words : {"", "127.0.0.1:80", "ftp://a", "https://", "http://", "http://a:",
                                 "http://a:0", "http://a:65536", "http://a:+1", "http://a:1x",
                                 "http://[::1", "http://a/b", "http://u@a", "http://a b"})
    EXPECT_EQ(parse_url(words).error().code, Code::invalid) << words;
}

TEST(Url, TheHostIsFoundWithoutItsPort) {
  EXPECT_EQ(*host_of("localhost"), "localhost");
  EXPECT_EQ(*host_of("[::1]:80"), "::1");
  EXPECT_FALSE(host_of("a:b").has_value());
  EXPECT_FALSE(host_of("").has_value());
}

TEST(Url, AnAddressThatOthersReachIsNotLoopback) {
  for (const char* here : {"127.0.0.1", "127.9.9.9", "::1"}) EXPECT_TRUE(is_loopback(here)) << here;
  for (const char* there : {"0.0.0.0", "10.0.0.1", "::", "fe80::1", "localhost", ""})
    EXPECT_FALSE(is_loopback(there)) << there;
}

}  // namespace
}  // namespace lockstep::net
