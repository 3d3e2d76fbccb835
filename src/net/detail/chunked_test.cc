#include "net/detail/chunked.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::net::detail {
namespace {

using State = ChunkedDecoder::State;

// Feeds the bytes in pieces of `piece`; returns the final state.
State decode(std::string_view bytes, std::size_t piece, std::string& body, std::string& rest) {
  ChunkedDecoder decoder(100);
  body.clear();
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    const std::size_t size = part.size();
    const State state = decoder.decode(part, body);
    bytes.remove_prefix(size - part.size());
    rest = bytes;
    if (state != State::more) return state;
    EXPECT_TRUE(part.empty());
  }
  return State::more;
}

TEST(Chunked, ABodyIsTheSameHoweverItIsCut) {
  for (std::size_t piece = 1; piece < 60; ++piece) {
    std::string body, rest;
    const auto state = decode(
        "4\r\nwiki\r\nA;name=\"v\"\r\npedia in\n\r\r\n000\r\nX: y\r\n\r\nGET /", piece, body, rest);
    EXPECT_EQ(state, State::done);
    EXPECT_EQ(body, "wikipedia in\n\r");
    EXPECT_EQ(rest, "GET /");
  }
}

TEST(Chunked, MalformedBodiesAreRefused) {
  std::string body, rest;
  for (std::string bytes :
       {"\r\n", "x\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", " 1\r\n", "1 \r\n", "3\nabc", "3\rabc",
        "2\r\nabc\r\n", "3\r\nabc0\r\n", "3\r\nabc\n0\r\n", "ffffffffffffffffff\r\n",
        "000000001\r\na", "0\r\nX: y\n\r\n", ";a\r\n"})
    EXPECT_EQ(decode(bytes, 100, body, rest), State::malformed) << bytes;
  EXPECT_EQ(decode(std::string(2000, '0'), 100, body, rest), State::malformed);
}

TEST(Chunked, LongTrailersAreRefused) {
  std::string body, rest, trailers = "0\r\n";
  for (int i = 0; i < 100; ++i) trailers += "X: " + std::string(100, 'y') + "\r\n";
  EXPECT_EQ(decode(trailers, 4096, body, rest), State::malformed);
}

TEST(Chunked, ABodyOverTheLimitIsRefusedBeforeItComes) {
  std::string body, rest;
  EXPECT_EQ(decode("64\r\n", 10, body, rest), State::more);
  EXPECT_EQ(decode("65\r\n", 10, body, rest), State::too_large);
  EXPECT_EQ(decode("2\r\nab\r\n63\r\n", 100, body, rest), State::too_large);
  EXPECT_EQ(decode("ffffffff\r\n", 100, body, rest), State::too_large);
}

}  // namespace
}  // namespace lockstep::net::detail
