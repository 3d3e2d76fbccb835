// The order of the runs of a query, which an index of the store has.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/store/detail/run_reader.h"
#include "platform/store/run_query.h"

namespace lockstep::store::detail {

// run_values has it for each run.
bool is_fixed(std::string_view name);
// A column of runs that an index has, as SQL.
std::string_view indexed_column(std::string_view name);
std::string_view index_of_column(std::string_view name);

// A place in the order: of a run, or after it.
struct Place {
  bool is_last = false;      // among the runs without the value, which are the newest first
  run_query::SortKey key{};  // the value by which the run is sorted
  model::RunId run{};
};

class RunOrder {
 public:
  // Both outlive this.
  RunOrder(Database& database, const RunSelection& selection)
      : database_(database), selection_(selection) {}

  // Code::invalid: no index has it.
  Result<void> check() const;
  // The runs after the place, at most so many; with is_last also those that have the value.
  Result<std::vector<Place>> after(const std::optional<Place>& place, int most);
  Place place_of(const ReadRun& run) const;
  // The form of `next`. Code::invalid: it is of another list.
  std::string text(const Place& place) const;
  Result<Place> parse_place(const std::string& words) const;
  bool is_before(const Place& a, const Place& b) const;

 private:
  struct Part {
    std::string sql{};
    std::vector<SqlValue> values{};
  };

  // The field; empty: the order of the list.
  std::string field() const;
  bool is_descending() const;
  bool is_by_number() const;
  Part conditions(std::string_view value, const std::optional<Place>& after, bool down) const;
  Part of_column(std::string_view table, std::string_view value, const std::optional<Place>& after,
                 bool down) const;
  Part of_named(const std::optional<Place>& after) const;
  Part newest(const std::optional<Place>& after) const;
  Result<void> read(const Part& part, bool is_last, int most, std::vector<Place>& places);

  Database& database_;
  const RunSelection& selection_;
};

}  // namespace lockstep::store::detail
