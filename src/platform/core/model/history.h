// History: what the daemon's folder remembers of the stores that were served from it, beside the
// database. It outlives a database that is moved away, and tells one that was put back from a copy.
//
// It is written after the commit of what it tells and before anything is done about that. So it is
// never ahead of the database, unless that is an older copy.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "platform/core/model/state.h"
#include "text/record.h"

namespace lockstep {

struct History {
  std::map<std::string, std::int64_t> minted;   // by generation, as in StoreRow
  std::map<std::string, std::int64_t> numbers;  // by project: the highest that a run was ever given

  bool operator==(const History&) const = default;

  static constexpr auto fields() {
    return record<History>(
        field("minted", &History::minted,
              "by generation of a store, how many runs and attempts were made under it"),
        field("numbers", &History::numbers,
              "by project, the highest number that a run was ever given"));
  }
};

// These rows are durable.
void remember(History& history, std::span<const Change> rows);
void remember(History& history, const State& state);

// More was made under the store's generation than the store knows of: so much.
std::int64_t missing_in(const StoreRow& store, const History& history);

}  // namespace lockstep
