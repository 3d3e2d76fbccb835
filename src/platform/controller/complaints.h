// Complaints: what keeps going wrong is said once a minute, not each time: a disk that is full must
// not be filled by the log that says so.
#pragma once

#include <map>

#include "base/clock.h"

namespace lockstep {

enum class Trouble { store, list, kill };

class Complaints {
 public:
  explicit Complaints(const Clock& clock) : clock_(clock) {}  // outlives this

  // It went wrong (again); whether that is to be said now.
  bool due(Trouble trouble) {
    const Time now = clock_.now();
    const auto said = said_.find(trouble);
    if (said != said_.end() && now - said->second < kInterval) return false;
    said_.insert_or_assign(trouble, now);
    return true;
  }
  // It goes well; whether it had been complained of, so that the end of that is to be said.
  bool over(Trouble trouble) { return said_.erase(trouble) > 0; }

 private:
  static constexpr Duration kInterval = std::chrono::minutes(1);

  const Clock& clock_;
  std::map<Trouble, Time> said_;
};

}  // namespace lockstep
