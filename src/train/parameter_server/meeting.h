// Meeting: how workers and servers make groups of a few ranks. No group has all ranks of the run,
// so the end of a worker ends its own group only, and a worker may come at any time.
//
// Each worker has a group with all servers: the servers in their order, then the worker. A process
// of a worker announces itself by a key "ps/arrived/RANK/NUMBER" of the run's rendezvous, with the
// first number that no process of this rank has taken. The servers wait for the keys. Keys are set
// once, so a process that replaces a lost one gets another number, and another group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "comm/torch/connect.h"
#include "train/group/comm.h"

namespace lockstep::train {

class Meeting {
 public:
  // A connection to the run's rendezvous, for one thread.
  using Open = std::function<Result<comm::RunRendezvous>(bool makes_secret, Duration timeout)>;

  // timeout: of each wait for another rank.
  Meeting(int rank, int ranks, Duration timeout, Open open)
      : rank_(rank), ranks_(ranks), timeout_(timeout), open_(std::move(open)) {}
  // With the rank, the number of ranks and the rendezvous of the environment.
  static Result<std::shared_ptr<Meeting>> from_environment(Duration timeout);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Duration timeout() const { return timeout_; }

  // On each server: a group of all servers, under a name that no other has.
  Result<Comm> connect_servers(const std::vector<int>& servers, const std::string& name) const;
  // On a worker: its group. Waits until the servers accept workers.
  Result<Comm> join(const std::vector<int>& servers) const;
  // On each server: waits until a worker's process with this number has announced itself; returns
  // the connection over which to accept it. cancelled: keep_waiting() returned false before. After
  // any other error the rendezvous may answer again later.
  Result<comm::RunRendezvous> wait_arrival(const std::vector<int>& servers, int worker, int number,
                                           const std::function<bool()>& keep_waiting) const;
  // On each server, at about the same time: the group of this process.
  Result<Comm> accept(comm::RunRendezvous& run, const std::vector<int>& servers, int worker,
                      int number) const;

 private:
  Result<Comm> connect(comm::RunRendezvous& run, std::vector<int> members, std::string key_space,
                       std::string name, Duration connect_bound) const;

  const int rank_;
  const int ranks_;
  const Duration timeout_;
  const Open open_;
};

}  // namespace lockstep::train
