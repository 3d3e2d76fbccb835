// Watchdog: bounds the waits of a socket. Unlike the timeout of a beast::tcp_stream it can leave
// the connection open, so that a slow caller still gets an answer.
#pragma once

#include <memory>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/units.h"

namespace lockstep::net::detail {

class Watchdog {
 public:
  enum class OnExpiry {
    cancel,  // pending operations fail; check bit() before the next wait
    close,   // pending and later operations fail
  };

  // The socket outlives it.
  explicit Watchdog(boost::asio::ip::tcp::socket& socket);

  // Starts the timer; replaces an earlier one.
  void start(Duration time, OnExpiry then);
  void stop();
  // The time has expired.
  bool expired() const { return state_->expired; }

 private:
  struct State {
    boost::asio::ip::tcp::socket* socket;
    boost::asio::steady_timer timer;
    bool expired = false;
  };
  // Shared only with a pending callback, which finds the watchdog gone if it is destroyed
  // meanwhile.
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::net::detail
