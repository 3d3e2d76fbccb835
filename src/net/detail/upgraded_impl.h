// The implementation of UpgradedConnection: one of the server, one of the client.
#pragma once

#include <cstddef>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>

#include "net/http/upgrade.h"

namespace lockstep::net {

struct UpgradedConnection::Impl {
  virtual ~Impl() = default;

  // Bytes that came with the last message of HTTP are first. At most one read and one write at the
  // same time.
  virtual boost::asio::awaitable<std::pair<boost::system::error_code, std::size_t>> read_some(
      boost::asio::mutable_buffer buffer) = 0;
  // All of it.
  virtual boost::asio::awaitable<boost::system::error_code> write(
      boost::asio::const_buffer bytes) = 0;
  // Pending operations fail.
  virtual void close() = 0;
  // Its handlers run there.
  virtual boost::asio::io_context& context() = 0;
};

namespace detail {

// Detects a lost host of an idle connection within about a minute.
void set_keepalive(int socket);
// Moves bytes from the front of `early` into the buffer.
std::size_t take_early(std::string& early, boost::asio::mutable_buffer buffer);

}  // namespace detail
}  // namespace lockstep::net
