// Groups of ranks in memory, for tests of algorithms. Ranks are threads of which one runs at a
// time. Whenever one waits, a seed chooses the next. So a run can be repeated, ranks can be as far
// ahead of each other as possible, and a deadlock is detected at once.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/random.h"
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/links/flat_all_reduce.h"
#include "comm/fabric/shm/host_shared_memory.h"

namespace lockstep::comm::testing_groups {

class TurnScheduler {
 public:
  explicit TurnScheduler(std::uint64_t seed) : random_(seed) {}

  // body(i) for each i < count. The first error, if any.
  Result<void> run(int count, const std::function<Result<void>(int)>& body) {
    threads_ = std::vector<Thread>(static_cast<std::size_t>(count));
    deadlocked_ = false;
    Result<void> result;
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        current() = static_cast<std::size_t>(i);
        begin();
        auto done = body(i);
        end(done, result);
      });
    {
      std::lock_guard lock(mutex_);
      schedule_next();
    }
    for (auto& thread : threads) thread.join();
    return result;
  }

  // Waits until ready(). Called by the running thread. Sometimes others run first although it is
  // ready.
  Result<void> wait(const std::function<bool()>& ready) {
    std::unique_lock lock(mutex_);
    if (ready() && random_.below(4) > 0) return {};
    auto& own = threads_[current()];
    own.ready = ready;
    schedule_next();
    own.wakes.wait(lock, [&] { return own.runs || deadlocked_; });
    own.runs = true;
    if (!ready()) return Error{Code::timeout, "nobody can go on"};
    return {};
  }

 private:
  struct Thread {
    std::function<bool()> ready = [] { return true; };
    std::condition_variable wakes;
    bool runs = false, over = false;
  };

  static std::size_t& current() {
    thread_local std::size_t index = 0;
    return index;
  }

  void begin() {
    std::unique_lock lock(mutex_);
    auto& own = threads_[current()];
    own.wakes.wait(lock, [&] { return own.runs; });
  }
  void end(const Result<void>& done, Result<void>& first) {
    std::lock_guard lock(mutex_);
    if (!done && first) first = done;
    threads_[current()].over = true;
    schedule_next();
  }

  void schedule_next() {
    if (deadlocked_) return;
    std::vector<Thread*> able;
    bool all_over = true;
    for (auto& thread : threads_) {
      if (thread.over) continue;
      all_over = false;
      thread.runs = false;
      if (thread.ready()) able.push_back(&thread);
    }
    if (all_over) return;
    deadlocked_ = able.empty();
    if (deadlocked_)
      for (auto& thread : threads_) thread.wakes.notify_all();
    else
      resume_thread(*able[random_.below(able.size())]);
  }
  static void resume_thread(Thread& thread) {
    thread.runs = true;
    thread.wakes.notify_all();
  }

  std::mutex mutex_;
  Random random_;
  std::vector<Thread> threads_;
  bool deadlocked_ = false;
};

// The ranks of each host, as in MessageExchange::hosts().
using Hosts = std::vector<std::vector<int>>;

// Hosts with the given rank counts. Ranks are assigned round-robin, so neighbours are on other
// hosts.
inline Hosts hosts_of(const std::vector<int>& counts) {
  Hosts hosts(counts.size());
  const int size = std::accumulate(counts.begin(), counts.end(), 0);
  for (int rank = 0; rank < size;)
    for (std::size_t host = 0; host < counts.size(); ++host)
      if (hosts[host].size() < static_cast<std::size_t>(counts[host]))
        hosts[host].push_back(rank++);
  return hosts;
}

// The memory that ranks use for zero-copy buffers.
inline const std::shared_ptr<SharedHeap>& test_heap() {
  static const auto heap = SharedHeap::create(Bytes(std::int64_t{256} << 20)).value();
  return heap;
}

class InMemoryGroup {
 public:
  InMemoryGroup(TurnScheduler& turns, Hosts hosts, std::size_t piece_bytes = 1024)
      : turns_(turns), hosts_(std::move(hosts)), piece_bytes_(piece_bytes) {
    for (const auto& ranks : hosts_) ring_.insert(ring_.end(), ranks.begin(), ranks.end());
    sent_.resize(ring_.size());
    for (int rank = 0; rank < size(); ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
    for (const auto& ranks : hosts_)
      if (ranks.size() > 1) share_memory(ranks);
  }

  int size() const { return static_cast<int>(ring_.size()); }
  const Hosts& hosts() const { return hosts_; }

  // Calls execute(exchange, call) for this rank, after it has set the call's sequence number.
  template <class CarryOut>
  Result<void> call(int rank, CollectiveCall call, CarryOut carry_out) {
    auto& own = *ranks_[static_cast<std::size_t>(rank)];
    call.header.sequence = ++own.calls;
    own.header = call.header;
    return carry_out(static_cast<MessageExchange&>(own), call);
  }

  // Payload bytes sent to other hosts.
  std::size_t sent(int rank) const { return sent_[static_cast<std::size_t>(rank)]; }
  std::size_t sent_by_host(std::size_t host) const {
    std::size_t bytes = 0;
    for (const int rank : hosts_[host]) bytes += sent(rank);
    return bytes;
  }
  bool all_received() const {
    for (const auto& [ends, link] : links_)
      if (!link.messages.empty()) return false;
    return true;
  }

 private:
  struct Message {
    MessageHeader header;
    std::vector<std::byte> payload;
  };
  struct Wire {
    std::deque<Message> messages;
    std::vector<std::byte> claimed;
  };

  class Rank : public MessageExchange {
   public:
    Rank(InMemoryGroup& group, int rank) : group_(group), rank_(rank) {}
    MessageHeader header;
    std::uint64_t calls = 0;

    int rank() const override { return rank_; }
    int size() const override { return group_.size(); }
    std::span<const int> ring() const override { return group_.ring_; }
    std::span<const std::vector<int>> hosts() const override { return group_.hosts_; }
    HostGroup* host_group() override { return host_ ? &*host_ : nullptr; }
    std::size_t piece_bytes() const override { return group_.piece_bytes_; }

    Result<std::byte*> claim(int peer) override {
      auto& link = group_.link(rank_, peer);
      TRY(group_.turns_.wait([&] { return link.messages.size() < kSlots; }));
      link.claimed.assign(std::max(piece_bytes(), kFlatBytes), std::byte{0xee});
      return link.claimed.data();
    }
    void publish(int peer, std::size_t piece, std::size_t bytes) override {
      auto& link = group_.link(rank_, peer);
      auto sent = header;
      sent.piece = static_cast<std::uint32_t>(piece);
      sent.payload = static_cast<std::uint32_t>(bytes);
      link.claimed.resize(bytes);
      link.messages.push_back({sent, std::move(link.claimed)});
      if (group_.on_different_hosts(rank_, peer))
        group_.sent_[static_cast<std::size_t>(rank_)] += bytes;
    }
    Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) override {
      auto& link = group_.link(peer, rank_);
      TRY(group_.turns_.wait([&] { return !link.messages.empty(); }));
      const auto& message = link.messages.front();
      TRY(check_call(peer, message.header));
      if (message.header.piece != piece || message.header.payload != bytes)
        return Error{Code::corrupt,
                     format("rank {} expects piece {} of {} bytes of rank {}, gets {} of {}", rank_,
                            piece, bytes, peer, message.header.piece, message.header.payload)};
      return message.payload.data();
    }
    void release(int peer) override { group_.link(peer, rank_).messages.pop_front(); }
    Result<void> wait_for(int, WaitReason, const std::function<bool()>& ready) override {
      return group_.turns_.wait(ready);
    }
    Result<void> check_call(int peer, const MessageHeader& other) const override {
      if (same_call(other, header)) return {};
      return Error{Code::invalid, format("rank {}: {}, rank {}: {}", rank_, call_text(header), peer,
                                         call_text(other))};
    }

    void share(HostSharedMemory memory) {
      shared_memory_ = std::move(memory);
      host_.emplace(*this, *shared_memory_, std::vector<Link*>());
      host_->set_background(true);
    }

   private:
    InMemoryGroup& group_;
    const int rank_;
    std::optional<HostSharedMemory> shared_memory_;
    std::optional<HostGroup> host_;
  };

  void share_memory(const std::vector<int>& ranks) {
    segments_.push_back(SharedSegment::create(size()).value());
    const auto& memfd = segments_.back().memfd();
    for (const int rank : ranks) {
      std::vector<std::optional<PeerHeap>> heaps(ring_.size());
      for (const int peer : ranks)
        heaps[static_cast<std::size_t>(peer)] = PeerHeap::map(test_heap()->memfd()).value();
      ranks_[static_cast<std::size_t>(rank)]->share(
          {ranks, SharedSegment::map(memfd, size()).value(), test_heap(), std::move(heaps)});
    }
  }
  Wire& link(int from, int to) { return links_[{from, to}]; }
  bool on_different_hosts(int a, int b) const {
    for (const auto& ranks : hosts_)
      if (std::find(ranks.begin(), ranks.end(), a) != ranks.end())
        return std::find(ranks.begin(), ranks.end(), b) == ranks.end();
    return false;
  }

  TurnScheduler& turns_;
  const Hosts hosts_;
  const std::size_t piece_bytes_;
  std::vector<int> ring_;
  std::vector<std::size_t> sent_;  // by rank
  std::map<std::pair<int, int>, Wire> links_;
  std::vector<SharedSegment> segments_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace lockstep::comm::testing_groups
