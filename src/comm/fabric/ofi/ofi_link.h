// OfiLink: one peer's slots and credits; see ofi_transport.h for the method.
//
// Registered memory. libfabric receives only slots, which exist as long as the link. Where the
// provider needs registered memory, they are registered once, until the link ends. So no call looks
// up a registration, and no registration outlives its memory. docs/decisions/0034 has the cost, and
// the reason why there is no registration cache for callers' buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "comm/fabric/link.h"
#include "comm/fabric/ofi/handles.h"

namespace lockstep::comm {

// The context that OfiLink borrows from its transport.
struct OfiLinkContext {
  fid_domain* domain;
  fid_ep* endpoint;
  bool needs_registration;
  std::uint32_t salt;
  int rank;
};

class OfiLink : public Link {
 public:
  static constexpr std::size_t kCreditBuffers = 8;  // at most two are in flight for each channel

  // One message that libfabric owns; its completion leads back here. The context is the first
  // member, because libfabric returns its address.
  struct Operation {
    enum class Kind : std::uint8_t { send, receive, credit };
    fi_context2 context;
    OfiLink* link;
    Kind kind;
    std::uint8_t channel;
    std::uint8_t slot;
  };

  static Result<std::unique_ptr<OfiLink>> create(const OfiLinkContext& port, int peer,
                                                 fi_addr_t address);
  ~OfiLink() override;

  std::byte* claim(LinkChannel channel) override;
  void publish(LinkChannel channel, const MessageHeader& header) override;
  std::optional<IncomingMessage> front(LinkChannel channel) override;
  void release(LinkChannel channel) override;
  std::uint64_t sent(LinkChannel channel) const override { return at(channel).published; }
  bool has_unsent(LinkChannel channel) const override {
    return at(channel).posted < at(channel).published;
  }
  std::uint64_t arrived(LinkChannel channel) const override { return at(channel).arrived; }
  std::size_t piece_bytes() const override { return kOfiPieceBytes; }
  void set_sleeping(LinkChannel, bool) override {}  // arrivals wake through the completion queue
  void notify(LinkChannel) override {}              // nothing is shared beside it

  int peer() const { return peer_; }
  void set_peer_left() { peer_has_left_ = true; }
  bool peer_has_left() const { return peer_has_left_; }
  // Called when libfabric has ended this operation, in any way. on_completion() follows if it
  // succeeded.
  void on_end(const Operation& operation) {
    if (operation.kind != Operation::Kind::send) --posted_receives_;
  }
  Result<void> on_completion(Operation& operation, std::size_t bytes);
  // Cancels the posted receives. Each ends at once, or when its message has arrived.
  void cancel_receives();
  bool has_posted_receives() const { return posted_receives_ > 0; }
  // Retries the operations that libfabric did not accept before.
  Result<void> flush();

 private:
  struct Credit {
    std::uint64_t released[kLinkChannelCount];
  };
  struct ChannelState {
    std::uint64_t published = 0, posted = 0;      // own sends: written, passed to libfabric
    std::uint64_t credited = 0;                   // own sends that the peer has released
    std::uint64_t released = 0, credit_sent = 0;  // peer's sends: read here, reported as credit
    std::uint64_t reposted = 0, arrived = 0;      // peer's sends: receives posted, filled
    std::array<bool, kSlots> sending{}, full{};
    std::array<std::uint32_t, kSlots> message_bytes{};  // of own sends, with header
    std::array<std::uint32_t, kSlots> arrived_bytes{};
  };

  OfiLink(const OfiLinkContext& port, int peer, fi_addr_t address);
  Result<void> allocate();
  Result<void> register_slots();
  Result<FidPtr<fid_mr>> registered(std::size_t number, std::byte* memory,
                                    std::size_t bytes) const;  // number: of the link's
  ChannelState& at(LinkChannel channel) { return channels_[static_cast<std::size_t>(channel)]; }
  const ChannelState& at(LinkChannel channel) const {
    return channels_[static_cast<std::size_t>(channel)];
  }
  std::byte* send_slot(std::size_t channel, std::uint64_t number) const;
  std::byte* receive_slot(std::size_t channel, std::uint64_t number) const;
  std::byte* credit_slot(std::size_t number) const;
  std::uint64_t tag(int source, std::size_t kind, std::size_t slot) const;
  // False when libfabric cannot take it now.
  Result<bool> post_send(std::size_t channel);
  Result<bool> post_receive(std::size_t channel);
  Result<bool> post_credit_receive(std::size_t slot);
  bool credit_due() const;
  Result<bool> send_credit();
  Result<bool> posted(long status, const char* what) const;

  const OfiLinkContext context_;
  const int peer_;
  const fi_addr_t address_;
  std::byte* memory_ = nullptr;  // all slots; unused pages cost nothing
  // Where the provider needs them.
  std::array<std::array<FidPtr<fid_mr>, kSlots>, kLinkChannelCount> send_registrations_;
  FidPtr<fid_mr> receive_registration_;
  std::array<ChannelState, kLinkChannelCount> channels_{};
  bool peer_has_left_ = false;       // nothing is passed to libfabric any more
  std::size_t posted_receives_ = 0;  // receives that libfabric has
  std::uint64_t credits_sent_ = 0;
  std::uint64_t credit_receives_waiting_ = 0;  // bit set of slots to post again
  std::array<std::array<Operation, kSlots>, kLinkChannelCount> sends_{}, receives_{};
  std::array<Operation, kCreditBuffers> credits_{};
};

}  // namespace lockstep::comm
