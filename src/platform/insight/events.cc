// Events of a run, as reported by its ranks and agents, one line each.
#include <algorithm>

#include "base/format.h"
#include "platform/insight/insight.h"

namespace lockstep::insight {
namespace {

// Removes line ends; cuts at a character.
std::string single_line(std::string_view input, std::size_t most) {
  std::string line(input.substr(0, most));
  if (input.size() > most)
    while (!line.empty() && (static_cast<unsigned char>(input[line.size()]) & 0xc0) == 0x80)
      line.pop_back();
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace

// Writes only the events that are kept, even if one call brings very many.
Result<void> Insight::put_events(const model::NodeId& node,
                                 std::span<const spool::TelemetryItem> items) {
  std::vector<const spool::TelemetryItem*> told;
  for (const spool::TelemetryItem& item : items)
    if (item.kind == spool::TelemetryKind::event) told.push_back(&item);
  if (told.empty()) return {};
  const model::RunId& run = node.attempt.run;
  const auto found = TRY(database_.rows<std::int64_t>(
      "select coalesce(max(event), 0) from events where project = :project and number = :number",
      run.project, run.number));
  const std::int64_t newest = std::get<0>(found.at(0)) + std::ssize(told);
  std::int64_t event = newest - std::ssize(told);
  for (const spool::TelemetryItem* item : told)
    if (++event > newest - limits_.events)
      TRY(database_.execute(
          "insert into events (project, number, event, epoch, rank, step, time, text) values "
          "(:project, :number, :event, :epoch, :rank, :step, :time, :text)",
          run.project, run.number, event, node.attempt.epoch, item->rank, item->step, item->time,
          single_line(item->text, limits_.event)));
  return database_.execute(
      "delete from events where project = :project and number = :number and event <= :gone",
      run.project, run.number, newest - limits_.events);
}

Result<std::vector<RunEvent>> Insight::events(const model::RunId& run) {
  std::vector<RunEvent> events;
  for (auto& [event, epoch, rank, step, time, text] :
       TRY((database_.rows<std::int64_t, std::int64_t, int, std::int64_t, Time, std::string>(
           "select event, epoch, rank, step, time, text from events where project = :project and "
           "number = :number order by event",
           run.project, run.number)))) {
    if (events.empty() && event > 1)
      events.push_back({.epoch = epoch,
                        .time = time,
                        .text = format("{} events before this one are kept no longer", event - 1)});
    events.push_back(
        {.epoch = epoch, .rank = rank, .step = step, .time = time, .text = std::move(text)});
  }
  return events;
}

}  // namespace lockstep::insight
