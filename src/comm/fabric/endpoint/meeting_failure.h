// Why a group cannot connect, at its rendezvous. The rank that fails first leaves its reason there
// before it closes its connections. So a rank that sees only such a connection end finds the
// reason, even if the message over the connection did not arrive.
#pragma once

#include <optional>

#include "comm/fabric/control_connection.h"
#include "comm/rendezvous/rendezvous.h"

namespace lockstep::comm {

// `rank`: the global rank that calls. Leaves `own` there, if it is the first. Otherwise returns the
// first one, with the rank that left it; nullopt if that is this rank, or the rendezvous is gone.
std::optional<FailureReason> exchange_meeting_failure(Rendezvous& rendezvous, int rank,
                                                      const FailureReason& own);

}  // namespace lockstep::comm
