// PresenceSocket: the socket on which the ranks of an external job name themselves, and by which
// the agent learns of their ends. A rank holds its connection for as long as its process lives.
//
//   rank to agent:  {"rank":3,"local_rank":1}\n     first
//                   {"leaving":"ValueError: ..."}\n  its program ends; empty: without an error
//                   one byte, then the end           the exit code, from on_exit(3)
//   agent to rank:  {"report":"/.../rank-3",         the answer: its report socket, and the folder
//                    "media":"/.../media"}\n         of its images and histograms
//                   {"note":"..."}\n                 a line for the user
//                   {"delivered":true}\n             all reports are at the daemon, or will be late
//
// Nothing here blocks, except for a moment in which a process that has ended becomes a zombie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/agent/external/job_ranks.h"

namespace lockstep::agent {

struct RankHello {
  int rank = 0;
  std::optional<int> local_rank{};
  std::int64_t pid = 0;
};

// The files to which a rank writes.
struct RankPlaces {
  std::filesystem::path report;  // a socket
  std::filesystem::path media;   // a folder, which the rank makes
};

class PresenceSocket {
 public:
  struct Sinks {
    // An error closes the connection.
    std::function<Result<RankPlaces>(const RankHello& hello)> joined;
    std::function<void(int rank, const std::string& error)> leaving;
    std::function<void(int rank, const RankFarewell& farewell)> ended;
  };

  static Result<PresenceSocket> open(const std::filesystem::path& path, Sinks sinks);

  // To be polled for reading; they may change after each read().
  std::vector<int> fds() const;
  void read();
  // To the processes of this rank. False if it has none.
  bool send_note(int rank, const std::string& note);
  // Some rank waits until its reports are delivered.
  bool has_leaving() const;
  void send_delivered();

 private:
  struct Connection {
    Fd socket;
    pid_t pid = 0;
    std::string line{};
    std::optional<int> rank{};
    bool leaving = false;
    bool awaits_delivery = false;
    std::optional<int> code{};
  };

  PresenceSocket(Fd listener, Sinks sinks)
      : listener_(std::move(listener)), sinks_(std::move(sinks)) {}
  void accept_all();
  bool read_from(Connection& connection);
  bool add_bytes(Connection& connection, std::string_view bytes);
  bool handle_line(Connection& connection);
  bool handle_hello(Connection& connection, const RankHello& hello);
  void handle_end(const Connection& connection);

  Fd listener_;
  Sinks sinks_;
  std::list<Connection> connections_;
};

// The status of wait(2) of a process that has ended and that its parent has not reaped. Waits for a
// moment for the end.
std::optional<int> wait_status_of_zombie(pid_t pid);

}  // namespace lockstep::agent
