#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "net/detail/request_parser.h"

using namespace lockstep;
using namespace lockstep::net;

LS_FUZZ(request,
        {"GET /api/v1/runs?state=running HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
         "POST /x HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
         "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "4;a=b\r\nwiki\r\n0\r\nX: y\r\n\r\n"}) {
  constexpr int kBodyMost = 512;
  detail::RequestParser parser({.line_max = 256,
                                .head_max = 1024,
                                .headers_max = 8,
                                .chunk_head_max = 256,
                                .body_max = Bytes(kBodyMost)});
  detail::RequestHead head;
  if (parser.parse_head(input, head) || !parser.has_head()) return;
  LS_CHECK(!head.method.empty() && head.target.starts_with('/'));
  LS_CHECK(head.headers.size() <= 8);
  std::string_view rest = input.substr(parser.head_size());
  while (!parser.is_done()) {
    const std::size_t before = rest.size();
    if (parser.parse_body(rest) || rest.size() == before) break;
  }
  LS_CHECK(parser.take_body().size() <= kBodyMost);
}
