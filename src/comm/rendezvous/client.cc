#include "comm/rendezvous/client.h"

#include <thread>

#include <poll.h>

#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

namespace lockstep::comm {
namespace {

// A response is at most an entry, and a set waits for no other client.
constexpr std::size_t kResponseLimit = 16 << 20;
constexpr auto kSetBound = std::chrono::seconds(30);
// Until the server listens, each try is one packet to the server's host.
constexpr auto kRetryPause = std::chrono::milliseconds(50);

Result<net::Socket> connect_with_retries(const std::string& host, std::uint16_t port,
                                         Deadline deadline) {
  for (;;) {
    auto socket = net::Socket::connect_tcp(host, port, deadline);
    if (socket || socket.error().code != Code::unavailable || deadline.passed()) return socket;
    std::this_thread::sleep_for(std::min<Duration>(kRetryPause, deadline.remaining()));
  }
}

std::string_view doing(char verb) {
  return verb == 'S'   ? "setting"
         : verb == 'W' ? "leaving behind"
         : verb == 'F' ? "asking for"
                       : "waiting for";
}

}  // namespace

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(const std::string& host,
                                                                    std::uint16_t port,
                                                                    net::Secret secret,
                                                                    Deadline deadline,
                                                                    Duration connection_timeout) {
  const auto server = "the rendezvous at " + text(net::HostPort{host, port});
  const auto reach = [&] {
    auto socket = connect_with_retries(host, port, deadline);
    if (socket) socket->set_keepalive(connection_timeout);
    return socket;
  };
  auto socket = connect_proven(reach, secret, "rendezvous", deadline);
  if (!socket) return std::move(socket).error().with_context("entering " + server);
  return std::unique_ptr<RendezvousClient>(new RendezvousClient(std::move(*socket), server));
}

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(const std::string& address,
                                                                    net::Secret secret,
                                                                    Deadline deadline,
                                                                    Duration connection_timeout) {
  const auto host_port = TRY(net::parse_host_port(address));
  return connect(host_port.host, host_port.port, std::move(secret), deadline, connection_timeout);
}

Result<Relay> RendezvousClient::connect_forwarded(const std::string& address, net::Secret secret,
                                                  Deadline deadline, Duration connection_timeout) {
  const auto client = TRY(connect(address, std::move(secret), deadline, connection_timeout));
  TRY(client->request('F', "the way to torch's store", {}, deadline));
  return Relay{.near = {},
               .far = std::move(client->socket_),
               .to_near = std::move(client->received_),
               .to_far = {}};
}

Result<void> RendezvousClient::set(std::string_view key, std::string_view value) {
  TRY(request('S', key, value, Deadline::after(kSetBound)));
  return {};
}

Result<std::string> RendezvousClient::get(std::string_view key, Deadline deadline) {
  return request('G', key, {}, deadline);
}

Result<void> RendezvousClient::set_tombstone(std::string_view key, std::string_view value) {
  TRY(request('W', key, value, Deadline::after(kSetBound)));
  return {};
}

Result<std::string> RendezvousClient::request(char verb, std::string_view key,
                                              std::string_view value, Deadline deadline) {
  const auto number = std::to_string(++requests_);
  const auto what = format("{} '{}' at {}", doing(verb), key, server_);
  const auto exchange = [&]() -> Result<Response> {
    TRY(send_frame(
        socket_, join_fields({number, std::string(1, verb), std::string(key), std::string(value)}),
        deadline));
    for (;;) {
      auto answer = TRY(try_receive_response());
      if (!answer) {
        TRY(net::wait_ready(socket_.fd(), POLLIN, deadline, "waiting for an answer"));
        continue;
      }
      if (answer->front() == number) return *std::move(answer);
      if (answer->front() == watch_number_) watched_keys_.push_back(answer->back());
      // else it is a late response, to a get that timed out
    }
  };
  auto answer = exchange();
  if (!answer) return std::move(answer).error().with_context(what);
  if ((*answer)[1] == "ok") return (*answer)[2];
  const auto code = (*answer)[1] == lockstep::text(Code::already_exists) ? Code::already_exists
                    : (*answer)[1] == lockstep::text(Code::exhausted)    ? Code::exhausted
                                                                         : Code::invalid;
  return Error{code, (*answer)[2]}.with_context(what);
}

Result<void> RendezvousClient::watch_prefix(std::string_view prefix) {
  watch_number_ = std::to_string(++requests_);
  watched_keys_.clear();
  auto sent = send_frame(socket_, join_fields({watch_number_, "N", std::string(prefix), ""}),
                         Deadline::after(kSetBound));
  if (!sent)
    return std::move(sent).error().with_context(format("listening to '{}' at {}", prefix, server_));
  return {};
}

Result<std::optional<std::string>> RendezvousClient::next_watched_key() {
  while (watched_keys_.empty()) {
    auto answer = try_receive_response();
    if (!answer) return std::move(answer).error().with_context("listening to " + server_);
    if (!*answer) return std::optional<std::string>();
    if ((*answer)->front() == watch_number_) watched_keys_.push_back((*answer)->back());
  }
  std::optional<std::string> news = std::move(watched_keys_.front());
  watched_keys_.pop_front();
  return news;
}

// Nullopt when no complete response has arrived; a partial one is kept.
Result<std::optional<RendezvousClient::Response>> RendezvousClient::try_receive_response() {
  for (;;) {
    if (auto frame = TRY(take_frame(received_, kResponseLimit)))
      return std::optional(TRY(split_fields(*frame, 3)));
    std::byte chunk[16 * 1024];
    const auto got = TRY(socket_.try_recv(chunk));
    if (!got) return std::optional<Response>();
    if (*got == 0) return Error{Code::peer_lost, "it closed the connection"};
    received_.append(reinterpret_cast<const char*>(chunk), *got);
  }
}

}  // namespace lockstep::comm
