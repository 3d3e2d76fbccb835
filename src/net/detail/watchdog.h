// Watchdog: the bound on what a socket waits for. Unlike the time-out of a beast::tcp_stream it can
// leave the connection open, so that a caller who was too slow can be told.
#pragma once

#include <memory>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/units.h"

namespace lockstep::detail {

class Watchdog {
 public:
  enum class Then {
    cancel,  // what is pending fails; ask bit() before the next wait
    close,   // what is pending and all that follows fails
  };

  // The socket outlives it.
  explicit Watchdog(boost::asio::ip::tcp::socket& socket);

  // From now on; ends what was started before.
  void start(Duration time, Then then);
  void stop();
  // The time was over.
  bool bit() const { return state_->bit; }

 private:
  struct State {
    boost::asio::ip::tcp::socket* socket;
    boost::asio::steady_timer timer;
    bool bit = false;
  };
  // Shared with nobody for long: a callback that is on its way when this dies finds it gone.
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::detail
