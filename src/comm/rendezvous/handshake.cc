#include "comm/rendezvous/handshake.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

constexpr std::string_view kMagic = "lockstep-1";
constexpr int kNonceBytes = 16;
// Between tries to connect to a server that has too many callers.
constexpr auto kPauseUntilRoom = std::chrono::milliseconds(10);

std::string proof_of(const net::Secret& secret, std::string side, const std::string& purpose,
                     const std::string& client_nonce, const std::string& server_nonce) {
  return net::hmac_sha256_hex(secret,
                              join_fields({std::move(side), purpose, client_nonce, server_nonce}));
}

Error refused(std::string_view who) {
  return {Code::denied,
          format("{} does not know this attempt's secret; it belongs to another run, or "
                 "LOCKSTEP_SECRET_FILE is stale",
                 who)};
}

Result<void> prove(net::Socket& socket, const net::Secret& secret, const std::string& purpose,
                   Deadline deadline) {
  const auto nonce = net::random_hex(kNonceBytes);
  TRY(send_frame(socket, join_fields({std::string(kMagic), nonce}), deadline));
  const auto challenge = TRY(split_fields(TRY(recv_frame(socket, deadline)), 2));
  if (!net::equal_constant_time(challenge[1],
                                proof_of(secret, "server", purpose, nonce, challenge[0])))
    return refused("the other side");
  return send_frame(socket, proof_of(secret, "client", purpose, nonce, challenge[0]), deadline);
}

Result<void> recv_welcome(net::Socket& socket, Deadline deadline) {
  const auto result = TRY(recv_frame(socket, deadline));
  if (result != kWelcome) return Error{Code::denied, result};
  return {};
}

}  // namespace

Result<std::string> ServerHandshake::challenge(std::string_view hello) {
  const auto fields = TRY(split_fields(hello, 2));
  if (fields[0] != kMagic)
    return Error{Code::denied, "the caller is not a Lockstep process of this version"};
  client_nonce_ = fields[1];
  server_nonce_ = net::random_hex(kNonceBytes);
  return join_fields(
      {server_nonce_, proof_of(secret_, "server", purpose_, client_nonce_, server_nonce_)});
}

Result<void> ServerHandshake::check(std::string_view proof) const {
  if (!net::equal_constant_time(
          proof, proof_of(secret_, "client", purpose_, client_nonce_, server_nonce_)))
    return refused("the caller");
  return {};
}

Result<net::Socket> connect_proven(const Connect& connect, const net::Secret& secret,
                                   const std::string& purpose, Deadline deadline,
                                   const SendMore& send_more) {
  std::optional<Error> closed;
  for (;;) {
    auto socket = connect();
    if (!socket) return closed ? *closed : std::move(socket).error();
    auto proven = prove(*socket, secret, purpose, deadline);
    if (proven && send_more) proven = send_more(*socket);
    if (proven) proven = recv_welcome(*socket, deadline);
    if (proven) return socket;
    if (proven.error().code != Code::peer_lost || deadline.passed())
      return std::move(proven).error();
    closed = std::move(proven).error();
    std::this_thread::sleep_for(std::min<Duration>(kPauseUntilRoom, deadline.remaining()));
  }
}

}  // namespace lockstep::comm
