// Findings about runs, and the energy and use of devices; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/finding.h"
#include "text/record.h"

namespace lockstep::api {

struct FindingQuery {
  bool open = false;
  std::optional<std::int64_t> before{};
  int limit = 100;

  static constexpr auto fields() {
    return record<FindingQuery>(
        field("open", &FindingQuery::open, "only those that have not ended"),
        field("before", &FindingQuery::before, "only findings with a lower id: the next page"),
        between(1, 1000, field("limit", &FindingQuery::limit, "the greatest number of them")));
  }
};

struct FindingView {
  std::int64_t id = 0;
  std::string run{};
  std::int64_t attempt = 0;
  model::FindingKind kind = model::FindingKind::straggler;
  std::string host{};
  std::optional<int> device{};
  std::optional<int> rank{};
  Time since{};
  Time last_seen{};
  std::optional<Time> ended{};
  std::string text{};
  model::FindingAct act = model::FindingAct::event;

  static constexpr auto fields() {
    return record<FindingView>(
        field("id", &FindingView::id, "its number; later findings have higher ones"),
        field("run", &FindingView::run, "the run"),
        field("attempt", &FindingView::attempt, "the epoch of its attempt"),
        field("kind", &FindingView::kind, "the fault"),
        field("host", &FindingView::host, "where; empty: it is about the whole attempt"),
        field("device", &FindingView::device, "of the host; null: not about one device"),
        field("rank", &FindingView::rank, "of the run; null: not about one rank"),
        field("since", &FindingView::since, "when the fault began"),
        field("last_seen", &FindingView::last_seen, "when it was last observed"),
        field("ended", &FindingView::ended,
              "when it was over, or the attempt ended; null: it goes on"),
        field("text", &FindingView::text, "a description for people, in one line"),
        field("act", &FindingView::act,
              "the furthest of: an event of the run, a cordon of the host, and a drain of the host "
              "so that the run starts again elsewhere"));
  }
};

struct FindingList {
  std::vector<FindingView> findings{};
  bool more = false;

  static constexpr auto fields() {
    return record<FindingList>(field("findings", &FindingList::findings, "newest first"),
                               field("more", &FindingList::more, "there are older ones"));
  }
};

struct DeviceUseQuery {
  std::string by = "project";
  std::optional<std::string> project{}, user{}, run{}, month{};

  static constexpr auto fields() {
    return record<DeviceUseQuery>(
        field("by", &DeviceUseQuery::by, "the columns: project, user, run or month, with commas"),
        field("project", &DeviceUseQuery::project, "only of this one"),
        field("user", &DeviceUseQuery::user, "only of runs of this user"),
        field("run", &DeviceUseQuery::run, "only of this run"),
        field("month", &DeviceUseQuery::month, "only of this one, such as 2026-11"));
  }
};

// Null is unknown.
struct DeviceUseView {
  std::string project{}, user{}, run{}, month{};
  std::optional<double> device_kwh{}, host_kwh{};
  std::optional<double> device_minutes{}, idle_minutes{};
  std::optional<double> flops{}, flops_utilization_percent{};

  static constexpr auto fields() {
    return record<DeviceUseView>(
        field("project", &DeviceUseView::project, "empty: of all"),
        field("user", &DeviceUseView::user, "empty: of all"),
        field("run", &DeviceUseView::run, "empty: of all"),
        field("month", &DeviceUseView::month, "such as 2026-11; empty: of all"),
        field("device_kwh", &DeviceUseView::device_kwh,
              "energy of the devices; null: no device has a power reading"),
        field("host_kwh", &DeviceUseView::host_kwh,
              "energy of processors and memory of the hosts, by the run's share of their devices; "
              "null: unknown"),
        field("device_minutes", &DeviceUseView::device_minutes,
              "for which the use of devices is known; null: for none"),
        field("idle_minutes", &DeviceUseView::idle_minutes,
              "of these, with a utilization below 5 %"),
        field("flops", &DeviceUseView::flops,
              "floating-point operations of the models, as the ranks logged them; null: unknown"),
        field("flops_utilization_percent", &DeviceUseView::flops_utilization_percent,
              "of what the devices can do in that time; null: unknown"));
  }
};

struct DeviceUseList {
  std::vector<DeviceUseView> rows{};

  static constexpr auto fields() {
    return record<DeviceUseList>(
        field("rows", &DeviceUseList::rows, "in the order of their columns"));
  }
};

}  // namespace lockstep::api
