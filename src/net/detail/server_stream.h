// ServerStream: a caller's connection as bytes, over TCP or over TLS.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "net/detail/tls_context.h"

namespace lockstep::net::detail {

class ServerStream {
 public:
  explicit ServerStream(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}
  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  const boost::asio::ip::tcp::socket& socket() const { return socket_; }

  // Waits for the caller's first byte: true if TLS begins with it; false also if none came. Takes
  // no memory while it waits.
  boost::asio::awaitable<bool> begins_tls();
  // From here on the bytes go over TLS.
  boost::asio::awaitable<boost::system::error_code> handshake(TlsContext context);

  boost::asio::awaitable<std::pair<boost::system::error_code, std::size_t>> read_some(
      boost::asio::mutable_buffer buffer);
  boost::asio::awaitable<boost::system::error_code> write(std::string_view head,
                                                          std::string_view body);
  boost::asio::awaitable<boost::system::error_code> write(boost::asio::const_buffer bytes);
  // Tells a caller over TLS that nothing more comes, and waits for the same of it.
  boost::asio::awaitable<void> end_tls();
  // The caller has ended the connection; asked when bytes can be read. A caller that only ended
  // its sending side counts as gone.
  bool has_ended();

 private:
  boost::asio::ip::tcp::socket socket_;
  TlsContext context_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
};

}  // namespace lockstep::net::detail
