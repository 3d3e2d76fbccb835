// Flight records for tests: three ranks and their calls.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/diagnosis/group.h"

namespace lockstep::comm::testing_flight {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline const FlightTime kBegin = FlightTime(seconds(1'800'000'000));
inline const FlightTime kNow = kBegin + seconds(40);

inline FlightOperation call(std::uint64_t sequence, std::string name, std::string label = {}) {
  FlightOperation operation;
  operation.sequence = sequence;
  operation.name = std::move(name);
  operation.label = std::move(label);
  operation.bytes = operation.name == "barrier" ? 0_B : 4_MiB;
  operation.enqueued = kBegin;
  return operation;
}

// Each of these enters at kBegin + `at` unless it is only queued.
inline FlightOperation started(FlightOperation operation, milliseconds at) {
  operation.state = FlightState::started;
  operation.enqueued = kBegin + at;
  operation.started = kBegin + at;
  return operation;
}

inline FlightOperation done(FlightOperation operation, milliseconds at, milliseconds lasted) {
  operation = started(std::move(operation), at);
  operation.state = FlightState::done;
  operation.ended = kBegin + at + lasted;
  return operation;
}

inline FlightOperation failed(FlightOperation operation) {
  operation.state = FlightState::failed;
  operation.ended = *operation.started + seconds(30);
  return operation;
}

inline FlightOperation waiting(FlightOperation operation, int peer, WaitReason what) {
  operation.wait = {peer, what, *operation.started};
  return operation;
}

inline FlightLog rank(int number, std::vector<FlightOperation> operations) {
  FlightLog log;
  log.rank = number;
  log.size = 3;
  log.group = log.name = "world";
  log.members = {0, 1, 2};
  log.host = "host-a";
  log.pid = 4700 + number;
  log.process = ProcessState::runs;
  log.recorded_since = kBegin;
  log.operations = std::move(operations);
  return log;
}

inline FlightGroup group_of(std::vector<FlightLog> logs) {
  auto groups = flight_groups(std::move(logs));
  EXPECT_THAT(groups, testing::SizeIs(1));
  return groups.at(0);
}

// Rank 1 hangs in the barrier that the others have left.
inline std::vector<FlightLog> one_late_rank() {
  const auto barrier = call(810, "barrier");
  const auto gather = call(811, "all_gather", "layers.6");
  const auto scatter = call(812, "reduce_scatter", "layers.7");
  return {rank(0, {done(barrier, milliseconds(0), milliseconds(2)),
                   waiting(started(gather, milliseconds(10)), 1, WaitReason::send_data)}),
          rank(1, {waiting(started(barrier, milliseconds(1)), 0, WaitReason::enter_call), gather}),
          rank(2, {done(barrier, milliseconds(3), milliseconds(1)),
                   done(gather, milliseconds(12), milliseconds(5)),
                   started(scatter, milliseconds(20))})};
}

}  // namespace lockstep::comm::testing_flight
