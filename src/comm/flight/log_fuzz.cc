#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/flight/log.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

std::string record() {
  constexpr std::string_view kNames[] = {"all_reduce", "recv"};
  FlightRecorder recorder({1, {"shard 1", {2, 4, 6, 8}}, "g", "host-a"}, {kNames, kNames, kNames});
  const auto first = recorder.record_started({.sequence = 1, .bytes = 64, .type = 0});
  recorder.mark_ended(first, true, 64);
  recorder.mark_waiting(recorder.record_started({.sequence = 2, .bytes = 8}), 3,
                        WaitReason::enter_call, 0);
  const auto bytes = recorder.snapshot();
  // The header and the first operations; the others are unused.
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

LS_FUZZ(flight, {record(), record().substr(0, 5000)}) {
  const auto log = parse_flight(fuzzing::bytes_of(input));
  if (!log) return;
  LS_CHECK(log->operations.size() <= FlightRecorder::kRecords);
  (void)log->last_seen();
}
