// Reader: a thread that reads sources at a fixed pace. A source that hangs, as a driver may, holds
// up this thread only: the others go on, and the owner does not wait for it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "platform/telemetry/source.h"

namespace lockstep::telemetry {

struct Sample {
  Time time{};
  Readings readings{};
};

class Reader {
 public:
  // Called in the thread: it may take long, too.
  using Open = std::function<Sources()>;

  // Reads when the wall clock has a whole multiple of the period, so that the samples of all hosts
  // are of the same moments.
  Reader(Open open, Duration period);
  // Waits for 100 ms at most. A thread that hangs is left behind, and ends when it can.
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The samples since the last call, the newest 60. Samples without readings are left out.
  std::vector<Sample> take();
  // How long the sources have not answered by now; zero: they answer, or are not due.
  Duration hanging() const;

 private:
  class State;
  // Shared with the thread, which may outlive this object.
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::telemetry
