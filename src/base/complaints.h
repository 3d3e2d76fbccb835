// Complaints: what keeps going wrong is said once a minute, not each time: a disk that is full must
// not be filled by the log that says so. What goes wrong just now can be asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/format.h"

namespace lockstep {

class Complaints {
 public:
  explicit Complaints(const Clock& clock) : clock_(clock) {}  // outlives this

  // It went wrong (again), as these words say; whether they are to be said now. `what` names the
  // thing that fails: one cause, one complaint.
  bool due(const std::string& what, std::string words) {
    const Time now = clock_.now();
    const auto [entry, fresh] = entries_.try_emplace(what, Entry{now, now, {}});
    entry->second.words = std::move(words);
    const bool say = fresh || now < entry->second.said || now - entry->second.said >= kInterval;
    if (say) entry->second.said = now;
    return say;
  }
  // It goes well; whether it had been complained of, so that the end of that is to be said.
  bool over(const std::string& what) { return entries_.erase(what) > 0; }

  // What goes wrong now: "the words (since 2026-11-21T16:31:00Z)", by what it is of.
  std::vector<std::string> current() const {
    std::vector<std::string> lines;
    for (const auto& [what, entry] : entries_)
      lines.push_back(format("{} (since {})", entry.words,
                             text(std::chrono::floor<std::chrono::seconds>(entry.since))));
    return lines;
  }

 private:
  static constexpr Duration kInterval = std::chrono::minutes(1);
  struct Entry {
    Time since, said;
    std::string words;
  };

  const Clock& clock_;
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep
