// RendezvousClient: a connection to a RendezvousServer. For one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/rendezvous/relay.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/connection_timeout.h"
#include "net/crypto.h"
#include "net/socket.h"

namespace lockstep::comm {

class RendezvousClient : public Rendezvous {
 public:
  // connection_timeout: the connection timeout of the server's host (net/connection_timeout.h).
  // Retries until the deadline while the server does not listen yet. `denied` when the server's
  // secret differs.
  static Result<std::unique_ptr<RendezvousClient>> connect(
      const std::string& host, std::uint16_t port, net::Secret secret, Deadline deadline,
      Duration connection_timeout = net::kConnectionTimeout);
  // address: "host:port", as in LOCKSTEP_RENDEZVOUS.
  static Result<std::unique_ptr<RendezvousClient>> connect(
      const std::string& address, net::Secret secret, Deadline deadline,
      Duration connection_timeout = net::kConnectionTimeout);

  // Connects to the port to which the server forwards (RendezvousServer). The caller adds the near
  // side.
  static Result<Relay> connect_forwarded(const std::string& address, net::Secret secret,
                                         Deadline deadline,
                                         Duration connection_timeout = net::kConnectionTimeout);

  Result<void> set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  // When this connection ends, in any way, the server sets the key, unless it is set already. A
  // client may have a few tombstones, each with its own key; of more, the oldest must be set by
  // then.
  Result<void> set_tombstone(std::string_view key, std::string_view value);

  // From now on next_watched_key() returns each key that begins with the prefix, including existing
  // keys. A second call replaces the prefix.
  Result<void> watch_prefix(std::string_view prefix);
  // Nullopt if there is none yet: more may have arrived when fd() is readable. Does not wait.
  Result<std::optional<std::string>> next_watched_key();

  int fd() const { return socket_.fd(); }

 private:
  RendezvousClient(net::Socket socket, std::string server)
      : socket_(std::move(socket)), server_(std::move(server)) {}
  Result<std::string> request(char verb, std::string_view key, std::string_view value,
                              Deadline deadline);
  // number, status, value
  using Response = std::vector<std::string>;
  Result<std::optional<Response>> try_receive_response();

  net::Socket socket_;
  std::string received_;      // the start of the next frame
  std::string watch_number_;  // the number of the request
  std::deque<std::string> watched_keys_;
  std::string server_;          // for error messages
  std::uint64_t requests_ = 0;  // numbers them, to distinguish a late response from the awaited one
};

}  // namespace lockstep::comm
