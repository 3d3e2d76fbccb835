#include "train/parameter_server/meeting.h"

#include <algorithm>
#include <string>
#include <utility>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "train/faults.h"

namespace lockstep::train {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(200);  // a look for a worker
// A server that ends waits for a connection to the rendezvous at most so long.
constexpr Duration kOpenBound = std::chrono::seconds(10);
// From the announcement of a worker: the servers look often, and all have begun to accept workers.
constexpr Duration kAcceptBound = std::chrono::seconds(30);

std::string arrival_key(int worker, int number) {
  return format("ps/arrived/{}/{}", worker, number);
}

std::string key_space(int worker, int number) { return format("ps-{}-{}", worker, number); }

std::string group_name(int worker) { return format("worker {} and the servers", worker); }

std::vector<int> with(std::vector<int> servers, int worker) {
  servers.push_back(worker);
  return servers;
}

}  // namespace

Result<std::shared_ptr<Meeting>> Meeting::from_environment(Duration timeout) {
  const auto numbers = TRY(comm::rank_from_environment(timeout));
  return std::make_shared<Meeting>(numbers.rank, numbers.size, timeout, &comm::open_rendezvous);
}

Result<Comm> Meeting::connect(comm::RunRendezvous& run, std::vector<int> members,
                              std::string key_space, std::string name,
                              Duration connect_bound) const {
  enable_fault_reports();
  const auto place = std::ranges::find(members, rank_) - members.begin();
  LS_CHECK(place < std::ssize(members));
  if (members.size() == 1) return Comm();
  auto group = TRY(comm::process_group_by_name(*run.rendezvous, run.secret,
                                               {.rank = static_cast<int>(place),
                                                .size = static_cast<int>(members.size()),
                                                .group = std::move(key_space),
                                                .members = {std::move(name), std::move(members)},
                                                .timeout = timeout_,
                                                .rendezvous_timeout = connect_bound}));
  return Comm(std::move(group), timeout_);
}

// The loss of a worker is no fault of the run. For a worker the loss of a server is one.
Result<Comm> Meeting::connect_servers(const std::vector<int>& servers,
                                      const std::string& name) const {
  defer_fault_reports();
  auto run = TRY(open_(servers.front() == rank_, timeout_));
  return connect(run, servers, "ps-" + name, name, timeout_);
}

Result<Comm> Meeting::join(const std::vector<int>& servers) const {
  auto run = TRY(open_(false, timeout_));
  const auto process = net::Secret::random().hex();
  int number = 0;
  for (;; ++number) {
    const auto done = run.rendezvous->set(arrival_key(rank_, number), process);
    if (done) break;
    if (done.error().code != Code::already_exists) return done.error();
  }
  return connect(run, with(servers, rank_), key_space(rank_, number), group_name(rank_), timeout_);
}

Result<comm::RunRendezvous> Meeting::wait_arrival(const std::vector<int>& servers, int worker,
                                                  int number,
                                                  const std::function<bool()>& keep_waiting) const {
  auto run = TRY(open_(servers.front() == rank_, std::min(timeout_, kOpenBound)));
  for (;;) {
    if (!keep_waiting()) return Error{Code::cancelled, "no further workers are accepted"};
    const auto found = run.rendezvous->get(arrival_key(worker, number), Deadline::after(kLook));
    if (found) return run;
    if (found.error().code != Code::timeout) return found.error();
  }
}

Result<Comm> Meeting::accept(comm::RunRendezvous& run, const std::vector<int>& servers, int worker,
                             int number) const {
  return connect(run, with(servers, worker), key_space(worker, number), group_name(worker),
                 std::min(timeout_, kAcceptBound));
}

}  // namespace lockstep::train
