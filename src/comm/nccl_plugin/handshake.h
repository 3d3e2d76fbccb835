// How a connection begins: a TCP connection from the sender to the address in the handle that NCCL
// carries, over which both tell their addresses of libfabric. It stays open as the PeerWatch.
//
// Nothing blocks: NCCL calls again until there is a connection. The handle has a secret, which the
// sender shows: a stranger's connection is closed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/nccl_plugin/connection.h"
#include "comm/nccl_plugin/interface.h"
#include "net/socket.h"

namespace lockstep::comm::nccl {

// The content of NCCL's handle: listen() writes it, and NCCL carries it to the sender. `pending` is
// the sender's own: 0, or the number of its unfinished connect.
struct Handle {
  std::uint64_t magic = 0;
  std::array<std::uint64_t, 2> secret{};
  std::uint64_t pending = 0;
  std::array<char, 64> host{};  // a numeric address
  std::uint16_t port = 0;
};
static_assert(sizeof(Handle) <= kHandleBytes);

// Sender to receiver, and back.
struct Greeting {
  std::uint64_t magic = 0;
  std::array<std::uint64_t, 2> secret{};
  std::uint32_t connection = 0;  // from the receiver
  std::uint32_t address_bytes = 0;
  std::array<char, 32> provider{};
  std::array<char, 256> address{};  // of the endpoint
};

class ListenConnection {
 public:
  // host: the numeric address of this host for its peers.
  static Result<std::unique_ptr<ListenConnection>> open(std::shared_ptr<Port> port,
                                                        const std::string& host, Handle& handle);
  // Null: none yet. Several senders may connect to the same handle.
  Result<std::unique_ptr<ReceiveConnection>> accept();

 private:
  struct Caller {
    net::Socket socket;
    Greeting greeting;
    std::size_t received = 0;
    Deadline deadline;
  };

  ListenConnection(std::shared_ptr<Port> port, net::Listener listener, Handle handle);
  Result<void> take_callers();
  // True when its greeting is complete; an error when it is a stranger or has gone.
  static Result<bool> read_greeting(Caller& caller);
  Result<std::unique_ptr<ReceiveConnection>> connection_from(Caller caller);

  const std::shared_ptr<Port> port_;
  net::Listener listener_;
  const Handle handle_;
  std::vector<Caller> callers_;
};

class PendingConnect {
 public:
  static Result<std::unique_ptr<PendingConnect>> start(std::shared_ptr<Port> port,
                                                       const Handle& handle);
  // Null: call again.
  Result<std::unique_ptr<SendConnection>> continue_connect();

 private:
  PendingConnect(std::shared_ptr<Port> port, const Handle& handle, Fd socket);
  Result<bool> send_greeting();
  Result<bool> read_answer();

  const std::shared_ptr<Port> port_;
  const Handle handle_;
  Fd socket_;
  Greeting own_;
  Greeting answer_;
  std::size_t sent_ = 0;
  std::size_t received_ = 0;
};

}  // namespace lockstep::comm::nccl
