// StoreHistory: what the daemon's folder records, beside the database, of the stores that were
// served from it. It survives when a database is moved away, and it detects a database that was
// restored from a copy.
//
// It is written after the commit of the rows that it records, and before anything acts on them. So
// it is never ahead of the database, unless that is an older copy.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "platform/core/model/state.h"
#include "text/record.h"

namespace lockstep::model {

struct StoreHistory {
  std::map<std::string, std::int64_t> issued;   // by generation, as in StoreRow
  std::map<std::string, std::int64_t> numbers;  // by project: the highest run number ever

  bool operator==(const StoreHistory&) const = default;

  static constexpr auto fields() {
    return record<StoreHistory>(
        field("issued", &StoreHistory::issued,
              "by generation of a store, how many runs and attempts were made under it"),
        field("numbers", &StoreHistory::numbers,
              "by project, the highest number that a run was ever given"));
  }
};

// These rows are durable.
void record_issued(StoreHistory& history, std::span<const Change> rows);
void record_issued(StoreHistory& history, const State& state);

// How many runs and attempts were created under the store's generation that the store does not
// know.
std::int64_t missing_from_store(const StoreRow& store, const StoreHistory& history);

}  // namespace lockstep::model
