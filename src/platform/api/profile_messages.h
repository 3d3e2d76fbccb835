// Messages about traces that running ranks take with torch.profiler; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

inline constexpr int kProfileStepsMax = 1000;
inline constexpr std::int64_t kTraceBytesMax = 64 << 20;

// absent: the rank has not called profile_step() yet. waiting: it has, and its next step begins the
// trace. recording: for some steps. delivering: the trace is complete, and not all of it has come.
enum class TraceState { absent, waiting, recording, delivering, done, failed };
constexpr auto enum_names(TraceState) {
  return names<TraceState>({{TraceState::absent, "absent"},
                            {TraceState::waiting, "waiting"},
                            {TraceState::recording, "recording"},
                            {TraceState::delivering, "delivering"},
                            {TraceState::done, "done"},
                            {TraceState::failed, "failed"}});
}

// --- Users ---

struct ProfileRequest {
  std::string request_id;
  std::vector<int> ranks = {};
  int steps = 5;

  static constexpr auto fields() {
    return record<ProfileRequest>(
        required(field("request_id", &ProfileRequest::request_id,
                       "names this request, such as a UUID: a call with the same one again begins "
                       "no second trace; at most 64 characters")),
        field("ranks", &ProfileRequest::ranks, "whose traces are taken; none: all"),
        between(1, kProfileStepsMax,
                field("steps", &ProfileRequest::steps, "how many steps each of them records")));
  }
};

struct ProfileQuery {
  std::string request_id;
  std::int64_t after_version = -1;
  double wait_seconds = 0;

  static constexpr auto fields() {
    return record<ProfileQuery>(
        required(field("request_id", &ProfileQuery::request_id, "that of the request")),
        between(-1, 1'000'000'000,
                field("after_version", &ProfileQuery::after_version,
                      "answer once the version is greater than this")),
        between(0, 30, field("wait", &ProfileQuery::wait_seconds, "seconds to wait for that")));
  }
};

struct TraceView {
  int rank = 0;
  int node = 0;
  std::string host = {};
  TraceState state = TraceState::absent;
  int steps = 0;
  std::int64_t bytes = 0;
  std::string message = {};

  bool operator==(const TraceView&) const = default;

  static constexpr auto fields() {
    return record<TraceView>(
        field("rank", &TraceView::rank, "global rank"),
        field("node", &TraceView::node, "its node's number in the attempt"),
        field("host", &TraceView::host, "where it runs"),
        field("state", &TraceView::state, "how far the trace is"),
        field("steps", &TraceView::steps, "how many steps it has recorded"),
        field("bytes", &TraceView::bytes, "how much of the trace the daemon has"),
        field("message", &TraceView::message, "why it failed"));
  }
};

struct ProfileView {
  std::string run;
  std::string request_id;
  int steps = 0;
  std::int64_t base_us = 0;
  bool ended = false;
  std::int64_t version = 0;
  std::vector<TraceView> ranks = {};

  static constexpr auto fields() {
    return record<ProfileView>(
        field("run", &ProfileView::run, "the run"),
        field("request_id", &ProfileView::request_id, "that of the request"),
        field("steps", &ProfileView::steps, "how many steps each rank records"),
        field("base_us", &ProfileView::base_us,
              "zero of the traces' clock, in microseconds since 1970"),
        field("ended", &ProfileView::ended, "the attempt whose ranks were asked has ended"),
        field("version", &ProfileView::version, "grows with each change"),
        field("ranks", &ProfileView::ranks, "the ranks that were asked"));
  }
};

struct TraceQuery {
  std::string request_id;
  int rank = 0;
  std::int64_t offset = 0;

  static constexpr auto fields() {
    return record<TraceQuery>(
        required(field("request_id", &TraceQuery::request_id, "that of the request")),
        between(0, 1'000'000'000, required(field("rank", &TraceQuery::rank, "global rank"))),
        between(0, kTraceBytesMax, field("offset", &TraceQuery::offset, "where the part begins")));
  }
};

// A part of a rank's trace: gzip of the events of a Chrome trace, with commas between them.
struct TracePart {
  std::string bytes;
  std::int64_t total = 0;

  static constexpr auto fields() {
    return record<TracePart>(
        field("bytes", &TracePart::bytes, "in base64; empty: the trace ends here"),
        field("total", &TracePart::total, "the size of the whole trace"));
  }
};

// --- Agents ---

struct TraceOrder {
  int rank = 0;
  std::int64_t received = 0;

  bool operator==(const TraceOrder&) const = default;

  static constexpr auto fields() {
    return record<TraceOrder>(
        field("rank", &TraceOrder::rank, "global rank"),
        field("received", &TraceOrder::received, "how much of its trace the daemon has"));
  }
};

// The ranks of a node whose traces are not complete yet. Also the content of the file by which they
// hear of it.
struct ProfileOrder {
  std::string request_id;
  int steps = 0;
  std::int64_t base_us = 0;
  std::vector<TraceOrder> ranks = {};

  bool operator==(const ProfileOrder&) const = default;

  static constexpr auto fields() {
    return record<ProfileOrder>(
        field("request_id", &ProfileOrder::request_id, "that of the request"),
        field("steps", &ProfileOrder::steps, "how many steps each rank records"),
        field("base_us", &ProfileOrder::base_us,
              "zero of the traces' clock, in microseconds since 1970"),
        field("ranks", &ProfileOrder::ranks, "the ranks of this node that it concerns"));
  }
};

struct TraceReport {
  int rank = 0;
  TraceState state = TraceState::absent;
  int steps = 0;
  std::string message = {};
  std::int64_t offset = 0;
  std::string bytes = {};
  std::int64_t total = 0;

  bool operator==(const TraceReport&) const = default;

  static constexpr auto fields() {
    return record<TraceReport>(
        required(field("rank", &TraceReport::rank, "global rank")),
        required(field("state", &TraceReport::state, "how far the trace is")),
        field("steps", &TraceReport::steps, "how many steps it has recorded"),
        field("message", &TraceReport::message, "why it failed"),
        field("offset", &TraceReport::offset, "where the part begins"),
        field("bytes", &TraceReport::bytes, "a part of the trace, in base64"),
        field("total", &TraceReport::total, "the size of the whole trace, once it is complete"));
  }
};

struct ProfileReport {
  std::string request_id;
  std::vector<TraceReport> ranks = {};

  bool operator==(const ProfileReport&) const = default;

  static constexpr auto fields() {
    return record<ProfileReport>(
        required(field("request_id", &ProfileReport::request_id, "that of the order")),
        field("ranks", &ProfileReport::ranks, "the ranks of the order"));
  }
};

}  // namespace lockstep::api
