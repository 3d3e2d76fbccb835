#include "net/stream/relay.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>

#include "net/detail/await.h"
#include "net/detail/upgraded_impl.h"
#include "net/stream/frame.h"

namespace lockstep::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr Duration kResetLinger = std::chrono::seconds(2);

// Asio asks for a protocol only when it opens a socket: this one is any connected stream socket.
using LocalSocket = asio::local::stream_protocol::socket;

std::string frame_of(FrameKind kind, std::string_view text = {}) {
  text = text.substr(0, kFrameResetMax);
  const auto head = to_bytes({kind, text.size()});
  return std::string(head.begin(), head.end()).append(text);
}

// Two descriptors for one socket: each direction cancels its own waits only.
class Relay {
 public:
  Relay(UpgradedConnection connection, const RelayTimes& times)
      : connection_(std::move(connection)), times_(times) {}

  Result<void> open(Fd local) {
    Fd copy(::fcntl(local.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) return os_error("copying a descriptor", errno);
    error_code error;
    source_.assign({}, local.get(), error);
    if (!error) (void)local.release();
    if (!error) sink_.assign({}, copy.get(), error);
    if (error) return os_error("watching the local socket", error.value());
    (void)copy.release();
    return {};
  }

  Result<void> run(const std::stop_token& stop) {
    auto& context = connection_.impl().context();
    asio::co_spawn(context, send_all(), asio::detached);
    asio::co_spawn(context, receive_all(), asio::detached);
    const std::stop_callback on_stop(stop, [this, &context] {
      asio::post(context, [this] { fail({Code::cancelled, "the stream was stopped"}); });
    });
    context.run();
    if (error_) return *std::move(error_);
    return {};
  }

 private:
  // Ends both directions; the first reason counts.
  void fail(Error error) {
    if (!error_ && !is_done_) error_ = std::move(error);
    finish();
  }

  void finish() {
    is_done_ = true;
    connection_.impl().close();
    error_code ignored;
    source_.close(ignored);
    sink_.close(ignored);
    ping_.cancel();
    silence_.cancel();
  }

  Error cut() const {
    return {Code::unavailable, "the connection to the daemon was cut in the middle of the stream"};
  }

  asio::awaitable<void> send_all() {
    std::vector<unsigned char> buffer(kFrameHead + kFrameDataMax);
    for (;;) {
      if (local_error_) co_return co_await send_reset();
      start_ping_timer();
      const auto [error, size] = co_await source_.async_read_some(
          asio::buffer(buffer.data() + kFrameHead, kFrameDataMax), kAwait);
      if (is_done_) co_return;
      if (local_error_) continue;
      if (error == asio::error::operation_aborted) {
        const std::string frame = frame_of(FrameKind::ping);
        if (!co_await send(frame)) co_return;
      } else if (error == asio::error::eof) {
        co_return co_await send_end();
      } else if (error) {
        local_error_ = error;
      } else {
        const auto head = to_bytes({FrameKind::data, size});
        std::ranges::copy(head, buffer.begin());
        if (!co_await send({reinterpret_cast<const char*>(buffer.data()), kFrameHead + size}))
          co_return;
      }
    }
  }

  // Only while this end waits for local bytes: a write that waits is no silence of ours.
  void start_ping_timer() {
    ping_.expires_after(times_.ping);
    ping_.async_wait([this](error_code error) {
      error_code ignored;
      if (!error && !is_done_) source_.cancel(ignored);
    });
  }

  // `bytes` are a variable of the caller: g++ 12 destroys a temporary of a co_await too early.
  asio::awaitable<bool> send(std::string_view bytes) {
    ping_.cancel();
    // After an error receive_all() finds the end of the connection too, and perhaps the reason.
    const error_code error = co_await connection_.impl().write(asio::buffer(bytes));
    co_return !error && !is_done_;
  }

  asio::awaitable<void> send_end() {
    const std::string frame = frame_of(FrameKind::end);
    if (!co_await send(frame)) co_return;
    has_sent_end_ = true;
    if (local_error_) co_return co_await send_reset();
    if (has_received_end_) finish();
  }

  asio::awaitable<void> send_reset() {
    const std::string frame = frame_of(
        FrameKind::reset, "the other end of the connection failed: " + local_error_->message());
    (void)co_await send(frame);
    finish();
  }

  // Also after the other end's `end`: a reset may follow.
  asio::awaitable<void> receive_all() {
    std::vector<char> buffer(kFrameHead + kFrameDataMax);
    FrameReader frames;
    while (!is_done_) {
      start_silence_timer();
      const auto [error, size] = co_await connection_.impl().read_some(asio::buffer(buffer));
      silence_.expires_at(std::chrono::steady_clock::time_point::max());
      if (error || size == 0) co_return fail(cut());
      std::string_view bytes(buffer.data(), size);
      while (auto part = frames.next(bytes)) {
        if (part->kind == FrameKind::data) {
          auto [failure, written] = co_await asio::async_write(
              sink_, asio::buffer(part->data.data(), part->data.size()), kAwait);
          if (is_done_) co_return;
          if (failure) co_return co_await handle_local_error(failure);
        } else {
          handle_mark(*std::move(part));
        }
        if (is_done_) co_return;
      }
      if (!frames.is_valid())
        co_return fail({Code::corrupt, "the other end of the stream does not send its frames"});
    }
  }

  void handle_mark(FramePart part) {
    if (part.kind == FrameKind::reset) fail({Code::peer_lost, std::move(part.text)});
    if (part.kind != FrameKind::end) return;
    has_received_end_ = true;
    error_code ignored;
    sink_.shutdown(LocalSocket::shutdown_send, ignored);
    if (has_sent_end_) finish();
  }

  // send_all() tells the other end, unless it has finished.
  asio::awaitable<void> handle_local_error(error_code error) {
    local_error_ = error;
    error_code ignored;
    source_.cancel(ignored);
    if (has_sent_end_) co_await send_reset();
  }

  // An end that has ended sends no pings.
  void start_silence_timer() {
    if (has_received_end_) return;
    silence_.expires_after(times_.silence);
    silence_.async_wait([this](error_code error) {
      if (error || is_done_ || silence_.expiry() > std::chrono::steady_clock::now()) return;
      fail({Code::unavailable, "the other end of the stream has been silent for too long"});
    });
  }

  UpgradedConnection connection_;
  const RelayTimes times_;
  LocalSocket source_{connection_.impl().context()};
  LocalSocket sink_{connection_.impl().context()};
  asio::steady_timer ping_{connection_.impl().context()};
  asio::steady_timer silence_{connection_.impl().context()};
  bool has_sent_end_ = false;
  bool has_received_end_ = false;
  bool is_done_ = false;
  std::optional<error_code> local_error_;
  std::optional<Error> error_;
};

asio::awaitable<void> send_reset_frame(UpgradedConnection& connection, std::string frame) {
  std::array<char, 4096> ignored{};
  if (co_await connection.impl().write(asio::buffer(frame))) co_return;
  // Unread bytes would make the system discard what was sent.
  for (;;) {
    const auto [error, size] = co_await connection.impl().read_some(asio::buffer(ignored));
    if (error || size == 0) co_return;
  }
}

}  // namespace

Result<void> relay(UpgradedConnection connection, Fd local, std::stop_token stop,
                   const RelayTimes& times) {
  Relay relay(std::move(connection), times);
  TRY(relay.open(std::move(local)));
  return relay.run(stop);
}

void reset_stream(UpgradedConnection connection, const std::string& message) {
  auto& context = connection.impl().context();
  asio::co_spawn(context, send_reset_frame(connection, frame_of(FrameKind::reset, message)),
                 asio::detached);
  context.run_for(kResetLinger);
}

}  // namespace lockstep::net
