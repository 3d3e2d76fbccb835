#include "platform/store/run_query.h"

#include <algorithm>
#include <map>
#include <utility>

#include "platform/store/detail/run_order.h"
#include "platform/store/detail/run_reader.h"
#include "platform/store/detail/run_start.h"

namespace lockstep::store {
namespace {

using detail::Place;
using detail::ReadRun;

constexpr std::size_t kReadAtOnce = 500;

struct PlacedRun {
  Place place;
  SelectedRun run;
};

class Selector {
 public:
  Selector(Database& database, const RunSelection& selection)
      : database_(database),
        selection_(selection),
        reader_(database, selection),
        order_(database, selection) {}

  Result<SelectedRuns> select() {
    TRY(order_.check());
    std::optional<Place> after;
    if (selection_.after) after = TRY(order_.parse_place(*selection_.after));
    if (const auto few = TRY(detail::few_runs(database_, selection_)))
      TRY(select_among(*few, after));
    else
      TRY(select_in_order(after));
    return take_page();
  }

 private:
  // One more than the answer has, which tells that there are more.
  std::size_t wanted() const { return static_cast<std::size_t>(selection_.filter.limit) + 1; }

  SelectedRun selected(const ReadRun& run) const {
    const auto& [terms, sort, group] = selection_.query;
    return {.run = run.run,
            .state = run.state,
            .sorted = sort ? run_query::value_of(run.values, sort->field) : run_query::Value(),
            .group = group ? run_query::value_of(run.values, *group) : run_query::Value()};
  }
  bool matches(const ReadRun& run) const {
    return run_query::matches(run.values, selection_.query, selection_.now);
  }

  // All of them are read, since only their values have the order.
  Result<void> select_among(const std::vector<model::RunId>& runs,
                            const std::optional<Place>& after) {
    for (std::size_t begin = 0; begin < runs.size(); begin += kReadAtOnce) {
      const auto first = runs.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto count = std::min(kReadAtOnce, runs.size() - begin);
      for (const ReadRun& run :
           TRY(reader_.read({first, first + static_cast<std::ptrdiff_t>(count)}))) {
        Place place = order_.place_of(run);
        if (matches(run) && (!after || order_.is_before(*after, place)))
          found_.push_back({std::move(place), selected(run)});
      }
    }
    std::ranges::sort(found_, [&](const PlacedRun& a, const PlacedRun& b) {
      return order_.is_before(a.place, b.place);
    });
    return {};
  }

  // A run that is there by its time of submission may have a value, by which it came before.
  Result<void> add_runs(const std::vector<Place>& places) {
    std::vector<model::RunId> ids;
    for (const Place& place : places) ids.push_back(place.run);
    std::map<model::RunId, ReadRun> read;
    for (ReadRun& run : TRY(reader_.read(ids))) read.emplace(run.run, std::move(run));
    for (const Place& place : places) {
      const auto run = read.find(place.run);
      if (run == read.end() || !matches(run->second)) continue;
      if (place.is_last && !order_.place_of(run->second).is_last) continue;
      found_.push_back({place, selected(run->second)});
    }
    return {};
  }

  Result<void> select_in_order(std::optional<Place> after) {
    std::size_t at_once = std::min(wanted(), kReadAtOnce);
    const auto most = static_cast<std::size_t>(selection_.looked_at_max);
    for (std::size_t looked_at = 0; found_.size() < wanted();) {
      if (looked_at >= most) {
        rest_ = after;
        return {};
      }
      at_once = std::min({at_once, kReadAtOnce, most - looked_at});
      const auto places = TRY(order_.after(after, static_cast<int>(at_once)));
      TRY(add_runs(places));
      if (places.size() < at_once) return {};
      after = places.back();
      looked_at += at_once;
      at_once *= 2;
    }
    return {};
  }

  SelectedRuns take_page() {
    SelectedRuns page;
    if (found_.size() >= wanted()) {
      found_.resize(wanted() - 1);
      rest_ = found_.back().place;
    }
    for (PlacedRun& each : found_) page.runs.push_back(std::move(each.run));
    if (rest_) page.next = order_.text(*rest_);
    return page;
  }

  Database& database_;
  const RunSelection& selection_;
  detail::RunReader reader_;
  detail::RunOrder order_;
  std::vector<PlacedRun> found_{};
  std::optional<Place> rest_{};
};

}  // namespace

Result<SelectedRuns> select_runs(Database& database, const RunSelection& selection) {
  return Selector(database, selection).select();
}

}  // namespace lockstep::store
