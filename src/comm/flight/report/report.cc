#include "comm/flight/report/report.h"

#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/diagnosis/slow_link.h"
#include "comm/flight/diagnosis/straggler.h"

namespace lockstep::comm {
namespace {

Time micro(FlightTime time) { return std::chrono::time_point_cast<Duration>(time); }

std::optional<Time> micro(const std::optional<FlightTime>& time) {
  return time ? std::optional(micro(*time)) : std::nullopt;
}

double seconds(Nanoseconds span) { return std::chrono::duration<double>(span).count(); }

FlightRankCall part_of(int rank, const FlightOperation& call) {
  FlightRankCall part;
  part.rank = rank;
  part.state = call.state;
  part.enqueued = micro(call.enqueued);
  part.started = micro(call.started);
  if (call.started && call.ended) part.lasted_seconds = seconds(*call.ended - *call.started);
  part.came_bytes = call.received.count();
  if (!call.wait) return part;
  part.waits_for = call.wait->peer;
  part.waits_purpose = text(call.wait->reason);
  part.waits_since = micro(call.wait->since);
  return part;
}

FlightCollective collective_of(const FlightGroup& group, const FlightRow& row) {
  const FlightOperation& call = row.first_recorded();
  FlightCollective collective{.sequence = row.sequence,
                              .operation = call.name,
                              .label = call.label,
                              .type = call.type,
                              .reduction = call.reduction,
                              .bytes = call.bytes.count(),
                              .root = call.root,
                              .last_rank = {},
                              .skew_seconds = {},
                              .ranks = {}};
  if (const auto skew = skew_of(group, row)) {
    collective.last_rank = skew->rank;
    collective.skew_seconds = seconds(skew->skew);
  }
  for (std::size_t i = 0; i < row.calls.size(); ++i)
    if (row.calls[i] != nullptr)
      collective.ranks.push_back(part_of(group.logs[i].rank, *row.calls[i]));
  return collective;
}

FlightRank rank_of(const FlightLog& log) {
  return {.rank = log.rank,
          .host = log.host,
          .pid = log.pid,
          .process = log.process,
          .last_seen = micro(log.last_seen()),
          .dropped = log.dropped,
          .unreadable = log.unreadable};
}

FlightStraggler straggler_of(const Straggler& one) {
  return {.rank = one.rank,
          .host = one.host,
          .last_share = one.last_share,
          .behind_seconds = seconds(one.median_lag),
          .cost_share = one.cost_share,
          .collectives = one.collectives};
}

FlightSlowLink slow_link_of(const SlowLink& one) {
  return {.from_rank = one.from.rank,
          .from_host = one.from.host,
          .to_rank = one.to.rank,
          .to_host = one.to.host,
          .cost_share = one.cost_share,
          .others_share = one.others_share,
          .collectives = one.collectives};
}

}  // namespace

FlightGroupReport flight_report(const FlightGroup& group, std::size_t newest, FlightTime now) {
  FlightGroupReport report{.group = group.name,
                           .size = group.size,
                           .diagnosis = diagnose(group, now),
                           .ranks = {},
                           .stragglers = {},
                           .slow_links = {},
                           .collectives = {}};
  for (const FlightLog& log : group.logs) report.ranks.push_back(rank_of(log));
  for (const Straggler& one : find_stragglers(group))
    report.stragglers.push_back(straggler_of(one));
  for (const SlowLink& one : find_slow_links(group)) report.slow_links.push_back(slow_link_of(one));
  for (const FlightRow& row : flight_rows(group, newest))
    report.collectives.push_back(collective_of(group, row));
  return report;
}

}  // namespace lockstep::comm
