// OfiTransport: Links over libfabric, from one reliable-datagram endpoint with tagged messages
// (FI_EP_RDM, FI_TAGGED): the transport for networks with RDMA. Only this folder includes
// libfabric.
//
// Method. A link keeps one receive posted for every slot of its peer. Its tag names the attempt,
// the source, the channel and the slot. So every message has a destination before it arrives, the
// provider need not preserve any order, and messages of strangers match nothing. Header and payload
// travel in one message, from slot to slot. A receiver reports the number of slots it has released
// (a *credit*, every kSlots / 2 of them), and a sender sends only into released slots.
//
// libfabric makes progress only when it is polled: call poll() often, or wait for wait_fd() after
// may_sleep() returned true. For the progress thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/fabric/transport.h"

namespace lockstep::comm {

struct OfiOptions {
  std::string provider;    // libfabric's name: "efa", "verbs", "tcp;ofi_rxm"
  std::string address;     // of the interface to use
  int rank = 0;            // below 65536
  std::uint32_t salt = 0;  // derived from the attempt's secret and the group
  // Registers memory even if the provider does not need it, as on networks with RDMA. For tests.
  bool registers_always = false;
};

class OfiTransport : public Transport {
 public:
  // The error says which part of the provider this host lacks.
  static Result<std::unique_ptr<OfiTransport>> create(const OfiOptions& options);
  ~OfiTransport() override;

  // The bytes that the peers need for link().
  const std::string& address() const;
  // The transport owns the link.
  Result<Link*> link(int peer, const std::string& peer_address);

  Result<void> poll() override;
  int failed_peer() const override;
  void set_peer_left(int peer) override;
  // A peer leaves only after all its messages have been received.
  bool is_drained(int) const override { return true; }
  int wait_fd() const override;
  bool may_sleep() override;
  // libfabric may have work that no descriptor shows, such as a connection being established.
  Duration max_sleep() const override { return std::chrono::milliseconds(20); }

 private:
  class Impl;
  explicit OfiTransport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
