#include "comm/fabric/ofi/ofi_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "comm/fabric/slot.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kCreditSpace = 64;
constexpr std::size_t kSlotsSpace = kLinkChannelCount * kSlots * kSlotSpace;
constexpr std::size_t kReceivingSpace = kSlotsSpace + OfiLink::kCreditBuffers * kCreditSpace;

// The descriptor that libfabric needs for the registration of a buffer.
void* descriptor_of(const FidPtr<fid_mr>& registration) {
  return registration ? fi_mr_desc(registration.get()) : nullptr;
}

}  // namespace

OfiLink::OfiLink(const OfiLinkContext& port, int peer, fi_addr_t address)
    : context_(port), peer_(peer), address_(address) {
  using Kind = Operation::Kind;
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const auto l = static_cast<std::uint8_t>(channel), s = static_cast<std::uint8_t>(slot);
      sends_[channel][slot] = {{}, this, Kind::send, l, s};
      receives_[channel][slot] = {{}, this, Kind::receive, l, s};
    }
  for (std::size_t slot = 0; slot < kCreditBuffers; ++slot) {
    credits_[slot] = {{}, this, Kind::credit, 0, static_cast<std::uint8_t>(slot)};
    credit_receives_waiting_ |= 1u << slot;
  }
}

Result<std::unique_ptr<OfiLink>> OfiLink::create(const OfiLinkContext& port, int peer,
                                                 fi_addr_t address) {
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
  return context_.needs_registration ? register_slots() : Result<void>();
}

// Each send slot has its own registration, which begins where its messages begin. Where a region's
// remote addresses are offsets, rxm (libfabric 1.17) lets the peer fetch a large message from the
// start of the region.
Result<void> OfiLink::register_slots() {
  std::size_t number = 0;
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      send_registrations_[channel][slot] = TRY(registered(
          number++, send_slot(channel, slot) + kHeaderOffset, sizeof(MessageHeader) + kSlotBytes));
  receive_registration_ = TRY(registered(number, receive_slot(0, 0), kReceivingSpace));
  return {};
}

Result<FidPtr<fid_mr>> OfiLink::registered(std::size_t number, std::byte* memory,
                                           std::size_t bytes) const {
  const auto what = format("registering memory for rank {} (is `ulimit -l` too low?)", peer_);
  // For providers that create no keys; keys of a domain must be unique.
  const auto key = static_cast<std::uint64_t>(peer_) << 8 | number;
  return open_fid<fid_mr>(what, [&](fid_mr** mr) {
    return fi_mr_reg(context_.domain, memory, bytes, FI_SEND | FI_RECV, 0, key, 0, mr, nullptr);
  });
}

OfiLink::~OfiLink() {
  send_registrations_ = {};
  receive_registration_.reset();
  if (memory_ != nullptr) ::munmap(memory_, kSlotsSpace + kReceivingSpace);
}

std::byte* OfiLink::send_slot(std::size_t channel, std::uint64_t number) const {
  return memory_ + (channel * kSlots + number % kSlots) * kSlotSpace;
}
std::byte* OfiLink::receive_slot(std::size_t channel, std::uint64_t number) const {
  return memory_ + kSlotsSpace + (channel * kSlots + number % kSlots) * kSlotSpace;
}
std::byte* OfiLink::credit_slot(std::size_t number) const {
  return memory_ + 2 * kSlotsSpace + (number % kCreditBuffers) * kCreditSpace;
}

std::uint64_t OfiLink::tag(int source, std::size_t kind, std::size_t slot) const {
  return std::uint64_t{context_.salt} << 32 | static_cast<std::uint64_t>(source) << 16 | kind << 8 |
         slot;
}

std::byte* OfiLink::claim(LinkChannel channel) {
  if (peer_has_left_) return nullptr;
  const auto& state = at(channel);
  const bool free =
      state.published - state.credited < kSlots && !state.sending[state.published % kSlots];
  return free ? send_slot(static_cast<std::size_t>(channel), state.published) + kPayloadOffset
              : nullptr;
}

void OfiLink::publish(LinkChannel channel, const MessageHeader& header) {
  auto& state = at(channel);
  const auto slot = state.published % kSlots;
  std::memcpy(send_slot(static_cast<std::size_t>(channel), slot) + kHeaderOffset, &header,
              sizeof header);
  state.message_bytes[slot] = static_cast<std::uint32_t>(sizeof header) + header.payload;
  state.sending[slot] = true;
  ++state.published;
  // The next poll fails again and reports it.
  (void)post_send(static_cast<std::size_t>(channel));
}

std::optional<IncomingMessage> OfiLink::front(LinkChannel channel) {
  const auto& state = at(channel);
  if (!state.full[state.released % kSlots]) return std::nullopt;
  const auto* slot = receive_slot(static_cast<std::size_t>(channel), state.released);
  IncomingMessage incoming{{}, slot + kPayloadOffset};
  std::memcpy(&incoming.header, slot + kHeaderOffset, sizeof incoming.header);
  return incoming;
}

void OfiLink::release(LinkChannel channel) {
  auto& state = at(channel);
  state.full[state.released % kSlots] = false;
  ++state.released;
  if (peer_has_left_) return;
  (void)post_receive(static_cast<std::size_t>(channel));
  if (credit_due()) (void)send_credit();
}

Result<bool> OfiLink::posted(long status, const char* what) const {
  if (status == 0) return true;
  if (status == -FI_EAGAIN) return false;
  return ofi_error(format("{} rank {}", what, peer_), status);
}

Result<bool> OfiLink::post_send(std::size_t channel) {
  auto& state = channels_[channel];
  while (state.posted < state.published) {
    const auto slot = state.posted % kSlots;
    const auto status =
        fi_tsend(context_.endpoint, send_slot(channel, slot) + kHeaderOffset,
                 state.message_bytes[slot], descriptor_of(send_registrations_[channel][slot]),
                 address_, tag(context_.rank, channel, slot), &sends_[channel][slot].context);
    if (!TRY(posted(status, "sending to"))) return false;
    ++state.posted;
  }
  return true;
}

Result<bool> OfiLink::post_receive(std::size_t channel) {
  auto& state = channels_[channel];
  while (state.reposted < state.released + kSlots) {
    const auto slot = state.reposted % kSlots;
    const auto status =
        fi_trecv(context_.endpoint, receive_slot(channel, slot) + kHeaderOffset,
                 sizeof(MessageHeader) + kSlotBytes, descriptor_of(receive_registration_),
                 FI_ADDR_UNSPEC, tag(peer_, channel, slot), 0, &receives_[channel][slot].context);
    if (!TRY(posted(status, "receiving from"))) return false;
    ++posted_receives_;
    ++state.reposted;
  }
  return true;
}

Result<bool> OfiLink::post_credit_receive(std::size_t slot) {
  const auto status = fi_trecv(context_.endpoint, credit_slot(slot), sizeof(Credit),
                               descriptor_of(receive_registration_), FI_ADDR_UNSPEC,
                               tag(peer_, kLinkChannelCount, slot), 0, &credits_[slot].context);
  if (!TRY(posted(status, "receiving from"))) return false;
  ++posted_receives_;
  credit_receives_waiting_ &= ~(std::uint64_t{1} << slot);
  return true;
}

bool OfiLink::credit_due() const {
  for (const auto& channel : channels_)
    if (channel.reposted - kSlots - channel.credit_sent >= kSlots / 2) return true;
  return false;
}

// Only receives that are posted again are sent as credit: reposted - kSlots of the peer's messages.
Result<bool> OfiLink::send_credit() {
  Credit credit{};
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    credit.released[channel] = channels_[channel].reposted - kSlots;
  const auto status =
      fi_tinject(context_.endpoint, &credit, sizeof credit, address_,
                 tag(context_.rank, kLinkChannelCount, credits_sent_ % kCreditBuffers));
  if (!TRY(posted(status, "sending to"))) return false;
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
    channels_[channel].credit_sent = credit.released[channel];
  ++credits_sent_;
  return true;
}

void OfiLink::cancel_receives() {
  for (auto& channel : receives_)
    for (auto& operation : channel) (void)fi_cancel(&context_.endpoint->fid, &operation.context);
  for (auto& operation : credits_) (void)fi_cancel(&context_.endpoint->fid, &operation.context);
}

Result<void> OfiLink::on_completion(Operation& operation, std::size_t bytes) {
  auto& state = channels_[operation.channel];
  switch (operation.kind) {
    case Operation::Kind::send:
      state.sending[operation.slot] = false;
      return {};
    case Operation::Kind::receive: {
      MessageHeader header;
      std::memcpy(&header, receive_slot(operation.channel, operation.slot) + kHeaderOffset,
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
      for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel)
        channels_[channel].credited =
            std::max(channels_[channel].credited, credit.released[channel]);
      credit_receives_waiting_ |= std::uint64_t{1} << operation.slot;
      TRY(post_credit_receive(operation.slot));
      return {};
    }
  }
  return {};
}

Result<void> OfiLink::flush() {
  if (peer_has_left_) return {};
  for (std::size_t channel = 0; channel < kLinkChannelCount; ++channel) {
    TRY(post_receive(channel));
    TRY(post_send(channel));
  }
  for (std::size_t slot = 0; credit_receives_waiting_ != 0 && slot < kCreditBuffers; ++slot)
    if ((credit_receives_waiting_ >> slot & 1) != 0) TRY(post_credit_receive(slot));
  if (credit_due()) TRY(send_credit());
  return {};
}

}  // namespace lockstep::comm
