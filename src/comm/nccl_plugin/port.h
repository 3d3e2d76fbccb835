// Port: an endpoint with its lock, its registered memory and the addresses of its peers. The
// connections of a communicator that use the same device share it.
//
// NCCL calls a plugin from several threads: one progresses transfers, others connect and register
// memory. The lock guards the port and all its connections.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "comm/nccl_plugin/endpoint.h"
#include "comm/nccl_plugin/memory.h"

namespace lockstep::comm::nccl {

struct Request;

class Port {
 public:
  Port(std::unique_ptr<TaggedEndpoint> endpoint, std::string provider, std::size_t message_limit);
  ~Port();

  Mutex& mutex() { return mutex_; }
  const std::string& provider() const { return provider_; }
  std::size_t message_limit() const { return message_limit_; }

  // Call what follows with mutex() held.
  TaggedEndpoint& endpoint() { return *endpoint_; }
  MemoryCache& memory() { return memory_; }
  // Ends the operations that libfabric has completed.
  Result<void> progress();
  Result<PeerAddress> peer(const std::string& address);
  // Unique among the connections that this port receives from.
  std::uint32_t next_connection_id() { return next_connection_id_++; }
  // Keeps requests with operations that have not ended, because libfabric still has their
  // addresses.
  void keep(std::unique_ptr<Request> request);

 private:
  Mutex mutex_;
  const std::string provider_;
  const std::size_t message_limit_;
  MemoryCache memory_;
  std::map<std::string, PeerAddress> peers_;
  std::uint32_t next_connection_id_ = 0;
  std::vector<std::unique_ptr<Request>> kept_;
  std::unique_ptr<TaggedEndpoint> endpoint_;  // closed before the memory that it uses is freed
};

}  // namespace lockstep::comm::nccl
