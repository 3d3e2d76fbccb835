#include "comm/simulated/network.h"

#include <cstring>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

// 1 us on the wire and 2 us at each end; one byte per nanosecond.
SimulatedCluster two_hosts() {
  SimulatedCluster shape;
  shape.hosts = 2;
  shape.costs.between_hosts = {5e-6, 2e-6, 1e-9};
  shape.costs.within_host = {1e-6, 0.1e-6, 1e-10};
  shape.piece_bytes = 1 << 20;
  return shape;
}

Result<void> send(MessageExchange& exchange, int peer, std::size_t piece, std::size_t bytes) {
  std::memset(TRY(exchange.claim(peer)), static_cast<int>(piece), bytes);
  exchange.publish(peer, piece, bytes);
  return {};
}

Result<void> take(MessageExchange& exchange, int peer, std::size_t piece, std::size_t bytes) {
  const auto* came = TRY(exchange.receive(peer, piece, bytes));
  for (std::size_t i = 0; i < bytes; ++i)
    if (came[i] != static_cast<std::byte>(piece)) return Error{Code::corrupt, "other bytes"};
  exchange.release(peer);
  return {};
}

double microseconds(const Result<SimulationResult>& run) { return run.value().seconds * 1e6; }

TEST(SimulatedNetwork, ALoneMessageTakesItsLatencyAndItsBytes) {
  const auto run = simulate(two_hosts(), [](MessageExchange& exchange) {
    return exchange.rank() == 0 ? send(exchange, 1, 0, 1000) : take(exchange, 0, 0, 1000);
  });
  EXPECT_DOUBLE_EQ(microseconds(run), 5 + 1);
  EXPECT_EQ(run->messages, 1u);
  EXPECT_EQ(run->wire_bytes, (std::vector<std::uint64_t>{1000, 0}));
}

TEST(SimulatedNetwork, BothWaysAtOnceTakeNoLonger) {
  const auto run = simulate(two_hosts(), [](MessageExchange& exchange) -> Result<void> {
    const int peer = 1 - exchange.rank();
    TRY(send(exchange, peer, 0, 1000));
    return take(exchange, peer, 0, 1000);
  });
  EXPECT_DOUBLE_EQ(microseconds(run), 5 + 1);
}

TEST(SimulatedNetwork, RanksOfAHostShareItsWire) {
  auto shape = two_hosts();
  shape.ranks_per_host = 4;
  const auto run = simulate(shape, [](MessageExchange& exchange) {
    const int rank = exchange.rank();
    return rank < 4 ? send(exchange, rank + 4, 0, 100'000) : take(exchange, rank - 4, 0, 100'000);
  });
  EXPECT_DOUBLE_EQ(microseconds(run), 5 + 4 * 100);
}

// It sends 4 in 8 us. The credit of the first arrives 2 + 21 + 2 + 21 us after the start, and so
// on.
TEST(SimulatedNetwork, WithCreditsASenderWaitsForSlots) {
  static_assert(kSlots == 4);
  auto shape = two_hosts();
  shape.socket_buffer_bytes = 0;
  shape.costs.between_hosts.latency = 25e-6;
  const auto run = simulate(shape, [](MessageExchange& exchange) -> Result<void> {
    for (std::size_t i = 0; i < 3 * kSlots; ++i)
      TRY(exchange.rank() == 0 ? send(exchange, 1, i, 8) : take(exchange, 0, i, 8));
    return {};
  });
  EXPECT_NEAR(microseconds(run), 46 + 46 + 8 + 21 + 2, 0.1);
}

// Rank 1 receives nothing before it knows that rank 0 has sent all.
Result<SimulationResult> run_ahead(std::size_t messages, std::size_t held_bytes) {
  auto shape = two_hosts();
  shape.hosts = 3;
  shape.socket_buffer_bytes = held_bytes;
  return simulate(shape, [=](MessageExchange& exchange) -> Result<void> {
    if (exchange.rank() == 2) {
      TRY(take(exchange, 0, 0, 8));
      return send(exchange, 1, 0, 8);
    }
    if (exchange.rank() == 1) TRY(take(exchange, 2, 0, 8));
    for (std::size_t i = 0; i < messages; ++i)
      TRY(exchange.rank() == 0 ? send(exchange, 1, i, 1024) : take(exchange, 0, i, 1024));
    return exchange.rank() == 0 ? send(exchange, 2, 0, 8) : Result<void>();
  });
}

TEST(SimulatedNetwork, AConnectionTakesWhatTheSlotsOfBothEndsAndTheKernelsHold) {
  const auto most = kSlots + 8 + kSlots;
  EXPECT_TRUE(run_ahead(most, 8 * 1024));
  const auto stuck = run_ahead(most + 1, 8 * 1024);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().message,
            "the ranks wait for each other forever: rank 0 waits for rank 1 to take message 0");
}

TEST(SimulatedNetwork, WithCreditsAConnectionTakesWhatTheReceiversSlotsHold) {
  EXPECT_TRUE(run_ahead(kSlots, 0));
  EXPECT_FALSE(run_ahead(kSlots + 1, 0));
}

// A wire with a round trip of two milliseconds carries no more in that time than the kernels
// buffer.
TEST(SimulatedNetwork, OnALongWayTheKernelsAreTheLimit) {
  auto shape = two_hosts();
  shape.costs.between_hosts.latency = 1e-3;
  shape.socket_buffer_bytes = 64 * 1024;
  const auto run = simulate(shape, [](MessageExchange& exchange) -> Result<void> {
    for (std::size_t i = 0; i < 64; ++i)
      TRY(exchange.rank() == 0 ? send(exchange, 1, i, 16 * 1024) : take(exchange, 0, i, 16 * 1024));
    return {};
  });
  EXPECT_NEAR(microseconds(run), 16 * 2000, 1000);
}

TEST(SimulatedNetwork, TheSameRunGivesTheSameTimes) {
  auto shape = two_hosts();
  shape.hosts = 5;
  shape.ranks_per_host = 3;
  const auto body = [](MessageExchange& exchange) -> Result<void> {
    const int n = exchange.size();
    for (int step = 1; step < n; ++step) {
      TRY(send(exchange, (exchange.rank() + step) % n, 0, 64 * static_cast<std::size_t>(step)));
      TRY(take(exchange, (exchange.rank() + n - step) % n, 0, 64 * static_cast<std::size_t>(step)));
    }
    return {};
  };
  const auto first = simulate(shape, body).value();
  EXPECT_EQ(first.messages, 15u * 14u);
  for (int again = 0; again < 3; ++again)
    EXPECT_EQ(simulate(shape, body).value().seconds, first.seconds);
}

TEST(SimulatedNetwork, RanksThatWaitForEachOtherAreNamed) {
  const auto run = simulate(two_hosts(), [](MessageExchange& exchange) {
    return take(exchange, 1 - exchange.rank(), 7, 8);
  });
  EXPECT_EQ(run.error().code, Code::timeout);
  EXPECT_EQ(run.error().message,
            "the ranks wait for each other forever: rank 0 waits for rank 1 to send piece 7");
}

TEST(SimulatedNetwork, ARanksErrorIsTheRuns) {
  const auto run = simulate(two_hosts(), [](MessageExchange& exchange) -> Result<void> {
    if (exchange.rank() == 1) return Error{Code::internal, "it is out of order"};
    return take(exchange, 1, 0, 8);
  });
  EXPECT_EQ(run.error().message, "rank 1: it is out of order");
}

TEST(SimulatedNetwork, AMessageThatIsNotTheOneExpectedIsAnError) {
  const auto run = simulate(two_hosts(), [](MessageExchange& exchange) {
    return exchange.rank() == 0 ? send(exchange, 1, 0, 8) : take(exchange, 0, 0, 16);
  });
  EXPECT_EQ(run.error().message,
            "rank 1: expected piece 0 of 16 bytes of rank 0, got piece 0 of 8 bytes");
}

}  // namespace
}  // namespace lockstep::comm
