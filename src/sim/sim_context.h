// SimContext: the state that all parts of the simulation share: its time, its trace and its first
// violation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "sim/world/timeline.h"

namespace lockstep::sim {

// Called with each line of the trace; if empty, no line is formatted.
using TraceSink = std::function<void(std::string_view line)>;

class SimContext {
 public:
  explicit SimContext(TraceSink sink) : sink_(std::move(sink)) {}
  SimContext(const SimContext&) = delete;
  SimContext& operator=(const SimContext&) = delete;

  Timeline timeline;
  SimClock clock{timeline};

  // Writes one line of the trace: time, component, event.
  template <class... Args>
  void trace(std::string_view who, fmt::format_string<Args...> pattern, Args&&... args) {
    if (sink_) write(who, fmt::format(pattern, std::forward<Args>(args)...));
  }
  bool traced() const { return static_cast<bool>(sink_); }

  // An invariant does not hold. The first violation counts; what follows may be its consequence.
  void report_violation(std::string what);
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  void write(std::string_view who, std::string_view what);

  const TraceSink sink_;
  std::optional<std::string> violation_;
};

}  // namespace lockstep::sim
