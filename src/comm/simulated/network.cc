#include "comm/simulated/network.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "comm/simulated/fiber.h"

namespace lockstep::comm {
namespace {

using Picoseconds = std::int64_t;

Picoseconds picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// The kernel accepts a long message in segments, as it has free buffers.
constexpr std::size_t kSegmentBytes = 64 * 1024;

// Messages in one direction from one rank to another: claimed, published, admitted (the sender's
// slot is free again), received and released, in this order.
struct Channel {
  struct Message {
    std::size_t piece = 0, bytes = 0;
    std::byte* buffer = nullptr;
    std::size_t admitted_bytes = 0;
    Picoseconds arrival = 0;         // of admitted data
    std::size_t stranded_bytes = 0;  // admitted before the receiver had a slot for them
  };
  int from = 0, to = 0;
  std::vector<Message> messages;  // from the oldest that is not released
  std::uint64_t published = 0, admitted = 0, released = 0;
  std::size_t buffered_bytes = 0;             // in the kernels of both ends
  std::array<Picoseconds, kSlots> free_at{};  // with credits: when each slot is free again
  std::byte* claimed = nullptr;
  bool receiver_waits = false, sender_waits = false;

  Message& message(std::uint64_t number) { return messages[number - released]; }
  bool has_slot_for(std::uint64_t number) const { return number < released + kSlots; }
};

// Where messages leave or arrive, one after the other.
struct Port {
  Picoseconds free_at = 0;

  // The end of an occupancy of `duration` that cannot begin before `from`.
  Picoseconds pass(Picoseconds from, Picoseconds duration) {
    free_at = std::max(from, free_at) + duration;
    return free_at;
  }
};

struct Level {
  Level(const LevelCost& cost, std::size_t held)
      : overhead(picoseconds(cost.overhead)),
        wire(std::max<Picoseconds>(0, picoseconds(cost.latency) - 2 * overhead)),
        per_byte(cost.per_byte),
        socket_buffer_bytes(held) {}
  bool has_credits() const { return socket_buffer_bytes == 0; }
  Picoseconds transfer(std::size_t bytes) const {
    return picoseconds(static_cast<double>(bytes) * per_byte);
  }
  Picoseconds overhead, wire;
  double per_byte;  // seconds
  std::size_t socket_buffer_bytes;
};

class Network;

class SimulatedRank : public MessageExchange {
 public:
  SimulatedRank(Network& network, int rank, std::span<std::byte> stack,
                const std::function<Result<void>(MessageExchange&)>& body);

  int rank() const override { return rank_; }
  int size() const override;
  std::span<const int> ring() const override;
  std::span<const std::vector<int>> hosts() const override;
  HostGroup* host_group() override { return nullptr; }
  std::size_t piece_bytes() const override;
  Result<std::byte*> claim(int peer) override;
  void publish(int peer, std::size_t piece, std::size_t bytes) override;
  Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) override;
  void release(int peer) override;
  Result<void> wait_for(int, WaitReason, const std::function<bool()>&) override {
    return Error{Code::invalid, "simulated ranks share no memory"};
  }
  Result<void> check_call(int, const MessageHeader&) const override { return {}; }

  Fiber& fiber() { return fiber_; }
  Picoseconds now() const { return now_; }
  void set_now(Picoseconds now) { now_ = now; }
  // While it is blocked.
  std::string waits_for() const {
    return format("waits for rank {} to {} {}", wait_.peer, wait_.what, wait_.number);
  }

 private:
  struct Wait {
    int peer = 0;
    std::string_view what;
    std::uint64_t number = 0;
  };

  void be_busy_until(Picoseconds moment);
  // Yields until another rank wakes this rank. An error when no rank ever will.
  Result<void> block(const Wait& wait);

  Network& network_;
  const int rank_;
  Picoseconds now_ = 0;
  Wait wait_;
  Fiber fiber_;
};

class Network {
 public:
  explicit Network(const SimulatedCluster& shape)
      : shape_(shape),
        within_(shape.costs.within_host, 0),
        between_(shape.costs.between_hosts, shape.socket_buffer_bytes),
        ring_(static_cast<std::size_t>(shape.hosts * shape.ranks_per_host)),
        hosts_(static_cast<std::size_t>(shape.hosts)),
        room_(shape.piece_bytes),
        host_out_(hosts_.size()),
        host_in_(hosts_.size()),
        rank_out_(ring_.size()),
        rank_in_(ring_.size()) {
    std::iota(ring_.begin(), ring_.end(), 0);
    for (const int rank : ring_) hosts_[host_of(rank)].push_back(rank);
    run_.wire_bytes.resize(hosts_.size());
  }

  Result<SimulationResult> run(const std::function<Result<void>(MessageExchange&)>& body) {
    const auto stacks = TRY(FiberStacks::create(ring_.size(), shape_.stack_bytes));
    for (const int rank : ring_) {
      ranks_.push_back(std::make_unique<SimulatedRank>(
          *this, rank, stacks[static_cast<std::size_t>(rank)], body));
      wake(rank, 0);
    }
    take_turns();
    if (unended_ > 0) fail_deadlocked_ranks();
    if (failure_) return *failure_;
    if (deadlock_error_) return *deadlock_error_;
    return run_;
  }

  const SimulatedCluster& shape() const { return shape_; }
  const std::vector<int>& ring() const { return ring_; }
  const std::vector<std::vector<int>>& hosts() const { return hosts_; }
  const std::optional<Error>& deadlock_error() const { return deadlock_error_; }
  Channel& channel(int from, int to) {
    const auto both =
        static_cast<std::uint64_t>(from) * ring_.size() + static_cast<std::uint64_t>(to);
    auto& channel = channels_[both];
    channel.from = from;
    channel.to = to;
    return channel;
  }
  const Level& level(int a, int b) const { return host_of(a) == host_of(b) ? within_ : between_; }

  void ended(int rank, const Result<void>& result) {
    --unended_;
    if (!result && !failure_ && !deadlock_error_)
      failure_ = Error{result.error().code, format("rank {}: {}", rank, result.error().message)};
    run_.seconds = std::max(run_.seconds, static_cast<double>(at(rank).now()) * 1e-12);
  }

  void wake(int rank, Picoseconds moment) {
    events_.push({moment, events_made_++, rank, nullptr, 0});
  }
  // True if another rank runs before that time.
  bool others_first(Picoseconds moment) const {
    return !events_.empty() && events_.top().moment <= moment;
  }

  // Sends published messages, as far as there is capacity.
  void admit(Channel& channel, Picoseconds moment) {
    while (channel.admitted < channel.published && admit_next(channel, moment)) {
      const auto arrival = channel.message(channel.admitted++).arrival;
      if (std::exchange(channel.receiver_waits, false)) wake(channel.to, arrival);
      if (has_credits(channel)) continue;
      if (std::exchange(channel.sender_waits, false)) wake(channel.from, moment);
    }
  }
  // The receiver has one more free slot.
  void gain_slot(Channel& channel, Picoseconds moment) {
    const auto number = channel.released + kSlots - 1;
    if (number > channel.admitted || number >= channel.published) return;
    auto& message = channel.message(number);
    drain_later(channel, std::max(moment, message.arrival),
                std::exchange(message.stranded_bytes, 0));
  }
  void count_message() { ++run_.messages; }

  std::byte* take_buffer() {
    if (free_buffers_.empty()) {
      buffers_.push_back(std::make_unique_for_overwrite<std::byte[]>(room_));
      free_buffers_.push_back(buffers_.back().get());
    }
    auto* const buffer = free_buffers_.back();
    free_buffers_.pop_back();
    return buffer;
  }
  void give_buffer(std::byte* buffer) { free_buffers_.push_back(buffer); }

 private:
  struct Event {
    Picoseconds moment;
    std::uint64_t number;  // in the order of creation: earlier requests first
    int rank;              // the rank that runs next
    Channel* drained;      // or: the channel whose kernels have freed `bytes`
    std::size_t drained_bytes;
    bool operator>(const Event& other) const {
      return std::pair(moment, number) > std::pair(other.moment, other.number);
    }
  };

  std::size_t host_of(int rank) const {
    return static_cast<std::size_t>(rank / shape_.ranks_per_host);
  }
  SimulatedRank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }

  bool has_credits(const Channel& channel) const {
    return level(channel.from, channel.to).has_credits();
  }

  // False when there was no capacity for all of the oldest message that is not admitted.
  bool admit_next(Channel& channel, Picoseconds moment) {
    auto& message = channel.message(channel.admitted);
    const Level& cost = level(channel.from, channel.to);
    do {
      if (!cost.has_credits() && channel.buffered_bytes >= cost.socket_buffer_bytes) return false;
      const auto rest = message.bytes - message.admitted_bytes;
      const auto bytes = cost.has_credits() ? rest : std::min(rest, kSegmentBytes);
      message.arrival = transmit(channel, moment, bytes);
      message.admitted_bytes += bytes;
      if (!cost.has_credits()) hold(channel, message, bytes);
    } while (message.admitted_bytes < message.bytes);
    return true;
  }

  // Bytes of a message that is being admitted stay in the kernels until the receiver has read them
  // into a slot and acknowledged that.
  void hold(Channel& channel, Channel::Message& message, std::size_t bytes) {
    channel.buffered_bytes += bytes;
    if (channel.has_slot_for(channel.admitted))
      drain_later(channel, message.arrival, bytes);
    else
      message.stranded_bytes += bytes;
  }
  void drain_later(Channel& channel, Picoseconds read, std::size_t bytes) {
    const auto acknowledged = read + level(channel.from, channel.to).wire;
    events_.push({acknowledged, events_made_++, channel.to, &channel, bytes});
  }

  // Returns the time when all bytes have arrived.
  Picoseconds transmit(const Channel& channel, Picoseconds moment, std::size_t bytes) {
    const int from = channel.from, to = channel.to;
    const bool same_host = host_of(from) == host_of(to);
    const Level& cost = same_host ? within_ : between_;
    Port& out = same_host ? rank_out_[static_cast<std::size_t>(from)] : host_out_[host_of(from)];
    Port& in = same_host ? rank_in_[static_cast<std::size_t>(to)] : host_in_[host_of(to)];
    if (!same_host) run_.wire_bytes[host_of(from)] += bytes;
    const auto transfer = cost.transfer(bytes);
    const auto began = out.pass(moment, transfer) - transfer;
    return in.pass(began + cost.wire, transfer);
  }

  void take_turns() {
    unended_ = ring_.size();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.drained != nullptr) {
        event.drained->buffered_bytes -= event.drained_bytes;
        admit(*event.drained, event.moment);
        continue;
      }
      at(event.rank).set_now(std::max(event.moment, at(event.rank).now()));
      at(event.rank).fiber().resume();
    }
  }

  // No rank will wake the others any more: their waits fail.
  void fail_deadlocked_ranks() {
    for (const auto& rank : ranks_) {
      if (rank->fiber().ended()) continue;
      if (!deadlock_error_)
        deadlock_error_ =
            Error{Code::timeout, format("the ranks wait for each other forever: rank {} {}",
                                        rank->rank(), rank->waits_for())};
      rank->fiber().resume();
    }
  }

  const SimulatedCluster shape_;
  const Level within_, between_;
  std::vector<int> ring_;
  std::vector<std::vector<int>> hosts_;
  const std::size_t room_;  // of a slot, in bytes
  std::vector<Port> host_out_, host_in_, rank_out_, rank_in_;
  // By sender and receiver. Never iterated, so its order has no effect.
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::vector<std::byte*> free_buffers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_made_ = 0;
  std::size_t unended_ = 0;
  std::optional<Error> failure_;  // the first error of a rank's own body
  std::optional<Error> deadlock_error_;
  SimulationResult run_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
};

SimulatedRank::SimulatedRank(Network& network, int rank, std::span<std::byte> stack,
                             const std::function<Result<void>(MessageExchange&)>& body)
    : network_(network),
      rank_(rank),
      fiber_(stack, [this, &body] { network_.ended(rank_, body(*this)); }) {}

int SimulatedRank::size() const { return static_cast<int>(network_.ring().size()); }
std::span<const int> SimulatedRank::ring() const { return network_.ring(); }
std::span<const std::vector<int>> SimulatedRank::hosts() const { return network_.hosts(); }
std::size_t SimulatedRank::piece_bytes() const { return network_.shape().piece_bytes; }

void SimulatedRank::be_busy_until(Picoseconds moment) {
  now_ = std::max(now_, moment);
  if (!network_.others_first(now_)) return;
  network_.wake(rank_, now_);
  fiber_.yield();
}

Result<void> SimulatedRank::block(const Wait& wait) {
  wait_ = wait;
  if (!network_.deadlock_error()) fiber_.yield();
  if (network_.deadlock_error()) return *network_.deadlock_error();
  return {};
}

Result<std::byte*> SimulatedRank::claim(int peer) {
  Channel& channel = network_.channel(rank_, peer);
  const bool credits = network_.level(rank_, peer).has_credits();
  while (channel.published - (credits ? channel.released : channel.admitted) == kSlots) {
    channel.sender_waits = true;
    TRY(block({peer, "take message", channel.released}));
  }
  const auto free_at = channel.free_at[channel.published % kSlots];
  if (free_at > now_) be_busy_until(free_at);
  if (channel.claimed == nullptr) channel.claimed = network_.take_buffer();
  return channel.claimed;
}

void SimulatedRank::publish(int peer, std::size_t piece, std::size_t bytes) {
  LS_CHECK(bytes <= network_.shape().piece_bytes);
  be_busy_until(now_ + network_.level(rank_, peer).overhead);
  Channel& channel = network_.channel(rank_, peer);
  LS_CHECK(channel.claimed != nullptr);
  channel.messages.push_back({piece, bytes, std::exchange(channel.claimed, nullptr)});
  ++channel.published;
  network_.count_message();
  network_.admit(channel, now_);
}

Result<const std::byte*> SimulatedRank::receive(int peer, std::size_t piece, std::size_t bytes) {
  Channel& channel = network_.channel(peer, rank_);
  while (channel.admitted == channel.released) {
    channel.receiver_waits = true;
    TRY(block({peer, "send piece", piece}));
  }
  const auto message = channel.messages.front();
  if (message.piece != piece || message.bytes != bytes)
    return Error{Code::corrupt,
                 format("expected piece {} of {} bytes of rank {}, got piece {} of {} bytes", piece,
                        bytes, peer, message.piece, message.bytes)};
  be_busy_until(std::max(now_, message.arrival) + network_.level(rank_, peer).overhead);
  return message.buffer;
}

void SimulatedRank::release(int peer) {
  Channel& channel = network_.channel(peer, rank_);
  LS_CHECK(channel.admitted > channel.released);
  const Level& cost = network_.level(rank_, peer);
  network_.give_buffer(channel.messages.front().buffer);
  channel.messages.erase(channel.messages.begin());
  const auto number = channel.released++;
  if (!cost.has_credits()) return network_.gain_slot(channel, now_);
  const auto free_at = now_ + cost.wire;
  channel.free_at[number % kSlots] = free_at;
  if (std::exchange(channel.sender_waits, false)) network_.wake(peer, free_at);
}

}  // namespace

Result<SimulationResult> simulate(const SimulatedCluster& shape,
                                  const std::function<Result<void>(MessageExchange&)>& body) {
  LS_CHECK(shape.hosts > 0 && shape.ranks_per_host > 0 && shape.piece_bytes > 0);
  return Network(shape).run(body);
}

}  // namespace lockstep::comm
