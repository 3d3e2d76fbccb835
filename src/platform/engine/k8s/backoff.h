// Backoff: the pauses between calls of a server that fails.
#pragma once

#include <algorithm>
#include <random>

#include "base/units.h"

namespace lockstep::engine {

// Each pause is twice as long as the last one, up to a bound, and up to half of it shorter by
// chance: daemons that failed together do not come back together.
class Backoff {
 public:
  Backoff(Duration first, Duration max) : first_(first), max_(max), next_(first) {}

  // `asked` is what the server asks for; 0: nothing.
  Duration next(Duration asked) {
    const auto half = next_.count() / 2;
    const Duration pause(half + std::uniform_int_distribution<Duration::rep>(0, half)(random_));
    next_ = std::min(next_ * 2, max_);
    return asked > Duration(0) ? std::min(asked, max_) : pause;
  }
  void reset() { next_ = first_; }

 private:
  Duration first_, max_, next_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace lockstep::engine
