#include "net/base64.h"

#include <gtest/gtest.h>

namespace lockstep::net {
namespace {

std::string encoded(std::string_view words) { return to_base64(std::as_bytes(std::span(words))); }

// RFC 4648, section 10.
TEST(Base64, HasTheExamplesOfItsDefinition) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
}

TEST(Base64, HasNoCharactersOfUrlsInItsFormForThem) {
  const std::string bytes = "\xfb\xff\xfe\x01";
  EXPECT_EQ(encoded(bytes), "+//+AQ==");
  EXPECT_EQ(to_base64url(std::as_bytes(std::span(bytes))), "-__-AQ");
}

TEST(Base64, BytesComeBackAsTheyWere) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes.push_back(static_cast<std::byte>(i * 7));
  }
}

TEST(Base64, WhatItNeverWritesItDoesNotRead) {
  for (const auto* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "====", "=", "Zg==Zg==", "Zm 9",
                           "Z-_/", "Zm9v\n", "\xc3\xa4zz"})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace lockstep::net
