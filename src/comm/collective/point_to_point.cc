#include "comm/collective/point_to_point.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "comm/algorithm/collective_call.h"

namespace lockstep::comm {
namespace {

constexpr auto kChannel = LinkChannel::point_to_point;

MessageHeader header_of(Operation operation, std::uint64_t number, std::uint64_t bytes, int tag) {
  return make_header(operation, number, bytes, DataType::uint8, ReduceOp::sum, tag);
}

Error broken_protocol(const Peer& peer, std::string_view what) {
  return {Code::corrupt,
          format("{} sent {}; do all ranks run the same version?", text(peer), what)};
}

}  // namespace

PointToPoint::PointToPoint(Endpoint& endpoint, FlightRecorder& recorder)
    : endpoint_(endpoint), recorder_(recorder), peers_(static_cast<std::size_t>(endpoint.size())) {}

bool PointToPoint::reserve_call() {
  if (calls_.fetch_add(1) < kMostCalls) return true;
  --calls_;
  return false;
}

Result<void> PointToPoint::submit(SendCall call) {
  const int peer = call.peer;
  at(peer).waiting.push_back(std::move(call));
  return endpoint_.request_link(peer);
}

Result<void> PointToPoint::submit(RecvCall call) {
  call.number = recvs_++;
  const int peer = call.peer == kAnyPeer ? peer_offering(call.tag) : call.peer;
  if (peer == kAnyPeer) {
    posted_to_any_.push_back(std::move(call));
    return {};
  }
  auto& state = at(peer);
  const auto offer = std::find_if(state.unexpected.begin(), state.unexpected.end(),
                                  [&](const Offer& one) { return one.tag == call.tag; });
  if (offer == state.unexpected.end()) {
    state.posted.push_back(std::move(call));
    return endpoint_.request_link(peer);
  }
  const auto matched = std::move(*offer);
  state.unexpected.erase(offer);
  return match(peer, matched, std::move(call));
}

int PointToPoint::peer_offering(int tag) const {
  int found = kAnyPeer;
  std::uint64_t first = arrivals_;
  for (const int peer : endpoint_.connected())
    for (const auto& offer : peers_[static_cast<std::size_t>(peer)].unexpected)
      if (offer.tag == tag && offer.arrival < first) {
        found = peer;
        first = offer.arrival;
      }
  return found;
}

Result<bool> PointToPoint::progress() {
  bool moved = false;
  for (const int peer : endpoint_.connected()) {
    moved |= TRY(take_messages(peer));
    moved |= send_grants(peer);
    moved |= send_offers(peer);
    moved |= send_data(peer);
  }
  return moved;
}

bool PointToPoint::has_arrivals() const {
  return std::ranges::any_of(endpoint_.connected(), [this](int peer) {
    return endpoint_.link(peer).front(kChannel).has_value();
  });
}

bool PointToPoint::has_calls() const {
  return !posted_to_any_.empty() ||
         std::any_of(peers_.begin(), peers_.end(), [](const PeerState& state) {
           return !state.waiting.empty() || !state.offered.empty() || !state.streaming.empty() ||
                  !state.posted.empty() || !state.receiving.empty() || !state.unsent_grants.empty();
         });
}

bool PointToPoint::has_unsent_grants() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const PeerState& state) { return !state.unsent_grants.empty(); });
}

// At most the number of slots, so that one busy peer does not starve the others.
Result<bool> PointToPoint::take_messages(int peer) {
  auto& link = endpoint_.link(peer);
  std::size_t taken = 0;
  for (; taken < kSlots; ++taken) {
    const auto message = link.front(kChannel);
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
    link.release(kChannel);
  }
  return taken > 0;
}

Result<void> PointToPoint::take_offer(int peer, const IncomingMessage& message) {
  auto& state = at(peer);
  const auto& header = message.header;
  if (state.offers_seen - state.grants_made >= kWindow || header.sequence != state.offers_seen ||
      header.payload != (header.bytes <= kEagerBytes ? header.bytes : 0))
    return broken_protocol(endpoint_.peer(peer), "an offer out of order");
  ++state.offers_seen;
  Offer offer{header.sequence, header.root, header.bytes, {}, arrivals_++};
  offer.eager.assign(message.payload, message.payload + header.payload);
  if (auto call = take_posted(peer, offer.tag)) return match(peer, offer, *std::move(call));
  state.unexpected.push_back(std::move(offer));
  return {};
}

std::optional<RecvCall> PointToPoint::take_posted(int peer, int tag) {
  const auto first = [&](std::deque<RecvCall>& posted) {
    return std::find_if(posted.begin(), posted.end(),
                        [&](const RecvCall& one) { return one.tag == tag; });
  };
  auto& own = at(peer).posted;
  const auto specific = first(own), any = first(posted_to_any_);
  const bool has_specific = specific != own.end(), has_any = any != posted_to_any_.end();
  if (!has_specific && !has_any) return std::nullopt;
  const bool takes_any = has_any && (!has_specific || any->number < specific->number);
  auto taken = std::move(takes_any ? *any : *specific);
  (takes_any ? posted_to_any_ : own).erase(takes_any ? any : specific);
  return taken;
}

Result<void> PointToPoint::match(int peer, const Offer& offer, RecvCall call) {
  call.peer = peer;
  if (call.source != nullptr) *call.source = peer;
  if (offer.bytes != call.buffer.size()) {
    Error error{Code::invalid,
                format("rank {} receives {} bytes with tag {} from rank {}, which sends {}",
                       endpoint_.global_rank(endpoint_.rank()), call.buffer.size(), call.tag,
                       endpoint_.global_rank(peer), offer.bytes)};
    end(call, error, 0);
    return error;
  }
  auto& state = at(peer);
  state.unsent_grants.push_back(offer.number);
  ++state.grants_made;
  if (offer.bytes > kEagerBytes) {
    state.receiving.emplace(offer.number, Receiving{std::move(call)});
    return {};
  }
  if (offer.bytes > 0) std::memcpy(call.buffer.data(), offer.eager.data(), offer.eager.size());
  end(call, {}, offer.bytes);
  return {};
}

template <class Call>
void PointToPoint::end(const Call& call, Result<void> result, std::size_t received_bytes) {
  recorder_.mark_ended(call.ticket, result.has_value(), received_bytes);
  --calls_;
  call.promise.complete(std::move(result));
}

Result<void> PointToPoint::take_grant(int peer, const IncomingMessage& message) {
  auto& state = at(peer);
  if (state.grants == state.offers)
    return broken_protocol(endpoint_.peer(peer), "a grant for nothing");
  ++state.grants;
  const auto offered = state.offered.find(message.header.sequence);
  if (offered == state.offered.end()) return {};  // a small one that is done already
  state.streaming.emplace(offered->first, Sending{std::move(offered->second)});
  state.offered.erase(offered);
  return {};
}

Result<void> PointToPoint::take_data(int peer, const IncomingMessage& message) {
  auto& state = at(peer);
  const auto found = state.receiving.find(message.header.sequence);
  const std::size_t bytes = message.header.payload;
  if (found == state.receiving.end() || bytes == 0 ||
      bytes > found->second.call.buffer.size() - found->second.received)
    return broken_protocol(endpoint_.peer(peer), "data that no call receives");
  auto& receiving = found->second;
  std::memcpy(receiving.call.buffer.data() + receiving.received, message.payload, bytes);
  receiving.received += bytes;
  if (receiving.received < receiving.call.buffer.size()) return {};
  const auto call = std::move(receiving.call);
  state.receiving.erase(found);
  end(call, {}, call.buffer.size());
  return {};
}

bool PointToPoint::send_grants(int peer) {
  auto& state = at(peer);
  auto& link = endpoint_.link(peer);
  bool moved = false;
  if (endpoint_.is_drained(peer)) state.unsent_grants.clear();
  while (!state.unsent_grants.empty() && link.claim(kChannel) != nullptr) {
    link.publish(kChannel, header_of(Operation::grant, state.unsent_grants.front(), 0, 0));
    state.unsent_grants.pop_front();
    moved = true;
  }
  return moved;
}

bool PointToPoint::send_offers(int peer) {
  auto& state = at(peer);
  auto& link = endpoint_.link(peer);
  bool moved = false;
  while (!state.waiting.empty() && state.offers - state.grants < kWindow) {
    auto* slot = link.claim(kChannel);
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
    link.publish(kChannel, header);
    if (eager)
      end(call, {}, 0);
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
    auto* slot = link.claim(kChannel);
    if (slot == nullptr) break;
    auto& [number, sending] = *state.streaming.begin();
    const auto& buffer = sending.call.buffer;
    const auto bytes = std::min(link.piece_bytes(), buffer.size() - sending.sent);
    std::memcpy(slot, buffer.data() + sending.sent, bytes);
    auto header = header_of(Operation::data, number, buffer.size(), sending.call.tag);
    header.payload = static_cast<std::uint32_t>(bytes);
    link.publish(kChannel, header);
    sending.sent += bytes;
    moved = true;
    if (sending.sent < buffer.size()) continue;
    const auto call = std::move(sending.call);
    state.streaming.erase(state.streaming.begin());
    end(call, {}, 0);
  }
  return moved;
}

// Calls visit(verb, call, bytes moved) for all calls in flight.
template <class Visit>
void PointToPoint::for_each_call(Visit visit) const {
  if (calls_.load() == 0) return;  // without a look at each peer
  for (const auto& state : peers_) {
    for (const auto& call : state.waiting) visit("send to", call, std::size_t{0});
    for (const auto& [number, call] : state.offered) visit("send to", call, std::size_t{0});
    for (const auto& [number, one] : state.streaming) visit("send to", one.call, one.sent);
    for (const auto& call : state.posted) visit("recv from", call, std::size_t{0});
    for (const auto& [number, one] : state.receiving) visit("recv from", one.call, one.received);
  }
  for (const auto& call : posted_to_any_) visit("recv from", call, std::size_t{0});
}

// With kAnyPeer: true if all peers have left.
bool PointToPoint::has_left(int peer) const {
  if (peer != kAnyPeer) return endpoint_.is_drained(peer);
  for (int one = 0; one < endpoint_.size(); ++one)
    if (one != endpoint_.rank() && !endpoint_.is_drained(one)) return false;
  return true;
}

std::string PointToPoint::peer_text(int peer) const {
  return peer == kAnyPeer ? "any rank" : text(endpoint_.peer(peer));
}

Result<void> PointToPoint::check() const {
  std::optional<Error> error;
  for_each_call([&](const char* verb, const auto& call, std::size_t moved) {
    const bool gone = has_left(call.peer);
    if (error || (!gone && !call.deadline.passed())) return;
    const auto peer = peer_text(call.peer);
    const auto what = format("{} {} (tag {}, {} of {} bytes moved)", verb, peer, call.tag, moved,
                             call.buffer.size());
    error = gone ? Error{Code::peer_lost,
                         format("{} left the group during a {}",
                                call.peer == kAnyPeer ? "all other ranks" : peer, what)}
                 : Error{Code::timeout, format("rank {} timed out: it waited too long for its {}",
                                               endpoint_.global_rank(endpoint_.rank()), what)};
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
    fail(call, verb, moved, error);
  });
  for (auto& state : peers_) {  // the counters and unsent grants remain
    state.waiting.clear();
    state.offered.clear();
    state.streaming.clear();
    state.posted.clear();
    state.receiving.clear();
  }
  posted_to_any_.clear();
}

template <class Call>
void PointToPoint::fail(const Call& call, const char* verb, std::size_t moved, const Error& error) {
  const auto peer =
      call.peer == kAnyPeer ? "any rank" : format("rank {}", endpoint_.global_rank(call.peer));
  end(call,
      Error{error.code, format("{}; rank {} was in a {} {} (tag {}, {} of {} bytes moved)",
                               error.message, endpoint_.global_rank(endpoint_.rank()), verb, peer,
                               call.tag, moved, call.buffer.size())},
      moved);
}

void PointToPoint::fail(const SendCall& call, const Error& error) {
  fail(call, "send to", 0, error);
}

void PointToPoint::fail(const RecvCall& call, const Error& error) {
  fail(call, "recv from", 0, error);
}

}  // namespace lockstep::comm
