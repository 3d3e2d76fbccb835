#include "comm/flight/report/trace.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/format.h"
#include "comm/flight/diagnosis/flight_text.h"
#include "comm/flight/report/report.h"  // IWYU pragma: keep (names of states)
#include "text/convert.h"

namespace lockstep::comm {
namespace {

// Equal for all groups of one process.
using ProcessKey = std::tuple<std::string, std::string, int, std::uint64_t>;

ProcessKey process_of(const FlightLog& log) {
  return {log.host, log.pid_space, log.pid, log.process_start};
}

std::map<ProcessKey, const FlightLog*> processes_in(const std::vector<FlightGroup>& groups) {
  std::map<ProcessKey, const FlightLog*> processes;
  for (const FlightGroup& group : groups)
    for (const FlightLog& log : group.logs) processes.emplace(process_of(log), &log);
  return processes;
}

FlightTime first_start(const std::vector<FlightGroup>& groups) {
  FlightTime first = FlightTime::max();
  for (const FlightGroup& group : groups)
    for (const FlightLog& log : group.logs)
      for (const FlightOperation& operation : log.operations)
        first = std::min(first, operation.started.value_or(first));
  return first;
}

double microseconds(Nanoseconds span) { return static_cast<double>(span.count()) / 1000; }

Json named(std::string_view what, int process, std::size_t track, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}};
}

Json details(const FlightOperation& operation) {
  Json all = {{"call", full_call_text(operation)},
              {"sequence", operation.sequence},
              {"state", lockstep::name_of(operation.state)},
              {"queued_us", to_json(microseconds(*operation.started - operation.enqueued))}};
  if (operation.peer)
    all["peer"] = *operation.peer == kAnyPeer ? Json("any") : Json(*operation.peer);
  if (operation.wait)
    all["waits"] = format("for rank {} {}", operation.wait->peer, text(operation.wait->reason));
  return all;
}

Json slice(const FlightOperation& operation, FlightTime origin) {
  const auto& label = operation.label;
  return {{"name", label.empty() ? operation.name : format("{} {}", operation.name, label)},
          {"cat", operation.is_collective() ? "collective" : "point to point"},
          {"ts", to_json(microseconds(*operation.started - origin))}};
}

void add_call(const FlightOperation& operation, FlightTime origin, FlightTime now,
              const Json& where, Json& events) {
  const FlightTime end = std::max(operation.ended.value_or(now), *operation.started);
  Json begin = slice(operation, origin);
  begin.update(where);
  begin["args"] = details(operation);
  if (operation.is_collective()) {
    begin["ph"] = "X";
    begin["dur"] = to_json(microseconds(end - *operation.started));
    events.push_back(std::move(begin));
    return;
  }
  begin["ph"] = "b";
  begin["id"] = events.size();
  Json over = begin;
  over["ph"] = "e";
  over["ts"] = to_json(microseconds(end - origin));
  events.push_back(std::move(begin));
  events.push_back(std::move(over));
}

void add_log(const FlightLog& log, const std::string& group, int process, std::size_t track,
             FlightTime origin, FlightTime now, Json& events) {
  const Json where = {{"pid", process}, {"tid", track}};
  events.push_back(named("thread_name", process, track, group));
  for (const FlightOperation& operation : log.operations)
    if (operation.started) add_call(operation, origin, now, where, events);
}

}  // namespace

Json flight_trace(const std::vector<FlightGroup>& groups, FlightTime now) {
  const auto processes = processes_in(groups);
  const FlightTime origin = first_start(groups);
  Json events = Json::array();
  int process = 0;
  for (const auto& [identity, log] : processes) {
    events.push_back(named("process_name", process, 0, format("rank {}", log->rank)));
    events.back()["args"]["labels"] = log->host;
    for (std::size_t track = 0; track < groups.size(); ++track)
      for (const FlightLog& one : groups[track].logs)
        if (process_of(one) == identity)
          add_log(one, groups[track].name, process, track, origin, now, events);
    ++process;
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
}

}  // namespace lockstep::comm
