// RateLimitedLog: logs a repeated failure once a minute, not each time: a full disk must not be
// filled by the log of that failure. The current failures can be listed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/format.h"

namespace lockstep {

class RateLimitedLog {
 public:
  explicit RateLimitedLog(const Clock& clock) : clock_(clock) {}  // outlives this

  // Records a failure, described by `message`; true if it is to be logged now. `what` names the
  // thing that fails: one cause, one log line.
  bool should_log(const std::string& what, std::string message) {
    const Time now = clock_.now();
    const auto [entry, fresh] = entries_.try_emplace(what, Entry{now, now, {}});
    entry->second.message = std::move(message);
    const bool say =
        fresh || now < entry->second.last_logged || now - entry->second.last_logged >= kInterval;
    if (say) entry->second.last_logged = now;
    return say;
  }
  // Records a success; true if the failure had been logged, so that its end is to be logged too.
  bool clear(const std::string& what) { return entries_.erase(what) > 0; }

  // The current failures, sorted by the thing that fails:
  // "the message (since 2026-11-21T16:31:00Z)".
  std::vector<std::string> active_failures() const {
    std::vector<std::string> lines;
    for (const auto& [what, entry] : entries_)
      lines.push_back(format("{} (since {})", entry.message,
                             text(std::chrono::floor<std::chrono::seconds>(entry.since))));
    return lines;
  }

 private:
  static constexpr Duration kInterval = std::chrono::minutes(1);
  struct Entry {
    Time since, last_logged;
    std::string message;
  };

  const Clock& clock_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
