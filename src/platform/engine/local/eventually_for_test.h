// Waits for an effect of another process, at most half a minute.
#pragma once

#include <chrono>
#include <functional>

#include <poll.h>

#include "base/clock.h"

namespace lockstep::engine {

inline bool eventually(const std::function<bool()>& holds) {
  for (auto deadline = Deadline::after(std::chrono::seconds(30)); !deadline.passed();
       ::poll(nullptr, 0, 10))
    if (holds()) return true;
  return holds();
}

}  // namespace lockstep::engine
