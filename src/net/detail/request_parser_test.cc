#include "net/detail/request_parser.h"

#include <string>

#include <gtest/gtest.h>

namespace lockstep::net::detail {
namespace {

const std::string kChunked =
    "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

struct Parsed {
  int status = 0;  // of the refusal
  bool done = false;
  std::string body{};
  std::string rest{};  // the bytes after the request
};

// Feeds the bytes in pieces of `piece`, as a connection does.
Parsed parse(const std::string& bytes, std::size_t piece = 4096) {
  RequestParser parser(
      {.head_max = 1024, .headers_max = 8, .chunk_head_max = 512, .body_max = Bytes(100)});
  RequestHead head;
  std::string buffer;
  for (std::size_t at = 0; at < bytes.size() && !parser.is_done(); at += piece) {
    buffer += bytes.substr(at, piece);
    if (!parser.has_head()) {
      if (const auto error = parser.parse_head(buffer, head)) return {.status = error->status};
      if (!parser.has_head()) continue;
      buffer.erase(0, parser.head_size());
    }
    std::string_view rest = buffer;
    if (const auto error = parser.parse_body(rest)) return {.status = error->status};
    buffer = std::string(rest);
  }
  return {.done = parser.is_done(), .body = parser.take_body(), .rest = buffer};
}

TEST(RequestParser, ARequestIsTheSameHoweverItIsCut) {
  const std::string bytes =
      kChunked + "4\r\nwiki\r\nA;name=\"v\"\r\npedia in\n\r\r\n000\r\nX: y\r\n\r\n";
  for (std::size_t piece = 1; piece < 60; ++piece) {
    const Parsed parsed = parse(bytes, piece);
    EXPECT_TRUE(parsed.done) << piece;
    EXPECT_EQ(parsed.body, "wikipedia in\n\r");
    EXPECT_EQ(parsed.rest, "");
  }
  EXPECT_EQ(parse(bytes + "GET /").rest, "GET /");
}

TEST(RequestParser, MalformedBodiesAreRefused) {
  for (const std::string body :
       {"\r\n", "x\r\n", "-1\r\n", "+1\r\n", "0x1\r\n\r\n", " 1\r\n", "3\nabc", "3\rabc\r\n",
        "2\r\nabc\r\n0\r\n", "3\r\nabc0\r\n\r\n", "3\r\nabc\n0\r\n", "ffffffffffffffffff\r\n",
        "0\r\nX: y\n\r\n", ";a\r\n"})
    EXPECT_EQ(parse(kChunked + body).status, 400) << body;
}

TEST(RequestParser, LongChunkSizesAndTrailersAreRefused) {
  EXPECT_EQ(parse(kChunked + "1;" + std::string(2000, 'a')).status, 400);
  std::string trailers = "0\r\n";
  for (int i = 0; i < 100; ++i) trailers += "X: " + std::string(100, 'y') + "\r\n";
  EXPECT_EQ(parse(kChunked + trailers).status, 400);
}

TEST(RequestParser, ABodyOverTheLimitIsRefusedBeforeItComes) {
  EXPECT_EQ(parse(kChunked + "64\r\n").status, 0);
  EXPECT_EQ(parse(kChunked + "65\r\n").status, 413);
  EXPECT_EQ(parse(kChunked + "2\r\nab\r\n63\r\n").status, 413);
  EXPECT_EQ(parse(kChunked + "ffffffff\r\n").status, 413);
  EXPECT_EQ(parse("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n").status, 413);
}

}  // namespace
}  // namespace lockstep::net::detail
