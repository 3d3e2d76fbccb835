#include "net/http/gunzip.h"

#include <string>

#include <gtest/gtest.h>

using namespace lockstep;
using namespace lockstep::net;

namespace {

// By Python's gzip.compress(b"hello hello hello hello", mtime=0).
const std::string kHello(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\x01"
    "\xe3\x51\x3d\x8d\x17\x00\x00\x00",
    28);

TEST(Gunzip, TheContentOfAGzipIsReturned) {
  EXPECT_EQ(gunzip(kHello, 1_KiB).value(), "hello hello hello hello");
}

TEST(Gunzip, ABodyThatIsCutOrChangedIsRefused) {
  for (std::size_t size = 0; size < kHello.size(); ++size)
    EXPECT_FALSE(gunzip(kHello.substr(0, size), 1_KiB)) << size;
  for (const std::size_t at : {0u, 10u, 14u, static_cast<unsigned>(kHello.size()) - 6}) {
    std::string changed = kHello;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    EXPECT_FALSE(gunzip(changed, 1_KiB)) << at;
  }
}

TEST(Gunzip, AContentAboveTheBoundIsRefused) {
  const auto refused = gunzip(kHello, Bytes(22));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("more than"), std::string::npos);
}

}  // namespace
