// RequestParser: Beast's parser for one request, and checks that it lacks. Input that two HTTP
// parsers could interpret differently is refused (RFC 9112; request smuggling), so that a proxy
// before us and we never disagree.
//
// Beast refuses malformed lines, bare LF or CR, control characters, an empty line first, white
// space before a colon, and conflicting lengths. The checks refuse besides: a folded header,
// repeated headers that affect a decision, a length that is not all digits, a coding other than
// chunked, no Host in HTTP/1.1, versions other than 1.0 and 1.1, and all that is too large.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include "base/units.h"
#include "net/http/http.h"

namespace lockstep::net::detail {

// A body as a text that grows with what has come. Beast's own reserves what the head announces.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(boost::beast::http::header<isRequest, Fields>&, std::string& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      std::size_t size = 0;
      for (auto one = boost::asio::buffer_sequence_begin(buffers);
           one != boost::asio::buffer_sequence_end(buffers); ++one) {
        const boost::asio::const_buffer part = *one;
        body_.append(static_cast<const char*>(part.data()), part.size());
        size += part.size();
      }
      return size;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    std::string& body_;
  };
};

struct RequestLimits {
  std::size_t line_max = 8 << 10;
  std::size_t head_max = 32 << 10;  // line and headers together
  std::size_t headers_max = 100;
  // A chunk's size line, or all trailers of a chunked body.
  std::size_t chunk_head_max = 8 << 10;
  Bytes body_max = 1_MiB;
};

struct RequestHead {
  std::string method;
  std::string target;
  Headers headers;
  std::string host;  // without the port; empty only in HTTP/1.0
  bool keep_alive = true;
  bool has_body = false;
  bool expects_continue = false;
};

// status: 400, or 413, 414, 417, 431, 501, 505.
struct RequestError {
  int status = 400;
  std::string message;
};

class RequestParser {
 public:
  explicit RequestParser(const RequestLimits& limits);

  // `bytes`: all bytes since the request's start, more with each call. Fills `head` once it is
  // complete. On error `head` is unspecified.
  std::optional<RequestError> parse_head(std::string_view bytes, RequestHead& head);
  bool has_head() const { return parser_.is_header_done(); }
  // The size of the complete head: the body's bytes follow it.
  std::size_t head_size() const { return head_size_; }

  // Removes from the front of `bytes` all that belongs to the body and is complete enough to parse;
  // the rest comes again, before later bytes, in the next call.
  std::optional<RequestError> parse_body(std::string_view& bytes);
  bool is_done() const { return parser_.is_done(); }
  // The part of the body that was parsed since the last call.
  std::string take_body() { return std::exchange(parser_.get().body(), {}); }
  // Lowers the limit, once the head is known. An error: the head announces more.
  std::optional<RequestError> limit_body(Bytes most);

 private:
  std::optional<RequestError> find_early_error(std::string_view bytes);
  std::optional<RequestError> check_head(std::string_view bytes, RequestHead& head) const;
  RequestError error_of(boost::system::error_code error, std::string_view bytes) const;

  RequestLimits limits_;
  boost::beast::http::request_parser<GrowingBody> parser_;
  std::size_t head_size_ = 0;  // what Beast has parsed of it: whole lines
  std::size_t checked_ = 0;    // bytes of an incomplete head that have no error
};

}  // namespace lockstep::net::detail
