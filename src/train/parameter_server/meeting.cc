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
  return std::make_shared<Meeting>(
      numbers.rank, numbers.size, timeout,
      [timeout](bool makes_secret) { return comm::open_rendezvous(makes_secret, timeout); });
}

// The loss of a worker is no fault of the run.
Result<Comm> Meeting::connect(comm::RunRendezvous& run, std::vector<int> members,
                              std::string key_space, std::string name) const {
  defer_fault_reports();
  const auto place = std::ranges::find(members, rank_) - members.begin();
  LS_CHECK(place < std::ssize(members));
  if (members.size() == 1) return Comm();
  auto group = TRY(comm::process_group_by_name(*run.rendezvous, run.secret,
                                               {.rank = static_cast<int>(place),
                                                .size = static_cast<int>(members.size()),
                                                .group = std::move(key_space),
                                                .members = {std::move(name), std::move(members)},
                                                .timeout = timeout_}));
  return Comm(std::move(group), timeout_);
}

Result<Comm> Meeting::connect_servers(const std::vector<int>& servers) const {
  auto run = TRY(open_(servers.front() == rank_));
  return connect(run, servers, "ps-servers", "the servers");
}

Result<Comm> Meeting::join(const std::vector<int>& servers) const {
  auto run = TRY(open_(false));
  const auto process = net::Secret::random().hex();
  int number = 0;
  for (;; ++number) {
    const auto done = run.rendezvous->set(arrival_key(rank_, number), process);
    if (done) break;
    if (done.error().code != Code::already_exists) return done.error();
  }
  return connect(run, with(servers, rank_), key_space(rank_, number), group_name(rank_));
}

Result<Comm> Meeting::accept(const std::vector<int>& servers, int worker, int number,
                             const std::function<bool()>& keep_waiting) const {
  auto run = TRY(open_(servers.front() == rank_));
  for (;;) {
    if (!keep_waiting()) return Error{Code::cancelled, "no further workers are accepted"};
    const auto found = run.rendezvous->get(arrival_key(worker, number), Deadline::after(kLook));
    if (found) break;
    if (found.error().code != Code::timeout) return found.error();
  }
  return connect(run, with(servers, worker), key_space(worker, number), group_name(worker));
}

}  // namespace lockstep::train
