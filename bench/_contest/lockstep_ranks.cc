// Lockstep's ranks in the contest, and the memory traffic that bounds all of them.
//
//   bench_contest RANKS PATH [HOST...] SOCKET     (started once; it forks the ranks)
//
// HOST is ADDRESS=NAMESPACE: a network namespace, as a file, with an address of it. Each has
// equally many ranks, which share memory with each other only; without, all ranks are on this one.
// PATH says whose memory is communicated: zero-copy (Communicator::allocate) or staged (malloc).
// With `memory` no rank communicates: each rank reads and writes in its own memory as much as a
// rank must read and write in all for that collective. No algorithm can be faster than that.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/environment.h"
#include "base/os/spawn.h"
#include "comm/collective/communicator.h"
#include "comm/fabric/address/network_options.h"
#include "comm/reduction/reduction.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"
#include "rank.h"

namespace lockstep::bench::contest {
namespace {

using namespace std::chrono_literals;

// Waits for one of our calls, in the same way for all of the contest.
void finish(const comm::OperationFuture& call) {
  if (const auto result = call.wait(); !result) exit_with_error(result.error().message);
}

// One rank's groups: one for each algorithm, over all ranks, created when it is first requested.
class GroupsByAlgorithm {
 public:
  GroupsByAlgorithm(comm::CommunicatorOptions options, comm::Rendezvous& meeting_place)
      : options_(std::move(options)), rendezvous_(meeting_place) {
    select("");
  }

  comm::Communicator& selected() const { return *selected_; }
  void select(const std::string& way) {
    auto& group = groups_[way];
    if (!group) {
      options_.group = "world" + way;
      options_.algorithm = way.substr(0, way.find('#'));
      auto created = comm::Communicator::create(options_, rendezvous_);
      if (!created) exit_with_error(created.error().message);
      group = std::move(*created);
    }
    selected_ = group.get();
  }

 private:
  comm::CommunicatorOptions options_;
  comm::Rendezvous& rendezvous_;
  std::map<std::string, std::unique_ptr<comm::Communicator>> groups_;
  comm::Communicator* selected_ = nullptr;
};

class Member : public Contestant {
 public:
  explicit Member(GroupsByAlgorithm& groups) : groups_(groups) {}
  int rank() const override { return communicator().rank(); }
  int ranks() const override { return communicator().size(); }
  void select_algorithm(const std::string& way) override { groups_.select(way); }
  void barrier() override { finish(communicator().barrier(comm::CallMode::blocking)); }
  std::optional<std::uint64_t> wire_bytes() const override { return communicator().wire_bytes(); }

 protected:
  comm::Communicator& communicator() const { return groups_.selected(); }

 private:
  GroupsByAlgorithm& groups_;
};

// Ordinary memory.
class Staged : public Member {
 public:
  using Member::Member;
  std::span<float> allocate(std::size_t floats) override {
    memory_ = plain_memory(floats);
    return {memory_.get(), floats};
  }
  void all_reduce(std::span<float> buffer) override {
    finish(communicator().all_reduce(std::as_writable_bytes(buffer), DataType::float32,
                                     ReduceOp::sum, comm::CallMode::blocking));
  }
  void reduce_scatter(std::span<float> input, std::span<float> output) override {
    finish(communicator().reduce_scatter(std::as_bytes(input), std::as_writable_bytes(output),
                                         DataType::float32, ReduceOp::sum,
                                         comm::CallMode::blocking));
  }
  void all_gather(std::span<float> output) override {
    const std::size_t block = output.size() / static_cast<std::size_t>(ranks());
    const auto own = output.subspan(static_cast<std::size_t>(rank()) * block, block);
    finish(communicator().all_gather(std::as_bytes(own), std::as_writable_bytes(output),
                                     comm::CallMode::blocking));
  }

 private:
  PlainMemory memory_;
};

class ZeroCopy : public Staged {
 public:
  using Staged::Staged;
  std::span<float> allocate(std::size_t floats) override {
    const auto size = Bytes(static_cast<std::int64_t>(floats * sizeof(float)));
    auto allocated = communicator().allocate(size);
    if (!allocated) exit_with_error(allocated.error().message);
    memory_ = std::move(*allocated);
    return {reinterpret_cast<float*>(memory_.data()), floats};
  }

 private:
  comm::Buffer memory_;
};

// Every input is read once and every result written once by some rank. Here each rank does its
// share of that with our reduction kernel, on n memory blocks of its own. It bypasses the cache, as
// we do for so many bytes, where results do not replace operands.
class Memory final : public ZeroCopy {
 public:
  using ZeroCopy::ZeroCopy;
  // n blocks read and n written: a slice of every rank's buffer, and the sum to the same blocks.
  void all_reduce(std::span<float> buffer) override {
    const auto blocks = blocks_of(buffer);
    move(blocks, {blocks.begin(), blocks.end()}, buffer.size(), comm::StoreMode::cached);
  }
  // n blocks read, one written.
  void reduce_scatter(std::span<float> input, std::span<float> output) override {
    const auto blocks = blocks_of(input);
    move({as_bytes(output)}, {blocks.begin(), blocks.end()}, input.size(),
         comm::StoreMode::non_temporal);
  }
  // One block read, n - 1 written.
  void all_gather(std::span<float> output) override {
    auto blocks = blocks_of(output);
    const std::byte* const source = blocks.back();
    blocks.pop_back();
    if (!blocks.empty()) move(blocks, {source}, output.size(), comm::StoreMode::non_temporal);
  }

 private:
  static std::byte* as_bytes(std::span<float> memory) {
    return reinterpret_cast<std::byte*>(memory.data());
  }
  std::vector<std::byte*> blocks_of(std::span<float> whole) const {
    const std::size_t length = whole.size() / static_cast<std::size_t>(ranks());
    std::vector<std::byte*> blocks;
    for (std::size_t at = 0; at + length <= whole.size(); at += length)
      blocks.push_back(as_bytes(whole.subspan(at)));
    return blocks;
  }
  void move(const std::vector<std::byte*>& to, const std::vector<const std::byte*>& from,
            std::size_t floats, comm::StoreMode stores) const {
    comm::reduce(to, from, floats / static_cast<std::size_t>(ranks()),
                 {DataType::float32, ReduceOp::sum, 1, stores});
  }
};

struct HostNamespace {
  std::string address;
  std::string network;  // the namespace; empty: where we are
};

HostNamespace parse_host(const std::string& words) {
  const auto equals = words.find('=');
  if (equals == std::string::npos) exit_with_error("'" + words + "' is not ADDRESS=NAMESPACE");
  return {words.substr(0, equals), words.substr(equals + 1)};
}

struct Group {
  int ranks;
  std::string path, socket;
  std::vector<HostNamespace> hosts;
  net::Secret secret = net::Secret::random();

  std::size_t host_of(int rank) const {
    return static_cast<std::size_t>(rank) * hosts.size() / static_cast<std::size_t>(ranks);
  }
};

void enter_network(const HostNamespace& host) {
  if (host.network.empty()) return;
  const Fd network(::open(host.network.c_str(), O_RDONLY | O_CLOEXEC));
  if (!network || ::setns(network.get(), CLONE_NEWNET) != 0)
    exit_with_error("entering the network " + host.network + ": " + errno_text(errno));
}

std::unique_ptr<Contestant> contestant_on(const std::string& path, GroupsByAlgorithm& groups) {
  if (path == "zero-copy") return std::make_unique<ZeroCopy>(groups);
  if (path == "staged") return std::make_unique<Staged>(groups);
  if (path == "memory") return std::make_unique<Memory>(groups);
  exit_with_error("there is no path '" + path + "'; there are zero-copy, staged and memory");
}

// The options of the environment, so that a user can try another provider.
comm::NetworkOptions network_of(const std::string& meeting_host) {
  auto network = comm::network_options_from_environment(own_environment());
  if (!network) exit_with_error(network.error().message);
  network->rendezvous_host = meeting_host;
  return *network;
}

[[noreturn]] void run_rank(const Group& group, int rank, int ports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::uint16_t port = 0;
  if (::read(ports, &port, sizeof port) != sizeof port) exit_with_error("no rendezvous");
  const auto& meeting_host = group.hosts.front().address;
  enter_network(group.hosts[group.host_of(rank)]);
  auto meeting_place =
      comm::RendezvousClient::connect(meeting_host, port, group.secret, Deadline::after(10s));
  if (!meeting_place) exit_with_error(meeting_place.error().message);
  {
    GroupsByAlgorithm groups({.rank = rank,
                              .size = group.ranks,
                              .host_id = std::to_string(group.host_of(rank)),
                              .secret = group.secret,
                              .timeout = 30s,
                              .network = network_of(meeting_host)},
                             **meeting_place);
    serve(*contestant_on(group.path, groups), group.socket);
  }
  ::_exit(0);
}

// Forks before this process has threads, so the rendezvous starts after that.
int run(const Group& group) {
  const Pipe ports = make_pipe().value();
  for (int rank = 0; rank < group.ranks; ++rank)
    if (::fork() == 0) run_rank(group, rank, ports.read.get());
  const auto& meeting_host = group.hosts.front();
  enter_network(meeting_host);
  const auto server = comm::RendezvousServer::start(meeting_host.address, 0, group.secret).value();
  const std::uint16_t port = server->port();
  for (int rank = 0; rank < group.ranks; ++rank)
    LS_CHECK(::write(ports.write.get(), &port, sizeof port) == sizeof port);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::bench::contest

int main(int argc, char** argv) {
  using namespace lockstep::bench::contest;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const int ranks = words.empty() ? 0 : std::atoi(words[0].c_str());
  if (words.size() < 3 || ranks < 1)
    exit_with_error("bench_contest RANKS zero-copy|staged|memory [ADDRESS=NAMESPACE...] SOCKET");
  std::vector<HostNamespace> hosts;
  for (std::size_t i = 2; i + 1 < words.size(); ++i) hosts.push_back(parse_host(words[i]));
  if (hosts.empty()) hosts.push_back({"127.0.0.1", ""});
  return run({ranks, words[1], words.back(), hosts});
}
