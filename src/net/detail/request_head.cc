#include "net/detail/request_head.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "net/http/url.h"

namespace lockstep::net::detail {

namespace {

using Failure = std::optional<HeadError>;

Failure bad(std::string message) { return HeadError{400, std::move(message)}; }

std::string_view trimmed(std::string_view value) {
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  return value;
}

// The next line without its CRLF; the caller knows that there is one.
std::string_view take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find("\r\n");
  std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 2);
  return line;
}

Failure wrong_version(std::string_view version) {
  const bool is_http = version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.';
  return HeadError{is_http ? 505 : 400, "only HTTP/1.1 is spoken here"};
}

// "GET /path HTTP/1.1"; single spaces.
Failure parse_request_line(std::string_view line, RequestHead& head) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  if (second == std::string_view::npos) return bad("the request line is not METHOD PATH VERSION");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!is_token(head.method)) return bad("the request's method is not a word");
  if (!head.target.starts_with('/')) return bad("the request's target must be a path");
  if (!is_field_value(head.target) || head.target.find('\t') != std::string::npos)
    return bad("the request's target has a control character in it");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return wrong_version(version);
  head.keep_alive = version == "HTTP/1.1";
  return {};
}

Failure parse_header(std::string_view line, Headers& headers) {
  if (line.empty()) return bad("there is an empty line between the headers");
  if (line.front() == ' ' || line.front() == '\t') return bad("a header goes on in a second line");
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return bad("a header is not NAME: VALUE");
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_field_value(value))
    return bad(format("the header {} has a control character in it", line.substr(0, colon)));
  headers.add(std::string(line.substr(0, colon)), std::string(value));
  return {};
}

// Refuses repeated headers that two parsers would interpret differently.
Failure refuse_repeated(const Headers& headers) {
  for (std::string_view name : {"Host", "Content-Length", "Transfer-Encoding", "Authorization",
                                "Content-Type", "Origin", "Expect"})
    if (headers.count(name) > 1) return bad(format("the header {} is there twice", name));
  return {};
}

Failure read_host(RequestHead& head) {
  auto authority = head.headers.find("Host");
  if (!authority)
    return head.keep_alive ? bad("there is no Host header") : Failure();  // optional in HTTP/1.0
  auto host = host_of(*authority);
  if (!host) return bad("the Host header is not a name or address");
  head.host = *host;
  return {};
}

Failure read_length(RequestHead& head, bool is_1_0) {
  const auto length = head.headers.find("Content-Length");
  const auto coding = head.headers.find("Transfer-Encoding");
  if (length && coding) return bad("Content-Length and Transfer-Encoding exclude each other");
  if (coding) {
    if (is_1_0) return bad("HTTP/1.0 has no Transfer-Encoding");
    if (!equal_ignoring_case(*coding, "chunked"))
      return HeadError{501, "the only Transfer-Encoding understood is chunked"};
    head.chunked = true;
  }
  if (!length) return {};
  const bool digits = !length->empty() && std::all_of(length->begin(), length->end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  auto [end, error] =
      std::from_chars(length->data(), length->data() + length->size(), head.content_length);
  if (!digits || error != std::errc()) return bad("the Content-Length is not a number");
  return {};
}

void read_connection(RequestHead& head) {
  std::string_view options = head.headers.find("Connection").value_or("");
  while (!options.empty()) {
    const std::size_t comma = options.find(',');
    if (equal_ignoring_case(trimmed(options.substr(0, comma)), "close")) head.keep_alive = false;
    options = comma == std::string_view::npos ? "" : options.substr(comma + 1);
  }
}

Failure read_expectation(RequestHead& head) {
  auto expectation = head.headers.find("Expect");
  if (!expectation) return {};
  if (!equal_ignoring_case(*expectation, "100-continue"))
    return HeadError{417, "the only expectation understood is 100-continue"};
  head.expects_continue = true;
  return {};
}

}  // namespace

Failure find_early_error(std::string_view bytes, std::size_t seen, const HeadLimits& limits) {
  // One byte back: whether a CR is valid depends on the next byte.
  for (std::size_t i = seen == 0 ? 0 : seen - 1; i < bytes.size(); ++i) {
    if (bytes[i] == '\0') return bad("there is a NUL in the head");
    if (bytes[i] == '\n' && (i == 0 || bytes[i - 1] != '\r'))
      return bad("a line ends with LF alone; CR LF is required");
    if (bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] != '\n')
      return bad("there is a CR inside a line");
  }
  if (bytes.starts_with("\r\n")) return bad("there is an empty line before the request");
  if (std::min(bytes.find("\r\n"), bytes.size()) > limits.line_max)
    return HeadError{414, format("the request line is over {} bytes", limits.line_max)};
  if (bytes.size() > limits.head_max)
    return HeadError{431, format("the headers are over {} bytes", limits.head_max)};
  return {};
}

Failure parse_request_head(std::string_view bytes, const HeadLimits& limits, RequestHead& head) {
  if (auto failure = find_early_error(bytes, 0, limits)) return failure;
  if (!bytes.ends_with("\r\n\r\n")) return bad("the head has no end");
  if (auto failure = parse_request_line(take_line(bytes), head)) return failure;
  const bool is_1_0 = !head.keep_alive;
  while (bytes != "\r\n") {
    if (head.headers.size() == limits.headers_max)
      return HeadError{431, format("there are over {} headers", limits.headers_max)};
    if (auto failure = parse_header(take_line(bytes), head.headers)) return failure;
  }
  if (auto failure = refuse_repeated(head.headers)) return failure;
  if (auto failure = read_host(head)) return failure;
  if (auto failure = read_length(head, is_1_0)) return failure;
  read_connection(head);
  return read_expectation(head);
}

}  // namespace lockstep::net::detail
