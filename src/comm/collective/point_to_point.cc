#include "comm/collective/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "comm/algorithm/call.h"

namespace lockstep {
namespace {

constexpr auto kLane = Lane::point_to_point;

Header header_of(Operation operation, std::uint64_t number, std::uint64_t bytes, int tag) {
  return make_header(operation, number, bytes, DataType::uint8, ReduceOp::sum, tag);
}

Error broken_protocol(const Peer& peer, std::string_view what) {
  return {Code::corrupt,
          format("{} sent {}; do all ranks run the same version?", text(peer), what)};
}

}  // namespace

PointToPoint::PointToPoint(Endpoint& endpoint)
    : endpoint_(endpoint), peers_(static_cast<std::size_t>(endpoint.size())) {}

void PointToPoint::submit(SendCall call) { at(call.peer).waiting.push_back(std::move(call)); }

Result<void> PointToPoint::submit(RecvCall call) {
  auto& state = at(call.peer);
  const auto offer = std::find_if(state.unexpected.begin(), state.unexpected.end(),
                                  [&](const Offer& one) { return one.tag == call.tag; });
  if (offer == state.unexpected.end()) {
    state.posted.push_back(std::move(call));
    return {};
  }
  const auto matched = std::move(*offer);
  state.unexpected.erase(offer);
  const int peer = call.peer;
  return match(peer, matched, std::move(call));
}

Result<bool> PointToPoint::progress() {
  bool moved = false;
  for (int peer = 0; peer < endpoint_.size(); ++peer) {
    if (peer == endpoint_.rank()) continue;
    moved |= TRY(take_messages(peer));
    moved |= send_grants(peer);
    moved |= send_offers(peer);
    moved |= send_data(peer);
  }
  return moved;
}

bool PointToPoint::has_arrivals() const {
  for (int peer = 0; peer < endpoint_.size(); ++peer)
    if (peer != endpoint_.rank() && endpoint_.link(peer).front(kLane)) return true;
  return false;
}

bool PointToPoint::has_calls() const {
  return std::any_of(peers_.begin(), peers_.end(), [](const PeerState& state) {
    return !state.waiting.empty() || !state.offered.empty() || !state.streaming.empty() ||
           !state.posted.empty() || !state.receiving.empty() || !state.owed.empty();
  });
}

bool PointToPoint::owes_answers() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const PeerState& state) { return !state.owed.empty(); });
}

// At most as many as there are slots, so that one busy peer does not starve the others.
Result<bool> PointToPoint::take_messages(int peer) {
  auto& link = endpoint_.link(peer);
  std::size_t taken = 0;
  for (; taken < kSlots; ++taken) {
    const auto message = link.front(kLane);
    if (!message) break;
    switch (static_cast<Operation>(message->header.operation)) {
      case Operation::offer:
        TRY(take_offer(peer, *message));
        break;
      case Operation::grant:
        TRY(take_grant(peer, *message));
        break;
      case Operation::data:
        TRY(take_data(peer, *message));
        break;
      default:
        return broken_protocol(endpoint_.peer(peer), "a collective as a send");
    }
    link.release(kLane);
  }
  return taken > 0;
}

Result<void> PointToPoint::take_offer(int peer, const Incoming& message) {
  auto& state = at(peer);
  const auto& header = message.header;
  if (state.offers_seen - state.grants_made >= kWindow || header.sequence != state.offers_seen ||
      header.payload != (header.bytes <= kEagerBytes ? header.bytes : 0))
    return broken_protocol(endpoint_.peer(peer), "an offer out of order");
  ++state.offers_seen;
  Offer offer{header.sequence, header.root, header.bytes, {}};
  offer.eager.assign(message.payload, message.payload + header.payload);
  const auto call = std::find_if(state.posted.begin(), state.posted.end(),
                                 [&](const RecvCall& one) { return one.tag == offer.tag; });
  if (call == state.posted.end()) {
    state.unexpected.push_back(std::move(offer));
    return {};
  }
  auto matched = std::move(*call);
  state.posted.erase(call);
  return match(peer, offer, std::move(matched));
}

Result<void> PointToPoint::match(int peer, const Offer& offer, RecvCall call) {
  if (offer.bytes != call.buffer.size()) {
    Error error{Code::invalid,
                format("rank {} receives {} bytes with tag {} from rank {}, which sends {}",
                       endpoint_.rank(), call.buffer.size(), call.tag, peer, offer.bytes)};
    call.completer.complete(error);
    return error;
  }
  auto& state = at(peer);
  state.owed.push_back(offer.number);
  ++state.grants_made;
  if (offer.bytes > kEagerBytes) {
    state.receiving.emplace(offer.number, Receiving{std::move(call)});
    return {};
  }
  if (offer.bytes > 0) std::memcpy(call.buffer.data(), offer.eager.data(), offer.eager.size());
  call.completer.complete({});
  return {};
}

Result<void> PointToPoint::take_grant(int peer, const Incoming& message) {
  auto& state = at(peer);
  if (state.grants == state.offers)
    return broken_protocol(endpoint_.peer(peer), "a grant for nothing");
  ++state.grants;
  const auto offered = state.offered.find(message.header.sequence);
  if (offered == state.offered.end()) return {};  // a small one, done already
  state.streaming.emplace(offered->first, Sending{std::move(offered->second)});
  state.offered.erase(offered);
  return {};
}

Result<void> PointToPoint::take_data(int peer, const Incoming& message) {
  auto& state = at(peer);
  const auto found = state.receiving.find(message.header.sequence);
  const std::size_t bytes = message.header.payload;
  if (found == state.receiving.end() || bytes == 0 ||
      bytes > found->second.call.buffer.size() - found->second.received)
    return broken_protocol(endpoint_.peer(peer), "data that nobody asked for");
  auto& receiving = found->second;
  std::memcpy(receiving.call.buffer.data() + receiving.received, message.payload, bytes);
  receiving.received += bytes;
  if (receiving.received < receiving.call.buffer.size()) return {};
  const auto completer = receiving.call.completer;
  state.receiving.erase(found);
  completer.complete({});
  return {};
}

bool PointToPoint::send_grants(int peer) {
  auto& state = at(peer);
  auto& link = endpoint_.link(peer);
  bool moved = false;
  if (endpoint_.gone(peer)) state.owed.clear();
  while (!state.owed.empty() && link.claim(kLane) != nullptr) {
    link.publish(kLane, header_of(Operation::grant, state.owed.front(), 0, 0));
    state.owed.pop_front();
    moved = true;
  }
  return moved;
}

bool PointToPoint::send_offers(int peer) {
  auto& state = at(peer);
  auto& link = endpoint_.link(peer);
  bool moved = false;
  while (!state.waiting.empty() && state.offers - state.grants < kWindow) {
    auto* slot = link.claim(kLane);
    if (slot == nullptr) break;
    auto call = std::move(state.waiting.front());
    state.waiting.pop_front();
    const auto number = state.offers++;
    auto header = header_of(Operation::offer, number, call.buffer.size(), call.tag);
    const bool eager = call.buffer.size() <= kEagerBytes;
    if (eager && !call.buffer.empty()) {
      std::memcpy(slot, call.buffer.data(), call.buffer.size());
      header.payload = static_cast<std::uint32_t>(call.buffer.size());
    }
    link.publish(kLane, header);
    if (eager)
      call.completer.complete({});
    else
      state.offered.emplace(number, std::move(call));
    moved = true;
  }
  return moved;
}

bool PointToPoint::send_data(int peer) {
  auto& state = at(peer);
  auto& link = endpoint_.link(peer);
  bool moved = false;
  while (!state.streaming.empty()) {
    auto* slot = link.claim(kLane);
    if (slot == nullptr) break;
    auto& [number, sending] = *state.streaming.begin();
    const auto& buffer = sending.call.buffer;
    const auto bytes = std::min(link.piece_bytes(), buffer.size() - sending.sent);
    std::memcpy(slot, buffer.data() + sending.sent, bytes);
    auto header = header_of(Operation::data, number, buffer.size(), sending.call.tag);
    header.payload = static_cast<std::uint32_t>(bytes);
    link.publish(kLane, header);
    sending.sent += bytes;
    moved = true;
    if (sending.sent < buffer.size()) continue;
    const auto completer = sending.call.completer;
    state.streaming.erase(state.streaming.begin());
    completer.complete({});
  }
  return moved;
}

// Visits (verb, call, bytes that moved) of all that are under way.
template <class Visit>
void PointToPoint::for_each_call(Visit visit) const {
  for (const auto& state : peers_) {
    for (const auto& call : state.waiting) visit("send to", call, std::size_t{0});
    for (const auto& [number, call] : state.offered) visit("send to", call, std::size_t{0});
    for (const auto& [number, one] : state.streaming) visit("send to", one.call, one.sent);
    for (const auto& call : state.posted) visit("recv from", call, std::size_t{0});
    for (const auto& [number, one] : state.receiving) visit("recv from", one.call, one.received);
  }
}

Result<void> PointToPoint::check() const {
  std::optional<Error> error;
  for_each_call([&](const char* verb, const auto& call, std::size_t moved) {
    if (error) return;
    const auto& peer = endpoint_.peer(call.peer);
    const auto what = format("{} {} (tag {}, {} of {} bytes moved)", verb, text(peer), call.tag,
                             moved, call.buffer.size());
    if (endpoint_.gone(call.peer))
      error = Error{Code::peer_lost, format("{} left the group during a {}", text(peer), what)};
    else if (call.deadline.passed())
      error =
          Error{Code::timeout, format("rank {} waited in vain for its {}", endpoint_.rank(), what)};
  });
  if (error) return std::move(*error);
  return {};
}

std::optional<Deadline> PointToPoint::next_deadline() const {
  std::optional<Deadline> next;
  for_each_call([&](const char*, const auto& call, std::size_t) {
    if (!next || call.deadline.at() < next->at()) next = call.deadline;
  });
  return next;
}

void PointToPoint::fail_all(const Error& error) {
  for_each_call([&](const char* verb, const auto& call, std::size_t moved) {
    call.completer.complete(Error{
        error.code, format("{} during a {} rank {} (tag {}, {} of {} bytes moved)", error.message,
                           verb, call.peer, call.tag, moved, call.buffer.size())});
  });
  for (auto& state : peers_) {  // the counters and what is owed go on
    state.waiting.clear();
    state.offered.clear();
    state.streaming.clear();
    state.posted.clear();
    state.receiving.clear();
  }
}

}  // namespace lockstep
