// What all parts of the world share: its time, its diary, and the verdict on what happened in it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "sim/timeline.h"

namespace lockstep::sim {

// Called with each line of the trace; empty: nobody reads it, and nothing is formatted.
using TraceSink = std::function<void(std::string_view line)>;

class Scene {
 public:
  explicit Scene(TraceSink sink) : sink_(std::move(sink)) {}
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Timeline timeline;
  SimClock clock{timeline};

  // One line of the trace: when, who, what.
  template <class... Args>
  void tell(std::string_view who, fmt::format_string<Args...> pattern, Args&&... args) {
    if (sink_) write(who, fmt::format(pattern, std::forward<Args>(args)...));
  }
  bool traced() const { return static_cast<bool>(sink_); }

  // An invariant does not hold. The first violation counts; what follows may be its consequence.
  void violate(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  void write(std::string_view who, std::string_view what);

  const TraceSink sink_;
  std::optional<std::string> violation_;
};

}  // namespace lockstep::sim
