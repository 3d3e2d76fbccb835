// TaggedEndpoint: a reliable endpoint for tagged messages, as the plugin uses one. OfiEndpoint
// implements it over libfabric; a test wraps it and behaves as a provider that reorders, is busy
// and has small messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace lockstep::comm::nccl {

// One message of a request. libfabric owns the first bytes until the message has ended, and reports
// their address.
struct Operation {
  std::array<void*, 8> provider_space{};
  struct Request* request = nullptr;
  int index = 0;  // within its request
  bool posted = false;
  bool ended = false;
};

enum class Posted { yes, busy };  // busy: call again after progress

// The end of an operation.
struct Completion {
  Operation* operation = nullptr;
  std::size_t bytes = 0;
  const char* failure = nullptr;  // null: it ended well. Never freed.
  Code code = Code::internal;     // of the failure
};

using PeerAddress = std::uint64_t;

// Memory that the provider has registered; ends with it.
class Registration {
 public:
  virtual ~Registration() = default;
  virtual void* descriptor() const = 0;
};

// A GPU's memory, as its driver exports it.
struct DmaBuf {
  int fd = -1;
  std::uint64_t offset = 0;
};

struct Message {
  std::uint64_t tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  const Registration* registration = nullptr;  // null where the provider needs none
};

// One thread at a time calls it.
class TaggedEndpoint {
 public:
  virtual ~TaggedEndpoint() = default;
  virtual const std::string& address() const = 0;
  virtual Result<PeerAddress> add_peer(const std::string& address) = 0;
  virtual Result<Posted> send(PeerAddress peer, const Message& message, Operation& operation) = 0;
  virtual Result<Posted> receive(const Message& message, Operation& operation) = 0;
  // Makes progress and returns the operations that have ended since, at most ended.size().
  virtual Result<std::size_t> poll(std::span<Completion> ended) = 0;
  // A receive ends soon afterwards, unless its message is arriving.
  virtual void cancel(Operation& operation) = 0;
  virtual bool needs_registration() const = 0;
  // By DMA-BUF, without a copy. If not, the next two functions return Code::unavailable.
  virtual bool takes_gpu_memory() const = 0;
  // data: the address on the GPU, as messages name it.
  virtual Result<std::unique_ptr<Registration>> register_dma_buf(void* data, std::size_t bytes,
                                                                 const DmaBuf& buffer) = 0;
  // When it ends, what the NIC has written to this memory of a GPU before is visible there.
  virtual Result<Posted> flush(const Registration& registration, void* data,
                               Operation& operation) = 0;
  virtual Result<std::unique_ptr<Registration>> register_memory(void* data, std::size_t bytes) = 0;
};

}  // namespace lockstep::comm::nccl
