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
#include "net/crypto.h"
#include "net/silence.h"
#include "net/socket.h"

namespace lockstep {

class RendezvousClient : public Rendezvous {
 public:
  // silence: of the server's host, after which the connection is lost (net/silence.h).
  // Tries until the deadline while nobody listens yet. `denied` when the server's secret is
  // another.
  static Result<std::unique_ptr<RendezvousClient>> connect(const std::string& host,
                                                           std::uint16_t port, Secret secret,
                                                           Deadline deadline,
                                                           Duration silence = kSilenceBound);
  // As "host:port", which is how LOCKSTEP_RENDEZVOUS has it.
  static Result<std::unique_ptr<RendezvousClient>> connect(const std::string& address,
                                                           Secret secret, Deadline deadline,
                                                           Duration silence = kSilenceBound);

  // Leads to the port to which the server forwards (RendezvousServer). The caller adds the near
  // side.
  static Result<Relay> connect_forwarded(const std::string& address, Secret secret,
                                         Deadline deadline, Duration silence = kSilenceBound);

  Result<void> set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  // When this connection ends, however it ends, the server sets the key, unless it is set already.
  // For each key that the client names; of more than a few the oldest must be set by then.
  Result<void> leave_behind(std::string_view key, std::string_view value);

  // From now on next_news() tells each key that begins with the prefix, also those that are there
  // already. Of two prefixes the later counts.
  Result<void> listen_to(std::string_view prefix);
  // Nothing if there is none yet: more may have come when fd() is readable. Does not wait.
  Result<std::optional<std::string>> next_news();

  int fd() const { return socket_.fd(); }

 private:
  RendezvousClient(Socket socket, std::string server)
      : socket_(std::move(socket)), server_(std::move(server)) {}
  Result<std::string> ask(char verb, std::string_view key, std::string_view value,
                          Deadline deadline);
  // number, status, value
  using Answer = std::vector<std::string>;
  Result<std::optional<Answer>> try_answer();

  Socket socket_;
  std::string received_;   // the beginning of the next frame
  std::string listening_;  // the number of the request
  std::deque<std::string> news_;
  std::string server_;          // for error messages
  std::uint64_t requests_ = 0;  // numbers them, so that a late answer is told from the awaited one
};

}  // namespace lockstep
