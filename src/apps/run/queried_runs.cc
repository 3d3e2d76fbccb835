#include "apps/run/queried_runs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "apps/run/run_display.h"
#include "base/format.h"
#include "platform/api/routes.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

// Each looks at 4,000 runs at most.
constexpr int kAnswersMax = 25;

template <class T>
void move_to(std::vector<T>& all, std::vector<T>& more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void add_up(api::RunGroup& group, const api::RunGroup& more) {
  group.runs += more.runs;
  for (const auto& [state, runs] : more.states) group.states[state] += runs;
  if (more.numbers == 0) return;
  group.least = group.numbers == 0 ? more.least : std::min(group.least, more.least);
  group.greatest = group.numbers == 0 ? more.greatest : std::max(group.greatest, more.greatest);
  group.sum += more.sum;
  group.numbers += more.numbers;
}

void add_groups(std::vector<api::RunGroup>& all, std::vector<api::RunGroup>& more) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i) places.emplace(all[i].value, i);
  for (api::RunGroup& group : more) {
    const auto place = places.find(group.value);
    if (place == places.end())
      all.push_back(std::move(group));
    else
      add_up(all[place->second], group);
  }
}

// "12 succeeded, 3 failed", the most frequent first.
std::string states_text(const api::RunGroup& group) {
  std::vector<std::pair<std::string, std::int64_t>> states(group.states.begin(),
                                                           group.states.end());
  std::ranges::stable_sort(states, std::ranges::greater(),
                           &std::pair<std::string, std::int64_t>::second);
  std::vector<std::string> words;
  for (const auto& [state, runs] : states) words.push_back(format("{} {}", runs, state));
  return joined(words, ", ");
}

}  // namespace

Result<api::RunList> list_runs(client::Client& client, api::RunsQuery query) {
  const int limit = query.limit;
  api::RunList list = TRY(client.call(api::kRuns, {.query = query}));
  for (int answers = 1; query.query && list.next && answers < kAnswersMax; ++answers) {
    query.limit = limit - static_cast<int>(list.runs.size());
    if (query.limit <= 0) break;
    query.after = list.next;
    api::RunList more = TRY(client.call(api::kRuns, {.query = query}));
    move_to(list.runs, more.runs);
    move_to(list.sorted, more.sorted);
    add_groups(list.groups, more.groups);
    list.next = std::move(more.next);
  }
  return list;
}

std::string groups_table(const api::RunList& list, const run_query::Query& line) {
  const bool with_numbers = line.sort && std::ranges::any_of(list.groups, [](const auto& group) {
                              return group.numbers > 0;
                            });
  std::vector<std::string> header = {*line.group, "RUNS", "STATES"};
  if (with_numbers)
    for (const auto* number : {"LEAST", "MEAN", "GREATEST"})
      header.push_back(format("{} {}", number, line.sort->field));
  Table table(header);
  for (const api::RunGroup& group : list.groups) {
    std::vector<std::string> row = {group.value.empty() ? "-" : group.value,
                                    format("{}", group.runs), states_text(group)};
    if (with_numbers) {
      const auto shown = [&group](double number) {
        return group.numbers == 0 ? std::string("-") : human_number(number);
      };
      const double mean = group.sum / static_cast<double>(std::max<std::int64_t>(1, group.numbers));
      for (const double number : {group.least, mean, group.greatest}) row.push_back(shown(number));
    }
    table.add(std::move(row));
  }
  return fit_to_terminal(table);
}

}  // namespace lockstep::cli
