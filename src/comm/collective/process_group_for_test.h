// Groups of ranks for tests: forked children that report in lines over a pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/os/fd.h"
#include "comm/collective/communicator.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"

namespace lockstep::comm::testing_processes {

struct Pipe {
  Pipe() {
    int ends[2];
    LS_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    from = Fd(ends[0]);
    to = Fd(ends[1]);
  }
  Fd from, to;
};

inline void write_line(int fd, const std::string& line) {
  LS_CHECK(write_all(fd, line + "\n").has_value());
}

// Empty when no line arrives within the bound.
inline std::string read_line(int fd, Duration bound = std::chrono::seconds(20)) {
  std::string line;
  const auto deadline = Deadline::after(bound);
  for (char c = 0;
       net::wait_ready(fd, POLLIN, deadline, "reading a line") && ::read(fd, &c, 1) == 1;) {
    if (c == '\n') return line;
    line += c;
  }
  return line;
}

class Ranks {
 public:
  struct Self {
    Communicator& comm;
    int report;  // write_line here
    int orders;  // read_line from here
    std::uint16_t rendezvous_port;
  };
  using Body = std::function<void(Self)>;

  // Forks before this process has threads, so the rendezvous starts after the fork.
  Ranks(const std::vector<std::string>& hosts, Duration timeout, const Body& body,
        int full_mesh_ranks = kFullMeshRanks)
      : full_mesh_ranks_(full_mesh_ranks), reports_(hosts.size()), orders_(hosts.size()) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) live(static_cast<int>(rank), hosts, timeout, body);
      pids_.push_back(pid);
    }
    server_ = RendezvousServer::start("127.0.0.1", 0, secret_).value();
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      order(static_cast<int>(rank), std::to_string(server_->port()));
  }
  ~Ranks() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  void order(int rank, const std::string& line) { write_line(orders_[index(rank)].to.get(), line); }
  std::string report(int rank, Duration bound = std::chrono::seconds(20)) {
    return read_line(reports_[index(rank)].from.get(), bound);
  }
  void signal(int rank, int number) { ::kill(pids_[index(rank)], number); }
  pid_t pid(int rank) const { return pids_[index(rank)]; }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  [[noreturn]] void live(int rank, const std::vector<std::string>& hosts, Duration timeout,
                         const Body& body) {
    const int orders = orders_[index(rank)].from.get(), report = reports_[index(rank)].to.get();
    const auto port = static_cast<std::uint16_t>(std::stoi(read_line(orders)));
    auto client = RendezvousClient::connect("127.0.0.1", port, secret_,
                                            Deadline::after(std::chrono::seconds(10)));
    auto comm = Communicator::create({.rank = rank,
                                      .size = static_cast<int>(hosts.size()),
                                      .host_id = hosts[index(rank)],
                                      .secret = secret_,
                                      .timeout = timeout,
                                      .network = {.address = "127.0.0.1"},
                                      .full_mesh_ranks = full_mesh_ranks_},
                                     **client);
    write_line(report, comm ? "met" : comm.error().message);
    if (comm) body({**comm, report, orders, port});
    comm.value().reset();
    write_line(report, "left");
    ::_exit(0);
  }

  const int full_mesh_ranks_;
  const net::Secret secret_ = net::Secret::random();
  std::vector<Pipe> reports_, orders_;
  std::vector<pid_t> pids_;
  std::unique_ptr<RendezvousServer> server_;
};

inline std::string words(const Result<void>& result) {
  return result ? "ok"
                : format("{}: {}", lockstep::text(result.error().code), result.error().message);
}

}  // namespace lockstep::comm::testing_processes
