// The algorithms' own code at scale: results, scaling of times, and times compared with
// predictions.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "comm/algorithm/links/double_tree.h"
#include "comm/algorithm/over_links.h"
#include "comm/algorithm/ring/ring_all_gather.h"
#include "comm/algorithm/ring/ring_reduce.h"
#include "comm/algorithm/ring/ring_reduce_scatter.h"
#include "comm/choice/predict.h"
#include "comm/reduction/types.h"
#include "comm/simulated/network.h"

namespace lockstep::comm {
namespace {

Costs costs_of_a_cluster() {
  Costs costs;
  costs.within_host = {1e-6, 0.2e-6, 1e-10};
  costs.between_hosts = {20e-6, 3e-6, 1e-9};
  costs.reduction = 0;  // arithmetic takes no virtual time
  return costs;
}

SimulatedCluster one_rank_per_host(int hosts, std::size_t piece_bytes = 4096) {
  SimulatedCluster shape;
  shape.hosts = hosts;
  shape.costs = costs_of_a_cluster();
  shape.piece_bytes = piece_bytes;
  return shape;
}

std::int32_t share(int rank, std::size_t i) { return rank % 1000 + static_cast<int>(i % 7); }

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// An all-reduce of `bytes` bytes by all ranks; wrong results are errors.
Result<SimulationResult> all_reduce(const SimulatedCluster& shape, Algorithm algorithm,
                                    std::size_t bytes) {
  const int n = shape.hosts * shape.ranks_per_host;
  const std::size_t count = bytes / sizeof(std::int32_t);
  std::vector<std::int32_t> expected(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (int rank = 0; rank < n; ++rank) expected[i] += share(rank, i);
  return simulate(shape, [&, count](MessageExchange& exchange) -> Result<void> {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = share(exchange.rank(), i);
    BufferParts parts(bytes_of(values), sizeof(std::int32_t));
    TRY(all_reduce_over_links(algorithm, exchange, parts, DataType::int32, ReduceOp::sum));
    if (values != expected) return Error{Code::corrupt, "a wrong sum"};
    return {};
  });
}

Result<SimulationResult> broadcast(const SimulatedCluster& shape, Algorithm algorithm,
                                   std::size_t bytes) {
  const std::vector<std::byte> expected(bytes, std::byte{42});
  return simulate(shape, [&](MessageExchange& exchange) -> Result<void> {
    const int root = exchange.size() / 3;
    std::vector<std::byte> values(bytes, std::byte(exchange.rank() == root ? 42 : 0));
    BufferParts parts(values);
    TRY(broadcast_over_links(algorithm, exchange, parts, root));
    if (values != expected) return Error{Code::corrupt, "other bytes"};
    return {};
  });
}

Result<SimulationResult> reduce_to_a_root(const SimulatedCluster& shape, Algorithm algorithm,
                                          std::size_t bytes) {
  const int n = shape.hosts * shape.ranks_per_host, root = n / 3;
  const std::size_t count = bytes / sizeof(std::int32_t);
  std::vector<std::int32_t> expected(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    for (int rank = 0; rank < n; ++rank) expected[i] += share(rank, i);
  return simulate(shape, [&, count, root](MessageExchange& exchange) -> Result<void> {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = share(exchange.rank(), i);
    const auto own = values;
    BufferParts parts(bytes_of(values), sizeof(std::int32_t));
    constexpr auto kType = DataType::int32;
    TRY(algorithm == Algorithm::ring
            ? ring_reduce(exchange, bytes_of(values), kType, ReduceOp::sum, root)
            : double_tree_reduce(exchange, parts, kType, ReduceOp::sum, root));
    if (values != (exchange.rank() == root ? expected : own))
      return Error{Code::corrupt, "a wrong sum"};
    return {};
  });
}

double predicted(const SimulatedCluster& shape, Algorithm algorithm, Operation operation,
                 std::size_t bytes) {
  const GroupShape group{shape.hosts * shape.ranks_per_host, shape.hosts, shape.ranks_per_host,
                         shape.ranks_per_host};
  return predict({algorithm, false}, operation, bytes, group, shape.costs, shape.piece_bytes)
      .count();
}

void expect_near(const Result<SimulationResult>& run, double prediction, double share_of_it,
                 const std::string& what) {
  ASSERT_TRUE(run) << what << ": " << run.error().message;
  EXPECT_NEAR(run->seconds / prediction, 1, share_of_it)
      << what << ": simulated " << run->seconds * 1e6 << " us, predicted " << prediction * 1e6;
}

TEST(SimulatedAlgorithms, ATreesLatencyGrowsWithTheLogarithmUpTo16384Ranks) {
  const auto shape = one_rank_per_host(16);
  const double per_level =
      all_reduce(shape, Algorithm::double_tree, 8).value().seconds / std::log2(16);
  for (const int n : {128, 1024, 16384}) {
    const auto run = all_reduce(one_rank_per_host(n), Algorithm::double_tree, 8);
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_NEAR(run->seconds / std::log2(n) / per_level, 1, 0.25) << n << " ranks";
  }
}

TEST(SimulatedAlgorithms, RecursiveDoublingsLatencyGrowsWithTheLogarithm) {
  for (const int n : {16, 128, 1024})
    EXPECT_NEAR(all_reduce(one_rank_per_host(n), Algorithm::recursive_doubling, 8).value().seconds,
                std::log2(n) * 20e-6, 1e-6 * std::log2(n));
}

TEST(SimulatedAlgorithms, RingsOf512RanksFindTheSum) {
  const auto shape = one_rank_per_host(512);
  expect_near(all_reduce(shape, Algorithm::ring, 4096),
              predicted(shape, Algorithm::ring, Operation::all_reduce, 4096), 0.1, "ring");
}

std::string named(Algorithm algorithm, std::size_t bytes, int hosts, int ranks) {
  return format("{} of {} bytes, {} hosts x {}", text(algorithm), bytes, hosts, ranks);
}

TEST(SimulatedAlgorithms, AllReducesTakeWhatIsPredictedWithinAQuarter) {
  for (const int hosts : {2, 3, 4, 7, 16, 64})
    for (const std::size_t bytes : {8u, 4096u, 256u << 10, 1u << 20})
      for (const auto algorithm : {Algorithm::flat, Algorithm::ring, Algorithm::recursive_doubling,
                                   Algorithm::halving_doubling, Algorithm::double_tree}) {
        const auto shape = one_rank_per_host(hosts, 64 * 1024);
        if (!fits({algorithm, false}, Operation::all_reduce, bytes, {})) continue;
        expect_near(all_reduce(shape, algorithm, bytes),
                    predicted(shape, algorithm, Operation::all_reduce, bytes), 0.25,
                    named(algorithm, bytes, hosts, 1));
      }
}

TEST(SimulatedAlgorithms, RanksOfAHostShareItsWireAsPredictedWithinAThird) {
  for (const int ranks : {2, 4})
    for (const std::size_t bytes : {8u, 4096u, 256u << 10, 1u << 20})
      for (const auto algorithm : {Algorithm::flat, Algorithm::ring, Algorithm::recursive_doubling,
                                   Algorithm::halving_doubling, Algorithm::double_tree}) {
        auto shape = one_rank_per_host(4, 64 * 1024);
        shape.ranks_per_host = ranks;
        if (!fits({algorithm, false}, Operation::all_reduce, bytes, {})) continue;
        expect_near(all_reduce(shape, algorithm, bytes),
                    predicted(shape, algorithm, Operation::all_reduce, bytes), 0.33,
                    named(algorithm, bytes, 4, ranks));
      }
}

TEST(SimulatedAlgorithms, BroadcastsTakeWhatIsPredictedWithinAQuarter) {
  for (const int hosts : {2, 5, 16, 100})
    for (const std::size_t bytes : {8u, 64u << 10, 1u << 20})
      for (const auto algorithm : {Algorithm::ring, Algorithm::double_tree}) {
        const auto shape = one_rank_per_host(hosts, 64 * 1024);
        expect_near(broadcast(shape, algorithm, bytes),
                    predicted(shape, algorithm, Operation::broadcast, bytes), 0.25,
                    named(algorithm, bytes, hosts, 1));
      }
}

TEST(SimulatedAlgorithms, ReducesTakeWhatIsPredictedWithinAQuarter) {
  for (const int hosts : {2, 5, 16, 100})
    for (const std::size_t bytes : {8u, 64u << 10, 1u << 20})
      for (const auto algorithm : {Algorithm::ring, Algorithm::double_tree}) {
        const auto shape = one_rank_per_host(hosts, 64 * 1024);
        expect_near(reduce_to_a_root(shape, algorithm, bytes),
                    predicted(shape, algorithm, Operation::reduce, bytes), 0.25,
                    named(algorithm, bytes, hosts, 1));
      }
}

// Hosts far apart: the kernels' buffers of a connection are the limit, not the wire.
TEST(SimulatedAlgorithms, OnALongWayAChainTakesWhatIsPredictedWithinATenth) {
  constexpr std::size_t kBytes = 8 << 20;
  auto shape = one_rank_per_host(4, 64 * 1024);
  shape.costs.between_hosts.latency = 1e-3;
  const double prediction = predicted(shape, Algorithm::ring, Operation::broadcast, kBytes);
  EXPECT_GT(prediction, 3 * kBytes * shape.costs.between_hosts.per_byte);
  expect_near(broadcast(shape, Algorithm::ring, kBytes), prediction, 0.1, "chain");
}

// Each host sends 2 (n - 1) / n of the buffer, the least possible.
TEST(SimulatedAlgorithms, RingAndHalvingSendTheLeastPossible) {
  constexpr int kHosts = 8;
  constexpr std::size_t kBytes = 1 << 20;
  for (const auto algorithm : {Algorithm::ring, Algorithm::halving_doubling}) {
    const auto run = all_reduce(one_rank_per_host(kHosts), algorithm, kBytes).value();
    for (const auto sent : run.wire_bytes)
      EXPECT_EQ(sent, 2 * (kHosts - 1) * kBytes / kHosts) << text(algorithm);
  }
}

TEST(SimulatedAlgorithms, BlocksOf512RanksArriveWhereTheyBelong) {
  constexpr int kRanks = 512;
  const auto run =
      simulate(one_rank_per_host(kRanks), [](MessageExchange& exchange) -> Result<void> {
        const std::vector<std::int32_t> own(1, exchange.rank());
        std::vector<std::int32_t> all(kRanks);
        TRY(ring_all_gather(exchange, std::as_bytes(std::span(own)), bytes_of(all)));
        for (int rank = 0; rank < kRanks; ++rank)
          if (all[static_cast<std::size_t>(rank)] != rank)
            return Error{Code::corrupt, "a wrong block"};
        return {};
      });
  EXPECT_TRUE(run) << run.error().message;
}

}  // namespace
}  // namespace lockstep::comm
