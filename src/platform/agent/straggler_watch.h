// StragglerWatch: looks now and then at what the ranks recorded of their collectives, and tells of
// ranks that the others wait for (comm/flight/verdict/straggler.h).
//
// A look reads one record a turn, so that who calls is never held up for long: a millisecond or two
// for the half MiB of each. Records are read as the ranks write them, and cost these nothing.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "comm/flight/verdict/straggler.h"

namespace lockstep {

class StragglerWatch {
 public:
  // folders: of flight records; they need not be there.
  StragglerWatch(std::vector<std::filesystem::path> folders, Duration period);

  // When to call turn() next.
  Deadline due() const { return due_; }
  // Whom to tell of: who was no straggler at the look before, three times each at most. Empty but
  // at the end of a look.
  std::vector<Straggler> turn();

 private:
  void begin_look();
  void read_one();
  std::vector<Straggler> end_look();

  const std::vector<std::filesystem::path> folders_;
  const Duration period_;
  Deadline due_;
  bool looking_ = false;
  std::vector<std::filesystem::path> unread_;
  std::vector<FlightLog> logs_;
  std::vector<int> late_;    // at the last look
  std::map<int, int> told_;  // by rank, how often
};

}  // namespace lockstep
