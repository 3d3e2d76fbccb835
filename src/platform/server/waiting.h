// Waiting: calls whose answer is not there yet (long polls). Each is tried again when its run
// changes, and a last time when its patience ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "base/units.h"
#include "net/loop.h"
#include "platform/core/model/ids.h"

namespace lockstep {

class Waiting {
 public:
  // A last try must answer, whatever there is to say.
  enum class Turn { early, last };
  // True: it has answered, and is not called again.
  using Try = std::function<bool(Turn)>;

  explicit Waiting(Loop& loop) : loop_(loop) {}

  // Tries at once, then as said above. Without patience the first try is the last.
  void wait(const RunId& run, Duration patience, Try attempt);
  // The run changed: its calls are tried again soon, together with those of other wakes, and never
  // from inside this.
  void wake(const RunId& run);
  // Gives every call its last try now; later ones do not wait.
  void end();

 private:
  struct Waiter {
    RunId run;
    Try attempt;
    Timer patience;
  };

  void try_woken();
  void try_again(std::int64_t id, Turn turn);

  Loop& loop_;
  bool ended_ = false;
  std::int64_t next_ = 0;
  std::map<std::int64_t, Waiter> waiters_;
  std::set<RunId> woken_;
  Timer wakening_;
};

}  // namespace lockstep
