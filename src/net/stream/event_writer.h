// EventWriter: sends text to a caller of Responder::send_events(), on the loop's thread. It holds
// one text at most: a caller that reads slowly makes nothing pile up.
#pragma once

#include <memory>
#include <string>

#include "net/http/upgrade.h"
#include "net/loop.h"

namespace lockstep::net {

class EventWriter {
 public:
  // The connection is one of a server on this loop.
  static EventWriter start(Loop& loop, UpgradedConnection connection);
  EventWriter(EventWriter&&) noexcept;
  EventWriter& operator=(EventWriter&&) noexcept;
  ~EventWriter();  // closes the connection

  // Everything that was written is with the system: write() may be called.
  bool is_ready() const;
  void write(std::string text);
  // The caller has closed the connection, or it broke.
  bool has_ended() const;

 private:
  struct State;
  explicit EventWriter(std::shared_ptr<State> state);
  // Shared with the coroutines, which end soon after the connection is closed.
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::net
