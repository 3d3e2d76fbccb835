#include "net/detail/watchdog.h"

namespace lockstep::net::detail {

using boost::system::error_code;

Watchdog::Watchdog(boost::asio::ip::tcp::socket& socket)
    : state_(std::make_shared<State>(
          State{&socket, boost::asio::steady_timer(socket.get_executor()), false})) {}

void Watchdog::start(Duration time, OnExpiry then) {
  state_->expired = false;
  state_->timer.expires_after(time);
  state_->timer.async_wait([weak = std::weak_ptr(state_), then](error_code error) {
    const auto state = weak.lock();
    if (error || !state) return;
    // A callback that was already queued when the expiry time was changed.
    if (state->timer.expiry() > std::chrono::steady_clock::now()) return;
    state->expired = true;
    error_code ignored;
    if (then == OnExpiry::cancel)
      state->socket->cancel(ignored);
    else
      state->socket->close(ignored);
  });
}

void Watchdog::stop() {
  state_->expired = false;
  state_->timer.expires_at(std::chrono::steady_clock::time_point::max());
}

}  // namespace lockstep::net::detail
