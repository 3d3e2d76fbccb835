// FlightGroup: the records of the ranks of one group, for comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/flight/log.h"

namespace lockstep::comm {

struct FlightGroup {
  std::string name;  // for messages; unique among the groups that were read with it
  int size = 1;
  std::vector<int> members;     // global ranks
  std::vector<FlightLog> logs;  // by rank; some may be missing
};

// The world first, then by name; of two records of the same rank, the later one.
std::vector<FlightGroup> flight_groups(std::vector<FlightLog> logs);

// One collective.
struct FlightRow {
  std::uint64_t sequence = 0;
  std::vector<const FlightOperation*> calls;  // as group.logs; null: not recorded
  // The call of the lowest rank that has it.
  const FlightOperation& first_recorded() const;
};

// The newest `most`, oldest first; they point into the group.
std::vector<FlightRow> flight_rows(const FlightGroup& group, std::size_t most);

// The rank that entered last, and how long after the first.
struct FlightSkew {
  int rank = 0;
  Nanoseconds skew{};
};
// Nullopt unless two ranks have entered.
std::optional<FlightSkew> skew_of(const FlightGroup& group, const FlightRow& row);

// The newest collective that the rank has entered; null: none.
const FlightOperation* newest_entered(const FlightLog& log);

// The reference time of ages: now while one of the ranks runs, else the last time in any record.
FlightTime viewed_at(const std::vector<FlightLog>& logs, FlightTime now);

}  // namespace lockstep::comm
