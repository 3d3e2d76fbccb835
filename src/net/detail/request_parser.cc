#include "net/detail/request_parser.h"

#include <utility>

#include "base/format.h"
#include "net/http/url.h"

namespace lockstep::net::detail {

namespace http = boost::beast::http;

namespace {

using Failure = std::optional<RequestError>;

Failure bad(std::string message) { return RequestError{400, std::move(message)}; }

Failure line_too_long(std::size_t most) {
  return RequestError{414, format("the request line is over {} bytes", most)};
}

std::string_view first_line(std::string_view bytes) { return bytes.substr(0, bytes.find("\r\n")); }

// "HTTP/2.0" at the end of a request line, but neither 1.0 nor 1.1.
bool names_other_version(std::string_view line) {
  const std::string_view version = line.substr(line.rfind(' ') + 1);
  return version.size() == 8 && version.starts_with("HTTP/") && version[6] == '.' &&
         version != "HTTP/1.0" && version != "HTTP/1.1";
}

bool has_folded_header(std::string_view head) {
  return head.find("\r\n ") != std::string_view::npos ||
         head.find("\r\n\t") != std::string_view::npos;
}

// Beast waits for a CR LF after it.
bool has_bare_line_feed(std::string_view bytes, std::size_t from = 0) {
  for (std::size_t at = from; (at = bytes.find('\n', at)) != std::string_view::npos; ++at)
    if (at == 0 || bytes[at - 1] != '\r') return true;
  return false;
}

// Refuses repeated headers that two parsers would interpret differently.
Failure refuse_repeated(const Headers& headers) {
  for (std::string_view name : {"Host", "Content-Length", "Transfer-Encoding", "Authorization",
                                "Content-Type", "Origin", "Expect"})
    if (headers.count(name) > 1) return bad(format("the header {} is there twice", name));
  return {};
}

Failure read_host(bool is_1_1, RequestHead& head) {
  auto authority = head.headers.find("Host");
  if (!authority) return is_1_1 ? bad("there is no Host header") : Failure();
  auto host = host_of(*authority);
  if (!host) return bad("the Host header is not a name or address");
  head.host = *host;
  return {};
}

// Beast accepts "5,5" as a length, and takes a request with another coding for one without a body.
Failure check_length(bool is_1_1, const Headers& headers) {
  const auto length = headers.find("Content-Length");
  const auto coding = headers.find("Transfer-Encoding");
  if (length && coding) return bad("Content-Length and Transfer-Encoding exclude each other");
  if (length && length->find_first_not_of("0123456789") != std::string_view::npos)
    return bad("the Content-Length is not a number");
  if (!coding) return {};
  if (!is_1_1) return bad("HTTP/1.0 has no Transfer-Encoding");
  if (!equal_ignoring_case(*coding, "chunked"))
    return RequestError{501, "the only Transfer-Encoding understood is chunked"};
  return {};
}

Failure read_expectation(RequestHead& head) {
  auto expectation = head.headers.find("Expect");
  if (!expectation) return {};
  if (!equal_ignoring_case(*expectation, "100-continue"))
    return RequestError{417, "the only expectation understood is 100-continue"};
  head.expects_continue = true;
  return {};
}

}  // namespace

RequestParser::RequestParser(const RequestLimits& limits) : limits_(limits) {
  parser_.header_limit(static_cast<std::uint32_t>(limits.head_max));
  parser_.body_limit(static_cast<std::uint64_t>(limits.body_max.count()));
}

std::optional<RequestError> RequestParser::parse_head(std::string_view bytes, RequestHead& head) {
  const std::string_view possible = bytes.substr(0, limits_.head_max).substr(head_size_);
  boost::system::error_code error;
  head_size_ += parser_.put(boost::asio::buffer(possible), error);
  if (error && error != http::error::need_more) return error_of(error, bytes);
  if (has_head()) return check_head(bytes.substr(0, head_size_), head);
  return find_early_error(bytes);
}

// The errors of an incomplete head that Beast reports only with its end.
std::optional<RequestError> RequestParser::find_early_error(std::string_view bytes) {
  const std::size_t from = std::exchange(checked_, bytes.size());
  if (bytes.starts_with("\r\n")) return bad("there is an empty line before the request");
  if (has_bare_line_feed(bytes, from)) return bad("a line ends with LF alone; CR LF is required");
  if (first_line(bytes).size() > limits_.line_max) return line_too_long(limits_.line_max);
  if (bytes.size() > limits_.head_max) return error_of(http::error::header_limit, bytes);
  return {};
}

std::optional<RequestError> RequestParser::check_head(std::string_view bytes,
                                                      RequestHead& head) const {
  if (first_line(bytes).size() > limits_.line_max) return line_too_long(limits_.line_max);
  if (has_folded_header(bytes)) return bad("a header goes on in a second line");
  const auto& message = parser_.get();
  const bool is_1_1 = message.version() == 11;
  head = {.method = std::string(message.method_string()),
          .target = std::string(message.target()),
          .headers = {},
          .host = {},
          .keep_alive = is_1_1 && parser_.keep_alive(),
          .has_body = !parser_.is_done()};
  if (!head.target.starts_with('/')) return bad("the request's target must be a path");
  for (const auto& field : message) {
    if (head.headers.size() == limits_.headers_max)
      return RequestError{431, format("there are over {} headers", limits_.headers_max)};
    head.headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  if (auto failure = refuse_repeated(head.headers)) return failure;
  if (auto failure = read_host(is_1_1, head)) return failure;
  if (auto failure = check_length(is_1_1, head.headers)) return failure;
  return read_expectation(head);
}

std::optional<RequestError> RequestParser::parse_body(std::string_view& bytes) {
  parser_.eager(true);
  boost::system::error_code error;
  bytes.remove_prefix(parser_.put(boost::asio::buffer(bytes), error));
  if (error && error != http::error::need_more) return error_of(error, {});
  if (is_done()) return {};
  // The rest is the beginning of a chunk's size line or of the trailers.
  if (has_bare_line_feed(bytes)) return bad("a line ends with LF alone; CR LF is required");
  if (bytes.size() > limits_.chunk_head_max) return bad("a chunk's size or the trailers are long");
  return {};
}

std::optional<RequestError> RequestParser::limit_body(Bytes most) {
  limits_.body_max = most;
  const auto announced = parser_.content_length();
  if (announced && *announced > static_cast<std::uint64_t>(most.count()))
    return error_of(http::error::body_limit, {});
  parser_.body_limit(static_cast<std::uint64_t>(most.count()));
  return {};
}

RequestError RequestParser::error_of(boost::system::error_code error,
                                     std::string_view bytes) const {
  if (error == http::error::body_limit)
    return {413, format("the body is over {}", text(limits_.body_max))};
  if (error == http::error::header_limit)
    return {431, format("the headers are over {} bytes", limits_.head_max)};
  if (error == http::error::bad_version)
    return {names_other_version(first_line(bytes)) ? 505 : 400,
            "the server supports only HTTP/1.1"};
  return {400, format("the request is malformed: {}", error.message())};
}

}  // namespace lockstep::net::detail
