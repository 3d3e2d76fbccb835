// StragglerWatch: looks now and then at what the ranks recorded of their collectives, and tells of
// ranks that the others wait for (comm/flight/verdict/straggler.h) and of slow links (slow_link.h).
//
// A look reads one record a turn, so that who calls is never held up for long: a millisecond or two
// for the half MiB of each. Records are read as the ranks write them, and cost these nothing.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "comm/flight/verdict/group.h"

namespace lockstep {

class StragglerWatch {
 public:
  // folders: of flight records; they need not be there.
  StragglerWatch(std::vector<std::filesystem::path> folders, Duration period);

  // When to call turn() next.
  Deadline due() const { return due_; }
  struct Finding {
    int rank = 0;  // a straggler, or who sends over a slow link
    std::string words;
  };
  // What to tell: who was no straggler and what no slow link at the look before, three times each
  // at most. Empty but at the end of a look.
  std::vector<Finding> turn();

 private:
  void begin_look();
  void read_one();
  std::vector<Finding> end_look();
  bool is_new(const std::string& what);

  const std::vector<std::filesystem::path> folders_;
  const Duration period_;
  Deadline due_;
  bool looking_ = false;
  std::vector<std::filesystem::path> unread_;
  std::vector<FlightLog> logs_;
  std::set<std::string> before_, now_;  // ranks and links, at the last look and at this one
  std::map<std::string, int> told_;     // how often
};

}  // namespace lockstep
