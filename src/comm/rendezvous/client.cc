#include "comm/rendezvous/client.h"

#include <thread>

#include <poll.h>

#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

namespace lockstep {
namespace {

// An answer is at most an entry, and a set waits for no other client.
constexpr std::size_t kAnswerLimit = 16 << 20;
constexpr auto kSetBound = std::chrono::seconds(30);
// While nobody listens yet, each try is one packet to the server's host.
constexpr auto kRetryPause = std::chrono::milliseconds(50);

Result<Socket> connect_patiently(const std::string& host, std::uint16_t port, Deadline deadline) {
  for (;;) {
    auto socket = Socket::connect_tcp(host, port, deadline);
    if (socket || socket.error().code != Code::unavailable || deadline.passed()) return socket;
    std::this_thread::sleep_for(std::min<Duration>(kRetryPause, deadline.left()));
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
                                                                    Secret secret,
                                                                    Deadline deadline,
                                                                    Duration silence) {
  const auto server = "the rendezvous at " + text(HostPort{host, port});
  auto socket = connect_patiently(host, port, deadline);
  if (!socket) return std::move(socket).error().within("reaching " + server);
  socket->tune_for_lifeline(silence);
  if (auto met = handshake_as_client(*socket, secret, "rendezvous", deadline); !met)
    return std::move(met).error().within("entering " + server);
  return std::unique_ptr<RendezvousClient>(new RendezvousClient(std::move(*socket), server));
}

Result<std::unique_ptr<RendezvousClient>> RendezvousClient::connect(const std::string& address,
                                                                    Secret secret,
                                                                    Deadline deadline,
                                                                    Duration silence) {
  const auto place = TRY(parse_host_port(address));
  return connect(place.host, place.port, std::move(secret), deadline, silence);
}

Result<Relay> RendezvousClient::connect_forwarded(const std::string& address, Secret secret,
                                                  Deadline deadline, Duration silence) {
  const auto client = TRY(connect(address, std::move(secret), deadline, silence));
  TRY(client->ask('F', "the way to torch's store", {}, deadline));
  return Relay{.near = {},
               .far = std::move(client->socket_),
               .to_near = std::move(client->received_),
               .to_far = {}};
}

Result<void> RendezvousClient::set(std::string_view key, std::string_view value) {
  TRY(ask('S', key, value, Deadline::after(kSetBound)));
  return {};
}

Result<std::string> RendezvousClient::get(std::string_view key, Deadline deadline) {
  return ask('G', key, {}, deadline);
}

Result<void> RendezvousClient::leave_behind(std::string_view key, std::string_view value) {
  TRY(ask('W', key, value, Deadline::after(kSetBound)));
  return {};
}

Result<std::string> RendezvousClient::ask(char verb, std::string_view key, std::string_view value,
                                          Deadline deadline) {
  const auto number = std::to_string(++requests_);
  const auto what = format("{} '{}' at {}", doing(verb), key, server_);
  const auto exchange = [&]() -> Result<Answer> {
    TRY(send_frame(
        socket_, join_fields({number, std::string(1, verb), std::string(key), std::string(value)}),
        deadline));
    for (;;) {
      auto answer = TRY(try_answer());
      if (!answer) {
        TRY(wait_ready(socket_.fd(), POLLIN, deadline, "waiting for an answer"));
        continue;
      }
      if (answer->front() == number) return *std::move(answer);
      if (answer->front() == listening_) news_.push_back(answer->back());
      // else a late one, to a get that timed out
    }
  };
  auto answer = exchange();
  if (!answer) return std::move(answer).error().within(what);
  if ((*answer)[1] == "ok") return (*answer)[2];
  const auto code = (*answer)[1] == text(Code::already_exists) ? Code::already_exists
                    : (*answer)[1] == text(Code::exhausted)    ? Code::exhausted
                                                               : Code::invalid;
  return Error{code, (*answer)[2]}.within(what);
}

Result<void> RendezvousClient::listen_to(std::string_view prefix) {
  listening_ = std::to_string(++requests_);
  news_.clear();
  auto sent = send_frame(socket_, join_fields({listening_, "N", std::string(prefix), ""}),
                         Deadline::after(kSetBound));
  if (!sent)
    return std::move(sent).error().within(format("listening to '{}' at {}", prefix, server_));
  return {};
}

Result<std::optional<std::string>> RendezvousClient::next_news() {
  while (news_.empty()) {
    auto answer = try_answer();
    if (!answer) return std::move(answer).error().within("listening to " + server_);
    if (!*answer) return std::optional<std::string>();
    if ((*answer)->front() == listening_) news_.push_back((*answer)->back());
  }
  std::optional<std::string> news = std::move(news_.front());
  news_.pop_front();
  return news;
}

// Nothing when none has come whole; what came of it stays.
Result<std::optional<RendezvousClient::Answer>> RendezvousClient::try_answer() {
  for (;;) {
    if (auto frame = TRY(take_frame(received_, kAnswerLimit)))
      return std::optional(TRY(split_fields(*frame, 3)));
    std::byte chunk[16 * 1024];
    const auto got = TRY(socket_.try_recv(chunk));
    if (!got) return std::optional<Answer>();
    if (*got == 0) return Error{Code::peer_lost, "it closed the connection"};
    received_.append(reinterpret_cast<const char*>(chunk), *got);
  }
}

}  // namespace lockstep
