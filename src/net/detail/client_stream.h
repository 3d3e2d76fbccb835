// ClientStream: a client's connection to a server, over TCP or over TLS, and open or not. Every
// wait ends at the deadline that it was opened with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "net/detail/server_check.h"
#include "net/detail/tls_context.h"
#include "net/http/url.h"
#include "net/tls/tls.h"

namespace lockstep::net::detail {

using AnswerParser = boost::beast::http::response_parser<boost::beast::http::string_body>;

class ClientStream {
 public:
  // The context outlives it. `trust` matters for an https server only.
  ClientStream(boost::asio::io_context& context, Url server, TlsTrust trust);

  bool is_open() const { return tcp_ || tls_; }
  // Open, and the server has not closed it. If an idle connection has readable data, it has (or it
  // is out of step).
  bool is_live();
  void close();
  // Pending operations fail; close() would destroy what they use.
  void shut();
  void set_deadline(const Deadline& deadline);

  // Connects, and does the handshake of TLS.
  boost::asio::awaitable<boost::system::error_code> open(const Deadline& deadline);
  // Why the server is not trusted, after an error of open(); empty: the error is another one.
  const std::string& refusal() const { return refusal_; }
  // After open(), as ServerCheck has it.
  std::string authority() const { return check_ ? check_->authority() : ""; }

  boost::asio::awaitable<boost::system::error_code> write(std::string_view head,
                                                          std::string_view body);
  // These two have no deadline, once forget_deadline() was called.
  void forget_deadline();
  boost::asio::awaitable<std::pair<boost::system::error_code, std::size_t>> read_some(
      boost::asio::mutable_buffer buffer);
  boost::asio::awaitable<boost::system::error_code> write(boost::asio::const_buffer bytes);
  boost::asio::awaitable<boost::system::error_code> read(boost::beast::flat_buffer& buffer,
                                                         AnswerParser& parser, std::size_t& size);

 private:
  using TcpStream = boost::beast::tcp_stream;

  TcpStream& tcp() { return tls_ ? tls_->next_layer() : *tcp_; }
  boost::asio::awaitable<boost::system::error_code> connect();
  boost::asio::awaitable<boost::system::error_code> handshake();
  Result<void> make_context();

  boost::asio::io_context& io_;
  const Url server_;
  const TlsTrust trust_;
  std::unique_ptr<ServerCheck> check_;  // the context has its address
  TlsContext context_;
  std::string refusal_;
  std::optional<TcpStream> tcp_;
  std::optional<boost::asio::ssl::stream<TcpStream>> tls_;
};

}  // namespace lockstep::net::detail
