// SendConnection and ReceiveConnection: a stream of messages from one process to another.
//
// Matching. NCCL matches a send with the receive at the same place in the order of calls; a grouped
// receive takes as many sends, each into the buffer with its tag. Thus the k-th send with a tag
// belongs to the k-th receive with this tag. A message carries both numbers and the connection in
// libfabric's tag, so its receive is found whatever order the provider delivers in.
//
//   bits 59..40 the connection, 39..20 NCCL's tag, 19..0 k
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/nccl_plugin/peer_watch.h"
#include "comm/nccl_plugin/port.h"
#include "comm/nccl_plugin/request.h"

namespace lockstep::comm::nccl {

struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  const MemoryCache::Region* region = nullptr;
};

class Connection {
 public:
  Connection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch, std::uint32_t id,
             std::string peer);
  virtual ~Connection();

  Port& port() { return *port_; }
  // True when all messages of the request have ended, after which it no longer exists. sizes gets
  // the bytes of each message. An error when one failed, or the peer died.
  Result<bool> test(Request& request, int* sizes);
  // Cancels what is under way, and waits up to kCloseBound until libfabric no longer uses its
  // memory.
  void close();

  // A message of this connection has ended well.
  void count_ended() { ++ended_messages_; }

  static constexpr auto kCloseBound = std::chrono::seconds(1);
  // For messages that the peer sent before it closed the connection.
  static constexpr auto kArrivalBound = std::chrono::seconds(10);

 protected:
  // Null when all are in use. It stays free until take().
  Request* free_request();
  void take(Request& request, std::size_t count);
  // The tag of the next message with NCCL's tag; the number is used after count_message().
  Result<std::uint64_t> next_tag(int tag);
  void count_message(int tag);
  Result<void> check_usable();
  Result<void> check_peer();
  // Posts what the provider had no room for.
  virtual Result<void> post_waiting(Request& request) = 0;
  // The receiver waits for messages that the peer sent before it closed.
  virtual bool may_still_end() const = 0;

  const std::shared_ptr<Port> port_;
  const std::unique_ptr<PeerWatch> watch_;
  const std::uint32_t id_;
  const std::string peer_;  // for messages: its address
  std::size_t request_limit_ = 0;
  std::uint64_t ended_messages_ = 0;

 private:
  struct TagCount {
    int tag = 0;
    std::uint64_t count = 0;
  };
  TagCount& counter_of(int tag);
  Result<void> fail(Error error);
  void release(Request& request);

  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<Request*> free_;
  std::vector<TagCount> tags_;
  std::optional<Error> failure_;
};

class SendConnection : public Connection {
 public:
  SendConnection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch, std::uint32_t id,
                 std::string peer, PeerAddress address);
  // Null: call again later.
  Result<Request*> send(const Buffer& buffer);

 private:
  Result<void> post_waiting(Request&) override { return {}; }
  bool may_still_end() const override;

  const PeerAddress address_;
};

class ReceiveConnection : public Connection {
 public:
  ReceiveConnection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch, std::uint32_t id,
                    std::string peer);
  Result<Request*> receive(std::span<const Buffer> buffers);
  // Flushes a GPU's memory. Null: call again later.
  Result<Request*> flush(const Buffer& buffer);

 private:
  Result<void> post_waiting(Request& request) override;
  bool may_still_end() const override;
};

}  // namespace lockstep::comm::nccl
