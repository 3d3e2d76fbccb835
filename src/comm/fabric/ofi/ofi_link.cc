#include "comm/fabric/ofi/ofi_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "comm/fabric/slot.h"

namespace lockstep {
namespace {

constexpr std::size_t kCreditSpace = 64;
constexpr std::size_t kSlotsSpace = kLaneCount * kSlots * kSlotSpace;
constexpr std::size_t kReceivingSpace = kSlotsSpace + OfiLink::kCreditBuffers * kCreditSpace;

// What libfabric is told of the registration in which a buffer lies.
void* descriptor_of(const FidPtr<fid_mr>& registration) {
  return registration ? fi_mr_desc(registration.get()) : nullptr;
}

}  // namespace

OfiLink::OfiLink(const OfiPort& port, int peer, fi_addr_t address)
    : port_(port), peer_(peer), address_(address) {
  using Kind = Operation::Kind;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane)
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const auto l = static_cast<std::uint8_t>(lane), s = static_cast<std::uint8_t>(slot);
      sends_[lane][slot] = {{}, this, Kind::send, l, s};
      receives_[lane][slot] = {{}, this, Kind::receive, l, s};
    }
  for (std::size_t slot = 0; slot < kCreditBuffers; ++slot) {
    credits_[slot] = {{}, this, Kind::credit, 0, static_cast<std::uint8_t>(slot)};
    credit_receives_waiting_ |= 1u << slot;
  }
}

Result<std::unique_ptr<OfiLink>> OfiLink::create(const OfiPort& port, int peer, fi_addr_t address) {
  std::unique_ptr<OfiLink> link(new OfiLink(port, peer, address));
  TRY(link->allocate());
  TRY(link->flush());
  return link;
}

Result<void> OfiLink::allocate() {
  const auto size = kSlotsSpace + kReceivingSpace;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return os_error("reserving memory for a link", errno);
  ::madvise(memory, size, MADV_DONTFORK);
  memory_ = static_cast<std::byte*>(memory);
  return port_.needs_registration ? register_slots() : Result<void>();
}

// Each slot that is sent from has a registration of its own, which begins where its messages do:
// where a region's remote addresses are offsets in it, rxm (libfabric 1.17) has the peer fetch a
// large message from the region's beginning.
Result<void> OfiLink::register_slots() {
  std::size_t number = 0;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane)
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      send_registrations_[lane][slot] = TRY(
          registered(number++, send_slot(lane, slot) + kHeaderOffset, sizeof(Header) + kSlotBytes));
  receive_registration_ = TRY(registered(number, receive_slot(0, 0), kReceivingSpace));
  return {};
}

Result<FidPtr<fid_mr>> OfiLink::registered(std::size_t number, std::byte* memory,
                                           std::size_t bytes) const {
  const auto what = format("registering memory for rank {} (is `ulimit -l` too low?)", peer_);
  // Where the provider makes none itself; no two of a domain may be equal.
  const auto key = static_cast<std::uint64_t>(peer_) << 8 | number;
  return open_fid<fid_mr>(what, [&](fid_mr** mr) {
    return fi_mr_reg(port_.domain, memory, bytes, FI_SEND | FI_RECV, 0, key, 0, mr, nullptr);
  });
}

OfiLink::~OfiLink() {
  send_registrations_ = {};
  receive_registration_.reset();
  if (memory_ != nullptr) ::munmap(memory_, kSlotsSpace + kReceivingSpace);
}

std::byte* OfiLink::send_slot(std::size_t lane, std::uint64_t number) const {
  return memory_ + (lane * kSlots + number % kSlots) * kSlotSpace;
}
std::byte* OfiLink::receive_slot(std::size_t lane, std::uint64_t number) const {
  return memory_ + kSlotsSpace + (lane * kSlots + number % kSlots) * kSlotSpace;
}
std::byte* OfiLink::credit_slot(std::size_t number) const {
  return memory_ + 2 * kSlotsSpace + (number % kCreditBuffers) * kCreditSpace;
}

std::uint64_t OfiLink::tag(int source, std::size_t kind, std::size_t slot) const {
  return std::uint64_t{port_.salt} << 32 | static_cast<std::uint64_t>(source) << 16 | kind << 8 |
         slot;
}

std::byte* OfiLink::claim(Lane lane) {
  if (forgotten_) return nullptr;
  const auto& state = at(lane);
  const bool free =
      state.published - state.credited < kSlots && !state.sending[state.published % kSlots];
  return free ? send_slot(static_cast<std::size_t>(lane), state.published) + kPayloadOffset
              : nullptr;
}

void OfiLink::publish(Lane lane, const Header& header) {
  auto& state = at(lane);
  const auto slot = state.published % kSlots;
  std::memcpy(send_slot(static_cast<std::size_t>(lane), slot) + kHeaderOffset, &header,
              sizeof header);
  state.message_bytes[slot] = static_cast<std::uint32_t>(sizeof header) + header.payload;
  state.sending[slot] = true;
  ++state.published;
  // A failure shows again at the next poll, which reports it.
  (void)post_send(static_cast<std::size_t>(lane));
}

std::optional<Incoming> OfiLink::front(Lane lane) {
  const auto& state = at(lane);
  if (!state.full[state.released % kSlots]) return std::nullopt;
  const auto* slot = receive_slot(static_cast<std::size_t>(lane), state.released);
  Incoming incoming{{}, slot + kPayloadOffset};
  std::memcpy(&incoming.header, slot + kHeaderOffset, sizeof incoming.header);
  return incoming;
}

void OfiLink::release(Lane lane) {
  auto& state = at(lane);
  state.full[state.released % kSlots] = false;
  ++state.released;
  if (forgotten_) return;
  (void)post_receive(static_cast<std::size_t>(lane));
  if (credit_due()) (void)send_credit();
}

Result<bool> OfiLink::posted(long status, const char* what) const {
  if (status == 0) return true;
  if (status == -FI_EAGAIN) return false;
  return ofi_error(format("{} rank {}", what, peer_), status);
}

Result<bool> OfiLink::post_send(std::size_t lane) {
  auto& state = lanes_[lane];
  while (state.posted < state.published) {
    const auto slot = state.posted % kSlots;
    const auto status =
        fi_tsend(port_.endpoint, send_slot(lane, slot) + kHeaderOffset, state.message_bytes[slot],
                 descriptor_of(send_registrations_[lane][slot]), address_,
                 tag(port_.rank, lane, slot), &sends_[lane][slot].context);
    if (!TRY(posted(status, "sending to"))) return false;
    ++state.posted;
  }
  return true;
}

Result<bool> OfiLink::post_receive(std::size_t lane) {
  auto& state = lanes_[lane];
  while (state.reposted < state.released + kSlots) {
    const auto slot = state.reposted % kSlots;
    const auto status =
        fi_trecv(port_.endpoint, receive_slot(lane, slot) + kHeaderOffset,
                 sizeof(Header) + kSlotBytes, descriptor_of(receive_registration_), FI_ADDR_UNSPEC,
                 tag(peer_, lane, slot), 0, &receives_[lane][slot].context);
    if (!TRY(posted(status, "receiving from"))) return false;
    ++receiving_;
    ++state.reposted;
  }
  return true;
}

Result<bool> OfiLink::post_credit_receive(std::size_t slot) {
  const auto status = fi_trecv(port_.endpoint, credit_slot(slot), sizeof(Credit),
                               descriptor_of(receive_registration_), FI_ADDR_UNSPEC,
                               tag(peer_, kLaneCount, slot), 0, &credits_[slot].context);
  if (!TRY(posted(status, "receiving from"))) return false;
  ++receiving_;
  credit_receives_waiting_ &= ~(std::uint64_t{1} << slot);
  return true;
}

bool OfiLink::credit_due() const {
  for (const auto& lane : lanes_)
    if (lane.reposted - kSlots - lane.told >= kSlots / 2) return true;
  return false;
}

// Only places that are posted again are told: reposted - kSlots of the peer's messages.
Result<bool> OfiLink::send_credit() {
  Credit credit{};
  for (std::size_t lane = 0; lane < kLaneCount; ++lane)
    credit.released[lane] = lanes_[lane].reposted - kSlots;
  const auto status = fi_tinject(port_.endpoint, &credit, sizeof credit, address_,
                                 tag(port_.rank, kLaneCount, credits_sent_ % kCreditBuffers));
  if (!TRY(posted(status, "sending to"))) return false;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) lanes_[lane].told = credit.released[lane];
  ++credits_sent_;
  return true;
}

void OfiLink::cancel_receives() {
  for (auto& lane : receives_)
    for (auto& operation : lane) (void)fi_cancel(&port_.endpoint->fid, &operation.context);
  for (auto& operation : credits_) (void)fi_cancel(&port_.endpoint->fid, &operation.context);
}

Result<void> OfiLink::completed(Operation& operation, std::size_t bytes) {
  auto& state = lanes_[operation.lane];
  switch (operation.kind) {
    case Operation::Kind::send:
      state.sending[operation.slot] = false;
      return {};
    case Operation::Kind::receive: {
      Header header;
      std::memcpy(&header, receive_slot(operation.lane, operation.slot) + kHeaderOffset,
                  sizeof header);
      if (bytes < sizeof header || bytes != sizeof header + header.payload)
        return Error{
            Code::corrupt,
            format("rank {} sent a message of {} bytes whose header says otherwise", peer_, bytes)};
      state.full[operation.slot] = true;
      ++state.arrived;
      return {};
    }
    case Operation::Kind::credit: {
      Credit credit;
      std::memcpy(&credit, credit_slot(operation.slot), sizeof credit);
      for (std::size_t lane = 0; lane < kLaneCount; ++lane)
        lanes_[lane].credited = std::max(lanes_[lane].credited, credit.released[lane]);
      credit_receives_waiting_ |= std::uint64_t{1} << operation.slot;
      TRY(post_credit_receive(operation.slot));
      return {};
    }
  }
  return {};
}

Result<void> OfiLink::flush() {
  if (forgotten_) return {};
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    TRY(post_receive(lane));
    TRY(post_send(lane));
  }
  for (std::size_t slot = 0; credit_receives_waiting_ != 0 && slot < kCreditBuffers; ++slot)
    if ((credit_receives_waiting_ >> slot & 1) != 0) TRY(post_credit_receive(slot));
  if (credit_due()) TRY(send_credit());
  return {};
}

}  // namespace lockstep
