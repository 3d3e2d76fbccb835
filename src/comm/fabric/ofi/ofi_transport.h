// OfiTransport: Links over libfabric, from one reliable-datagram endpoint with tagged messages
// (FI_EP_RDM, FI_TAGGED): the way to networks with RDMA. The only folder that includes libfabric.
//
// Method. A link keeps one receive posted for every slot of its peer, under a tag that names the
// attempt, the source, the lane and the slot; so every message has its place before it comes, no
// order is asked of the provider, and messages of strangers match nothing. Header and payload
// travel in one message, from slot to slot. A receiver tells how many slots it has released (a
// *credit*, every kSlots / 2 of them), and a sender sends only into released slots.
//
// libfabric makes progress only when it is polled: poll() often, or wait for wait_fd() after
// may_sleep() said yes. For the progress thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/fabric/transport.h"

namespace lockstep {

struct OfiOptions {
  std::string provider;    // libfabric's name: "efa", "verbs", "tcp;ofi_rxm"
  std::string address;     // of the interface to use
  int rank = 0;            // below 65536
  std::uint32_t salt = 0;  // derived from the attempt's secret and the group
  // Register memory though the provider does not ask for it: as on networks with RDMA, for tests.
  bool registers_always = false;
};

class OfiTransport : public Transport {
 public:
  // An error says what of the provider this host lacks.
  static Result<std::unique_ptr<OfiTransport>> create(const OfiOptions& options);
  ~OfiTransport() override;

  // What the peers need for link(), as bytes.
  const std::string& address() const;
  // The link stays the transport's.
  Result<Link*> link(int peer, const std::string& peer_address);

  Result<void> poll() override;
  int failed_peer() const override;
  void forget(int peer) override;
  // A peer leaves when all that it sent has been received.
  bool is_drained(int) const override { return true; }
  int wait_fd() const override;
  bool may_sleep() override;
  // libfabric may hold work that no descriptor shows: a connection being made.
  Duration nap_max() const override { return std::chrono::milliseconds(20); }

 private:
  class Impl;
  explicit OfiTransport(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
