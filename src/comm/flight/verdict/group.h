// FlightGroup: what the ranks of one group recorded, set side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/flight/log.h"

namespace lockstep {

struct FlightGroup {
  std::string name;  // for people, and unlike that of the others that were read with it
  int size = 1;
  std::vector<int> members;     // numbers in the run
  std::vector<FlightLog> logs;  // by rank; some may be missing
};

// The world first, then by name; of two records of the same rank, the later begun.
std::vector<FlightGroup> flight_groups(std::vector<FlightLog> logs);

// One collective.
struct FlightRow {
  std::uint64_t sequence = 0;
  std::vector<const FlightOperation*> calls;  // as group.logs; null: not recorded
  // That of the lowest rank that has it.
  const FlightOperation& any() const;
};

// The newest `most`, oldest first; they point into the group.
std::vector<FlightRow> flight_rows(const FlightGroup& group, std::size_t most);

// The rank that entered last, and how long after the first.
struct FlightSkew {
  int rank = 0;
  Nanoseconds behind{};
};
// Nothing unless two have entered.
std::optional<FlightSkew> skew_of(const FlightGroup& group, const FlightRow& row);

// The newest collective that the rank has entered; null: none.
const FlightOperation* newest_entered(const FlightLog& log);

// From when ages count: now while one of the ranks runs, else the last moment of which a record
// tells.
FlightTime viewed_at(const std::vector<FlightLog>& logs, FlightTime now);

}  // namespace lockstep
