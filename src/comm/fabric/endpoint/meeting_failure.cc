#include "comm/fabric/endpoint/meeting_failure.h"

#include <chrono>
#include <string>

#include "base/format.h"
#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

constexpr auto kFailureKey = "failure";
// The key is set already when it is read.
constexpr auto kReadBound = std::chrono::seconds(5);

Result<FailureReason> read_meeting_failure(Rendezvous& rendezvous) {
  const auto fields =
      TRY(split_fields(TRY(rendezvous.get(kFailureKey, Deadline::after(kReadBound))), 2));
  auto left = TRY(parse_control_message(fields[1]));
  left.failure_reason.error.message =
      format("rank {} gave up: {}", fields[0], left.failure_reason.error.message);
  return std::move(left.failure_reason);
}

}  // namespace

std::optional<FailureReason> exchange_meeting_failure(Rendezvous& rendezvous, int rank,
                                                      const FailureReason& own) {
  const auto left = rendezvous.set(
      kFailureKey, join_fields({std::to_string(rank),
                                to_frame(ControlMessage{ControlMessage::Kind::aborted, {}, own})}));
  if (left || left.error().code != Code::already_exists) return std::nullopt;
  auto first = read_meeting_failure(rendezvous);
  if (!first) return std::nullopt;
  return *std::move(first);
}

}  // namespace lockstep::comm
