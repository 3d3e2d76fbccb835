#include "net/detail/client_stream.h"

#include <array>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <poll.h>

#include "net/detail/await.h"
#include "net/detail/upgraded_impl.h"

namespace lockstep::net::detail {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

ClientStream::ClientStream(asio::io_context& context, Url server, TlsTrust trust)
    : io_(context), server_(std::move(server)), trust_(std::move(trust)) {}

bool ClientStream::is_live() {
  if (!is_open()) return false;
  pollfd readable{.fd = tcp().socket().native_handle(), .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, 0) == 0) return true;
  close();
  return false;
}

void ClientStream::close() {
  tcp_.reset();
  tls_.reset();
}

void ClientStream::shut() {
  if (is_open()) tcp().close();
}

void ClientStream::set_deadline(const Deadline& deadline) { tcp().expires_at(deadline.at()); }

Result<void> ClientStream::make_context() {
  if (context_) return {};
  auto check = std::make_unique<ServerCheck>(trust_, server_.host);
  context_ = TRY(client_tls_context(*check));
  check_ = std::move(check);
  return {};
}

asio::awaitable<error_code> ClientStream::open(const Deadline& deadline) {
  refusal_.clear();
  if (server_.scheme == Scheme::http) {
    tcp_.emplace(io_);
    set_deadline(deadline);
    co_return co_await connect();
  }
  if (auto made = make_context(); !made) {
    refusal_ = made.error().message;
    co_return asio::error::invalid_argument;
  }
  tls_.emplace(TcpStream(io_), *context_);
  set_deadline(deadline);
  const error_code error = co_await connect();
  co_return error ? error : co_await handshake();
}

asio::awaitable<error_code> ClientStream::connect() {
  error_code error;
  const auto address = asio::ip::make_address(server_.host, error);
  const auto port = static_cast<unsigned short>(server_.port);
  if (!error) {
    auto [failure] = co_await tcp().async_connect(asio::ip::tcp::endpoint(address, port), kAwait);
    error = failure;
  } else {
    asio::ip::tcp::resolver resolver(io_);
    auto [failure, endpoints] =
        co_await resolver.async_resolve(server_.host, std::to_string(port), kAwait);
    if (failure) co_return failure;
    auto [refused, endpoint] = co_await tcp().async_connect(endpoints, kAwait);
    error = refused;
  }
  if (error) co_return error;
  tcp().socket().set_option(asio::ip::tcp::no_delay(true), error);
  co_return error_code();
}

asio::awaitable<error_code> ClientStream::handshake() {
  check_->prepare(tls_->native_handle());
  auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::client, kAwait);
  if (error) refusal_ = check_->refusal();
  co_return error;
}

asio::awaitable<error_code> ClientStream::write(std::string_view head, std::string_view body) {
  if (tls_) {
    // Two buffers would be two records and two packets.
    const std::string all = std::string(head).append(body);
    auto [error, size] = co_await asio::async_write(*tls_, asio::buffer(all), kAwait);
    co_return error;
  }
  const std::array<asio::const_buffer, 2> parts = {asio::buffer(head), asio::buffer(body)};
  auto [error, size] = co_await asio::async_write(*tcp_, parts, kAwait);
  co_return error;
}

void ClientStream::forget_deadline() {
  tcp().expires_never();
  set_keepalive(tcp().socket().native_handle());
}

asio::awaitable<std::pair<error_code, std::size_t>> ClientStream::read_some(
    asio::mutable_buffer buffer) {
  if (tls_) {
    auto [error, size] = co_await tls_->async_read_some(buffer, kAwait);
    co_return std::pair(error, size);
  }
  auto [error, size] = co_await tcp_->async_read_some(buffer, kAwait);
  co_return std::pair(error, size);
}

asio::awaitable<error_code> ClientStream::write(asio::const_buffer bytes) {
  if (tls_) {
    auto [error, size] = co_await asio::async_write(*tls_, bytes, kAwait);
    co_return error;
  }
  auto [error, size] = co_await asio::async_write(*tcp_, bytes, kAwait);
  co_return error;
}

asio::awaitable<error_code> ClientStream::read(beast::flat_buffer& buffer, AnswerParser& parser,
                                               std::size_t& size) {
  if (tls_) {
    auto [error, bytes] = co_await beast::http::async_read(*tls_, buffer, parser, kAwait);
    size = bytes;
    co_return error;
  }
  auto [error, bytes] = co_await beast::http::async_read(*tcp_, buffer, parser, kAwait);
  size = bytes;
  co_return error;
}

}  // namespace lockstep::net::detail
