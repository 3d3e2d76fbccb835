#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "net/detail/chunked.h"
#include "net/detail/request_head.h"

using namespace lockstep;
using namespace lockstep::net;

LS_FUZZ(request,
        {"GET /api/v1/runs?state=running HTTP/1.1\r\nHost: localhost:8080\r\n\r\n",
         "POST /x HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
         "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nwiki\r\n0\r\nX: y\r\n\r\n",
         "4\r\nwiki\r\n0\r\n\r\n"}) {
  const detail::HeadLimits limits{.line_max = 256, .head_max = 1024, .headers_max = 8};
  (void)detail::find_early_error(input, 0, limits);
  const auto end = input.find("\r\n\r\n");
  if (end != std::string_view::npos) {
    detail::RequestHead head;
    if (!detail::parse_request_head(input.substr(0, end + 4), limits, head)) {
      LS_CHECK(!head.method.empty() && head.target.starts_with('/'));
      LS_CHECK(head.headers.size() <= limits.headers_max);
    }
  }
  constexpr std::size_t kBodyMost = 512;
  detail::ChunkedDecoder decoder(kBodyMost);
  std::string_view rest = end == std::string_view::npos ? input : input.substr(end + 4);
  std::string body;
  (void)decoder.decode(rest, body);
  LS_CHECK(body.size() <= kBodyMost);
}
