#include "platform/agent/external/presence_socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "text/convert.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kPresenceLineMax = 16 << 10;
constexpr std::size_t kPresenceConnectionsMax = 2048;
constexpr Duration kZombieWait = std::chrono::milliseconds(20);

struct PresenceLine {
  std::optional<int> rank;
  std::optional<int> local_rank;
  std::optional<std::string> leaving;

  static constexpr auto fields() {
    return record<PresenceLine>(
        field("rank", &PresenceLine::rank, "global rank"),
        field("local_rank", &PresenceLine::local_rank, "rank on its host"),
        field("leaving", &PresenceLine::leaving, "the error that ends its program"));
  }
};

pid_t peer_of(const Fd& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

// A rank that does not read loses the line: the agent waits for no rank.
bool send_line(const Fd& socket, const Json& json) {
  const std::string line = dump_json(json) + "\n";
  return ::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(line.size());
}

}  // namespace

Result<PresenceSocket> PresenceSocket::open(const std::filesystem::path& path, Sinks sinks) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof address.sun_path)
    return Error{Code::invalid, format("the socket's path {} is too long", path.string())};
  std::ranges::copy(path.native(), address.sun_path);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    return os_error("listening on the socket " + path.string(), errno);
  return PresenceSocket(std::move(socket), std::move(sinks));
}

std::vector<int> PresenceSocket::fds() const {
  std::vector<int> all;
  if (connections_.size() < kPresenceConnectionsMax) all.push_back(listener_.get());
  for (const Connection& connection : connections_) all.push_back(connection.socket.get());
  return all;
}

void PresenceSocket::read() {
  accept_all();
  for (auto connection = connections_.begin(); connection != connections_.end();) {
    if (read_from(*connection)) {
      ++connection;
      continue;
    }
    handle_end(*connection);
    connection = connections_.erase(connection);
  }
}

void PresenceSocket::accept_all() {
  while (connections_.size() < kPresenceConnectionsMax) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const pid_t pid = peer_of(socket);
    connections_.push_back({.socket = std::move(socket), .pid = pid});
  }
}

// False at the end.
bool PresenceSocket::read_from(Connection& connection) {
  char buffer[4096];
  while (true) {
    const ssize_t n = ::recv(connection.socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    if (!add_bytes(connection, {buffer, static_cast<std::size_t>(n)})) return false;
  }
}

// A rank whose library calls exit(3) itself sends its code without having left.
bool PresenceSocket::add_bytes(Connection& connection, std::string_view bytes) {
  for (const char byte : bytes) {
    if (connection.leaving) {
      connection.code = static_cast<unsigned char>(byte);
    } else if (byte != '\n') {
      connection.line += byte;
    } else if (!handle_line(connection)) {
      return false;
    }
    if (connection.line.size() > kPresenceLineMax) return false;
  }
  if (!connection.leaving && connection.line.size() == 1)
    connection.code = static_cast<unsigned char>(connection.line.front());
  return true;
}

bool PresenceSocket::handle_line(Connection& connection) {
  const std::string line = std::exchange(connection.line, {});
  if (line.empty()) {
    connection.code = '\n';
    return true;
  }
  const auto read = [&]() -> Result<PresenceLine> {
    return from_json<PresenceLine>(TRY(parse_json(line)), UnknownFields::ignore);
  }();
  if (!read) {
    LS_LOG(warning, "a line of process {} cannot be read: {}", connection.pid,
           read.error().message);
    return false;
  }
  connection.code.reset();
  if (!connection.rank && read->rank)
    return handle_hello(
        connection, {.rank = *read->rank, .local_rank = read->local_rank, .pid = connection.pid});
  if (!connection.rank || !read->leaving) return true;
  connection.leaving = true;
  connection.awaits_delivery = true;
  sinks_.leaving(*connection.rank, *read->leaving);
  return true;
}

bool PresenceSocket::handle_hello(Connection& connection, const RankHello& hello) {
  const auto places = sinks_.joined(hello);
  if (!places) {
    LS_LOG(warning, "rank {} (process {}) is refused: {}", hello.rank, hello.pid,
           places.error().message);
    return false;
  }
  connection.rank = hello.rank;
  return send_line(connection.socket,
                   {{"report", places->report.string()}, {"media", places->media.string()}});
}

void PresenceSocket::handle_end(const Connection& connection) {
  if (!connection.rank) return;
  RankFarewell farewell{.code = connection.code};
  if (!connection.code && !connection.leaving)
    farewell.wait_status = wait_status_of_zombie(connection.pid);
  sinks_.ended(*connection.rank, farewell);
}

bool PresenceSocket::send_note(int rank, const std::string& note) {
  bool sent = false;
  for (const Connection& connection : connections_)
    if (connection.rank == rank) sent = send_line(connection.socket, {{"note", note}}) || sent;
  return sent;
}

bool PresenceSocket::has_leaving() const {
  return std::ranges::any_of(connections_, &Connection::awaits_delivery);
}

void PresenceSocket::send_delivered() {
  for (Connection& connection : connections_)
    if (std::exchange(connection.awaits_delivery, false))
      send_line(connection.socket, {{"delivered", true}});
}

// proc(5): the state follows the program's name, which may contain spaces; exit_code is 50 fields
// later.
std::optional<int> wait_status_of_zombie(pid_t pid) {
  for (const auto end = Deadline::after(kZombieWait); !end.passed(); ::usleep(500)) {
    const auto stat = read_file(format("/proc/{}/stat", pid));
    const auto name_end = stat ? stat->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return std::nullopt;
    std::istringstream fields(stat->substr(name_end + 1));
    std::string state;
    std::string status;
    fields >> state;
    if (state != "Z" && state != "X") continue;
    for (int field = 0; field < 48; ++field) fields >> status;
    int number = 0;
    if (fields >> number) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace lockstep::agent
