// How ranks come together over this backend: from a store that torch made, or from what their
// environment says.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"
#include "comm/group/members.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace lockstep {

class Crew;

struct ConnectOptions {
  int rank = 0;
  int size = 1;
  std::string group = "world";  // a key space in the meeting place
  Members members = {};         // for messages; empty: all ranks of a run
  Duration timeout = std::chrono::minutes(10);
  Duration meeting = Duration(0);  // until all are there; zero: as long as a call may take
  // Of ranks that meet again after a loss, in which the number of groups that they have made
  // differs: how often they have met.
  int generation = 0;
  // Of which these ranks are members: its check() ends the meeting. Shared, since parts of the
  // group are made later, if the crew is there then.
  std::shared_ptr<Crew> crew = nullptr;
};

// A backend whose ranks meet in the store. The secret is that of LOCKSTEP_SECRET_FILE; without it,
// rank 0 makes one and puts it into the store, which is then to be trusted.
Result<c10::intrusive_ptr<c10d::Backend>> connect_through(c10::intrusive_ptr<c10d::Store> store,
                                                          const ConnectOptions& options);

// The same at LOCKSTEP_RENDEZVOUS, which needs LOCKSTEP_SECRET_FILE, for groups that no store made.
// Collective over all ranks of the run: each calls it equally often in a generation.
Result<c10::intrusive_ptr<c10d::Backend>> connect_at_meeting_place(const ConnectOptions& options);

// The same as a process group for CPU tensors.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> group_at_meeting_place(
    const ConnectOptions& options);

// A process group with this backend for CPU tensors, for programs in C++. RANK and WORLD_SIZE say
// who we are. Ranks meet at LOCKSTEP_RENDEZVOUS, which needs LOCKSTEP_SECRET_FILE; where that is
// not set, in a TCPStore at MASTER_ADDR and MASTER_PORT, as under torchrun. Collective: each rank
// calls it equally often. timeout bounds this call and every collective.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> connect_from_environment(
    Duration timeout = std::chrono::minutes(10));

}  // namespace lockstep
