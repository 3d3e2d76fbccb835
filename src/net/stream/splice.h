// Splice: copies bytes between two connections in both directions, on the loop's thread, until one
// of them ends; then both are closed. It reads more only when the last bytes are written.
#pragma once

#include <functional>
#include <memory>

#include "net/http/upgrade.h"
#include "net/loop.h"

namespace lockstep::net {

class Splice {
 public:
  // Both are connections of a server on this loop. Calls `ended` once, on the loop's thread and
  // never inside of this call, unless the Splice is destroyed first.
  static Splice start(Loop& loop, UpgradedConnection one, UpgradedConnection other,
                      std::function<void()> ended);
  Splice(Splice&&) noexcept;
  Splice& operator=(Splice&&) noexcept;
  ~Splice();  // closes both

 private:
  struct State;
  explicit Splice(std::shared_ptr<State> state);
  // Shared with the coroutines that copy, which end soon after the connections are closed.
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::net
