#include "net/detail/server_stream.h"

#include <string>

#include <boost/asio/write.hpp>
#include <sys/socket.h>

#include "net/detail/await.h"

namespace lockstep::net::detail {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// A record's header: its type, two bytes of version, two of length.
constexpr std::size_t kRecordHeader = 5;
constexpr unsigned char kAlert = 21;
constexpr unsigned char kHandshake = 22;
constexpr unsigned char kEncrypted = 23;
// An alert in TLS 1.3 looks like data: two bytes, their type, and the cipher's 16.
constexpr std::size_t kEncryptedAlertSize = 19;

// The bytes that can be read next; they stay there.
std::size_t peek(tcp::socket& socket, std::array<unsigned char, kRecordHeader>& bytes) {
  const ssize_t size =
      ::recv(socket.native_handle(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  return size < 0 ? 0 : static_cast<std::size_t>(size);
}

// The record by which a caller closes its side. No request is that short.
bool is_alert(const std::array<unsigned char, kRecordHeader>& record) {
  const std::size_t size = static_cast<std::size_t>(record[3]) << 8 | record[4];
  return record[0] == kAlert || (record[0] == kEncrypted && size == kEncryptedAlertSize);
}

}  // namespace

asio::awaitable<bool> ServerStream::begins_tls() {
  auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
  std::array<unsigned char, kRecordHeader> bytes{};
  co_return !error && peek(socket_, bytes) > 0 && bytes[0] == kHandshake;
}

asio::awaitable<error_code> ServerStream::handshake(TlsContext context) {
  context_ = std::move(context);
  tls_.emplace(socket_, *context_);
  auto [error] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
  co_return error;
}

asio::awaitable<std::pair<error_code, std::size_t>> ServerStream::read_some(
    asio::mutable_buffer buffer) {
  if (!tls_) {
    auto [error, size] = co_await socket_.async_read_some(buffer, kAwait);
    co_return std::pair(error, size);
  }
  auto [error, size] = co_await tls_->async_read_some(buffer, kAwait);
  co_return std::pair(error, size);
}

asio::awaitable<error_code> ServerStream::write(std::string_view head, std::string_view body) {
  if (!tls_) {
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(head), asio::buffer(body)};
    auto [error, size] = co_await asio::async_write(socket_, parts, kAwait);
    co_return error;
  }
  // Two buffers would be two records and two packets.
  const std::string all = std::string(head).append(body);
  auto [error, size] = co_await asio::async_write(*tls_, asio::buffer(all), kAwait);
  co_return error;
}

asio::awaitable<error_code> ServerStream::write(asio::const_buffer bytes) {
  if (!tls_) {
    auto [error, size] = co_await asio::async_write(socket_, bytes, kAwait);
    co_return error;
  }
  auto [error, size] = co_await asio::async_write(*tls_, bytes, kAwait);
  co_return error;
}

asio::awaitable<void> ServerStream::end_tls() {
  if (tls_) co_await tls_->async_shutdown(kAwait);
}

bool ServerStream::has_ended() {
  std::array<unsigned char, kRecordHeader> bytes{};
  const ssize_t size =
      ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (tls_ && size == static_cast<ssize_t>(kRecordHeader) && is_alert(bytes));
}

}  // namespace lockstep::net::detail
