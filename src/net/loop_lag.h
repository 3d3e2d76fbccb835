// LoopLag: by how much the callbacks of a loop delay others. A timer is due every 20 ms; its delay
// is the time for which other callbacks kept the loop.
#pragma once

#include "base/units.h"
#include "net/loop.h"

namespace lockstep::net {

class LoopLag {
 public:
  explicit LoopLag(Loop& loop);

  // The longest delay in the last one to two minutes.
  Duration longest() const;

 private:
  void expect_next();
  void record(Duration lag);

  Loop& loop_;
  Duration period_begin_{};
  Duration longest_{};           // in the present period
  Duration longest_previous_{};  // in the one before
  Timer timer_;
};

}  // namespace lockstep::net
