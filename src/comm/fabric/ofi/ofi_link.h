// OfiLink: one peer's slots and credits; see ofi_transport.h for the method.
//
// Registered memory. libfabric is given nothing but slots, which are made with the link and go with
// it. Where the provider wants its memory registered they are, once, until the link ends. So no
// registration is looked up in a call, and none can outlive its memory; docs/decisions/0034 has
// what that costs, and why there is no cache of registrations for callers' buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "comm/fabric/link.h"
#include "comm/fabric/ofi/handles.h"

namespace lockstep {

// What OfiLink borrows from its transport.
struct OfiPort {
  fid_domain* domain;
  fid_ep* endpoint;
  bool needs_registration;
  std::uint32_t salt;
  int rank;
};

class OfiLink : public Link {
 public:
  static constexpr std::size_t kCreditBuffers = 8;  // at most two are under way for each lane

  // One message that libfabric holds; its completion leads back here. The context comes first, as
  // libfabric hands back its address.
  struct Operation {
    enum class Kind : std::uint8_t { send, receive, credit };
    fi_context2 context;
    OfiLink* link;
    Kind kind;
    std::uint8_t lane;
    std::uint8_t slot;
  };

  static Result<std::unique_ptr<OfiLink>> create(const OfiPort& port, int peer, fi_addr_t address);
  ~OfiLink() override;

  std::byte* claim(Lane lane) override;
  void publish(Lane lane, const Header& header) override;
  std::optional<Incoming> front(Lane lane) override;
  void release(Lane lane) override;
  std::uint64_t sent(Lane lane) const override { return at(lane).published; }
  bool has_unsent(Lane lane) const override { return at(lane).posted < at(lane).published; }
  std::uint64_t arrived(Lane lane) const override { return at(lane).arrived; }
  std::size_t piece_bytes() const override { return kOfiPieceBytes; }
  void set_sleeping(Lane, bool) override {}  // arrivals wake through the completion queue
  void nudge(Lane) override {}               // nothing is shared beside it

  int peer() const { return peer_; }
  void forget() { forgotten_ = true; }
  bool forgotten() const { return forgotten_; }
  // libfabric has ended this operation, in whichever way; and, after that, that it went well.
  void ended(const Operation& operation) {
    if (operation.kind != Operation::Kind::send) --receiving_;
  }
  Result<void> completed(Operation& operation, std::size_t bytes);
  // Asks for the end of what is received, which comes at once, or when the message has come.
  void cancel_receives();
  bool receiving() const { return receiving_ > 0; }
  // Hands libfabric what it would not take before.
  Result<void> flush();

 private:
  struct Credit {
    std::uint64_t released[kLaneCount];
  };
  struct LaneState {
    std::uint64_t published = 0, posted = 0;  // own sends: written, given to libfabric
    std::uint64_t credited = 0;               // own sends that the peer has released
    std::uint64_t released = 0, told = 0;     // peer's sends: read here, told as credit
    std::uint64_t reposted = 0, arrived = 0;  // peer's sends: places given, filled
    std::array<bool, kSlots> sending{}, full{};
    std::array<std::uint32_t, kSlots> message_bytes{};  // of own sends, with header
    std::array<std::uint32_t, kSlots> arrived_bytes{};
  };

  OfiLink(const OfiPort& port, int peer, fi_addr_t address);
  Result<void> allocate();
  Result<void> register_slots();
  Result<FidPtr<fid_mr>> registered(std::size_t number, std::byte* memory,
                                    std::size_t bytes) const;  // number: of the link's
  LaneState& at(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  const LaneState& at(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)]; }
  std::byte* send_slot(std::size_t lane, std::uint64_t number) const;
  std::byte* receive_slot(std::size_t lane, std::uint64_t number) const;
  std::byte* credit_slot(std::size_t number) const;
  std::uint64_t tag(int source, std::size_t kind, std::size_t slot) const;
  // False when libfabric cannot take it now.
  Result<bool> post_send(std::size_t lane);
  Result<bool> post_receive(std::size_t lane);
  Result<bool> post_credit_receive(std::size_t slot);
  bool credit_due() const;
  Result<bool> send_credit();
  Result<bool> posted(long status, const char* what) const;

  const OfiPort port_;
  const int peer_;
  const fi_addr_t address_;
  std::byte* memory_ = nullptr;  // all slots; pages that are never used cost nothing
  // Where the provider wants them.
  std::array<std::array<FidPtr<fid_mr>, kSlots>, kLaneCount> send_registrations_;
  FidPtr<fid_mr> receive_registration_;
  std::array<LaneState, kLaneCount> lanes_{};
  bool forgotten_ = false;     // nothing is given to libfabric any more
  std::size_t receiving_ = 0;  // receives that libfabric has
  std::uint64_t credits_sent_ = 0;
  std::uint64_t credit_receives_waiting_ = 0;  // bit set of slots to post again
  std::array<std::array<Operation, kSlots>, kLaneCount> sends_{}, receives_{};
  std::array<Operation, kCreditBuffers> credits_{};
};

}  // namespace lockstep
