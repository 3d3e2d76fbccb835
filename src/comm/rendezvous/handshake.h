// Two processes prove to each other that they know one secret, without sending it.
//
//   client > server   hello:     magic, client's nonce
//   server > client   challenge: server's nonce, HMAC(secret, "server" purpose nonces)
//   client > server   proof:     HMAC(secret, "client" purpose nonces)
//   server > client   result:    "welcome", or the reason for refusal
//
// The purpose ("rendezvous", a group's name) prevents the use of a proof for another purpose. The
// handshake authenticates at the start and does not encrypt: it does not protect against an
// attacker that can alter the stream. The steps are pure, so a blocking caller and a poll loop use
// the same code.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "net/crypto.h"
#include "net/socket.h"

namespace lockstep::comm {

class ServerHandshake {
 public:
  ServerHandshake(net::Secret secret, std::string purpose)
      : secret_(std::move(secret)), purpose_(std::move(purpose)) {}
  Result<std::string> challenge(std::string_view hello);
  // `denied` when the client does not know the secret.
  Result<void> check(std::string_view proof) const;

 private:
  net::Secret secret_;
  std::string purpose_;
  std::string client_nonce_, server_nonce_;
};

inline constexpr std::string_view kWelcome = "welcome";

// A new connection over which both sides have proved the secret. A server that has too many callers
// closes it; then the client connects again, until the deadline. send_more: what follows the proof
// without a wait for the result, at each try. `denied` when the server's secret is another.
using Connect = std::function<Result<net::Socket>()>;
using SendMore = std::function<Result<void>(net::Socket&)>;
Result<net::Socket> connect_proven(const Connect& connect, const net::Secret& secret,
                                   const std::string& purpose, Deadline deadline,
                                   const SendMore& send_more = {});

}  // namespace lockstep::comm
