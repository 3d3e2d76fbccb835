// LongPolls: calls whose answer is not available yet. Each is tried again when its run changes, and
// a last time at its timeout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "base/units.h"
#include "net/loop.h"
#include "platform/core/model/ids.h"

namespace lockstep::server {

class LongPolls {
 public:
  // The last try must answer, even if nothing has changed.
  enum class AttemptKind { early, last };
  // True: it has answered and is not called again.
  using TryAnswer = std::function<bool(AttemptKind)>;

  explicit LongPolls(net::Loop& loop) : loop_(loop) {}

  // Tries at once, then as described above. Without patience the first try is the last.
  void wait(const model::RunId& run, Duration patience, TryAnswer attempt);
  // The run changed: its calls are tried again soon, together for several notifications, and never
  // inside this call.
  void notify(const model::RunId& run);
  // Gives every call its last try now; later calls do not wait.
  void finish();

 private:
  struct PendingPoll {
    model::RunId run;
    TryAnswer try_answer;
    net::Timer timeout;
  };

  void add(std::int64_t id, PendingPoll poll);
  void retry_notified();
  void retry(std::int64_t id, AttemptKind turn);

  net::Loop& loop_;
  bool ended_ = false;
  std::int64_t next_ = 0;
  std::map<std::int64_t, PendingPoll> polls_;
  std::map<model::RunId, std::set<std::int64_t>> polls_of_run_;
  std::set<model::RunId> notified_;
  net::Timer notify_timer_;
};

}  // namespace lockstep::server
