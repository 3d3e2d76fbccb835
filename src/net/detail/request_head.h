// Parses the first lines of a request strictly: input that two HTTP parsers could interpret
// differently is refused (RFC 9112; request smuggling), so that a proxy before us and we never
// disagree.
//
// Refused, besides malformed input: bare LF or CR, an empty line first, NUL and other control
// characters, a folded header, white space before the colon, Content-Length together with
// Transfer-Encoding, two of either, a length that is not all digits, a coding other than chunked,
// no Host or two, anything but HTTP/1.0 and 1.1, targets other than a path, and repeated headers
// that affect a decision.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http/http.h"

namespace lockstep::net::detail {

struct HeadLimits {
  std::size_t line_max = 8 << 10;
  std::size_t head_max = 32 << 10;  // line and headers together
  std::size_t headers_max = 100;
};

struct RequestHead {
  std::string method;
  std::string target;
  Headers headers;
  std::string host;  // without the port; empty only in HTTP/1.0
  std::uint64_t content_length = 0;
  bool chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;

  bool has_body() const { return chunked || content_length > 0; }
};

// status: 400, or 414, 417, 431, 501, 505.
struct HeadError {
  int status = 400;
  std::string message;
};

// The error of an incomplete head, if one is already certain; nothing while the head may still
// become valid. The first `seen` bytes were checked before.
std::optional<HeadError> find_early_error(std::string_view bytes, std::size_t seen,
                                          const HeadLimits& limits);

// `bytes` ends with the empty line. On error `head` is unspecified.
std::optional<HeadError> parse_request_head(std::string_view bytes, const HeadLimits& limits,
                                            RequestHead& head);

}  // namespace lockstep::net::detail
