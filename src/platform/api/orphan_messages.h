// Messages about runs that another store has started here; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct OrphanView {
  std::string run;
  std::int64_t attempt = 0;
  std::string generation;
  std::string name;
  std::string user;
  std::string state;
  std::vector<std::string> hosts;
  int devices = 0;
  std::optional<Time> ends;
  std::vector<std::string> command;
  bool adoptable = false;

  static constexpr auto fields() {
    return record<OrphanView>(
        field("run", &OrphanView::run, "its id in the store that started it"),
        field("attempt", &OrphanView::attempt, "the attempt's number, from 1"),
        field("generation", &OrphanView::generation, "of the store that made the attempt"),
        field("name", &OrphanView::name, "what people call it"),
        field("user", &OrphanView::user, "the user who submitted it"),
        field("state", &OrphanView::state,
              "running, ended (its agents wait to deliver), stopping, or lost (without its agent)"),
        field("hosts", &OrphanView::hosts, "where it holds devices"),
        field("devices", &OrphanView::devices, "that it holds in all"),
        field("ends", &OrphanView::ends, "by its time-out, at the latest as far as is known"),
        field("command", &OrphanView::command, "program and arguments"),
        field("adoptable", &OrphanView::adoptable,
              "what it was launched with is known, so that this store can adopt it"));
  }
};

struct OrphanList {
  std::vector<OrphanView> orphans;

  static constexpr auto fields() {
    return record<OrphanList>(field("orphans", &OrphanList::orphans,
                                    "runs of another store that go on here, by their ids"));
  }
};

struct OrphanRequest {
  std::string by;

  static constexpr auto fields() {
    return record<OrphanRequest>(
        field("by", &OrphanRequest::by, "ignored: the user is that of the token"));
  }
};

}  // namespace lockstep::api
