// How ranks connect with this backend: through a store that torch made, or from their environment.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "base/result.h"
#include "base/units.h"
#include "comm/group/group_ranks.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/crypto.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace lockstep::comm {

class Membership;

struct ConnectOptions {
  int rank = 0;
  int size = 1;
  std::string group = "world";  // a key space in the rendezvous
  GroupRanks members = {};      // for messages; empty: all ranks of a run
  Duration timeout = std::chrono::minutes(10);
  Duration rendezvous_timeout =
      Duration(0);  // until all are connected; zero: the time-out of a call
  // For ranks that connect again after a loss, with different numbers of groups so far: the number
  // of agreements.
  int generation = 0;
  // These ranks are its members; its check() ends connecting. Shared, because subgroups are made
  // later, if the membership still exists then.
  std::shared_ptr<Membership> membership = nullptr;
};

// A backend whose ranks connect through the store. The secret is that of LOCKSTEP_SECRET_FILE, else
// that of meet_by_launcher(). Without both, rank 0 makes one and puts it into the store, which must
// then be trusted.
Result<c10::intrusive_ptr<c10d::Backend>> connect_through_store(
    c10::intrusive_ptr<c10d::Store> store, const ConnectOptions& options);

// The same through LOCKSTEP_RENDEZVOUS, which needs LOCKSTEP_SECRET_FILE, for groups without a
// store of torch. Collective over all ranks of the run: each calls it the same number of times in a
// generation.
Result<c10::intrusive_ptr<c10d::Backend>> connect_at_rendezvous(const ConnectOptions& options);

// The same as a process group, for CPU tensors and those of devices that have a backend.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> process_group_at_rendezvous(
    const ConnectOptions& options);

// A process group with this backend, for programs in C++. RANK and WORLD_SIZE give
// the rank. Ranks connect through LOCKSTEP_RENDEZVOUS, which needs LOCKSTEP_SECRET_FILE. If that is
// not set, they use a TCPStore at MASTER_ADDR and MASTER_PORT, as under torchrun; under launchers
// that do not set these, such as srun, they are set first (launcher_environment.h). Collective:
// each rank calls it the same number of times. timeout bounds this call and every collective.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> connect_from_environment(
    Duration timeout = std::chrono::minutes(10));

// The rendezvous of the run, from the environment as above, for groups of a few of its ranks.
struct RunRendezvous {
  std::unique_ptr<Rendezvous> rendezvous;  // for one thread at a time
  net::Secret secret;
};
// makes_secret: true on one of the ranks that make groups; where the launcher gives none, it makes
// the secret, and the others wait for it.
Result<RunRendezvous> open_rendezvous(bool makes_secret, Duration timeout);

// A process group for CPU tensors, under the name options.group, which no group of the run had
// before. Only its own ranks call it.
Result<c10::intrusive_ptr<c10d::ProcessGroup>> process_group_by_name(Rendezvous& rendezvous,
                                                                     const net::Secret& secret,
                                                                     const ConnectOptions& options);

// RANK and WORLD_SIZE, as connect_from_environment() reads them, for programs that do not connect
// all ranks.
struct RankNumbers {
  int rank = 0;
  int size = 1;
};
Result<RankNumbers> rank_from_environment(Duration timeout);

}  // namespace lockstep::comm
