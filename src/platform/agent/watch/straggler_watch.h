// StragglerWatch: periodically reads the flight records of the ranks, and reports ranks that the
// others wait for (comm/flight/diagnosis/straggler.h) and slow links (slow_link.h).
//
// Each poll() reads one record, so it returns quickly: a millisecond or two for the half MiB of
// each. Records are read as the ranks write them, at no cost for the ranks. A scan of
// many records keeps only their newest operations in memory, enough for a result.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "comm/flight/diagnosis/group.h"

namespace lockstep::agent {

// How many of its newest operations a scan of so many records keeps of each.
std::size_t operations_kept(std::size_t records);

class StragglerWatch {
 public:
  // folders: of flight records; they need not exist.
  StragglerWatch(std::vector<std::filesystem::path> folders, Duration period);

  // When to call poll() next.
  Deadline due() const { return due_; }
  struct Finding {
    int rank = 0;  // a straggler, or the sender on a slow link
    std::string message;
  };
  // Stragglers and slow links that the previous scan did not find, each reported three times at
  // most. Empty except at the end of a scan.
  std::vector<Finding> poll();

 private:
  void begin_scan();
  void read_next_record();
  std::vector<Finding> finish_scan();
  bool is_new(const std::string& what);

  const std::vector<std::filesystem::path> folders_;
  const Duration period_;
  Deadline due_;
  bool scanning_ = false;
  std::vector<std::filesystem::path> unread_;
  std::size_t operations_kept_ = 0;  // of each record
  std::vector<comm::FlightLog> logs_;
  std::set<std::string> before_, now_;  // ranks and links of the previous scan and of this one
  std::map<std::string, int> report_counts_;  // number of reports
};

}  // namespace lockstep::agent
