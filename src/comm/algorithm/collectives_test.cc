// Every plan x ranks x hosts x size x type against one serial answer. All ranks have the same bits
// for any timing, and no more bytes go between hosts than the algorithms state. The memory that the
// ranks of a host share is real; the links between them are queues (in_memory_group_for_test.h).
#include <bit>
#include <limits>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "comm/algorithm/execute_plan.h"
#include "comm/algorithm/in_memory_group_for_test.h"
#include "comm/reduction/serial_for_test.h"

namespace lockstep::comm {
namespace {

using namespace testing_groups;

// One element; small whole numbers, of which all types represent every partial result.
void put(Memory& to, std::size_t i, int value, DataType type) {
  const auto store = [&](auto stored) {
    std::memcpy(to.data() + i * sizeof stored, &stored, sizeof stored);
  };
  const auto number = static_cast<float>(value);
  switch (type) {
    case DataType::uint8:
      return store(static_cast<std::uint8_t>(value));
    case DataType::int32:
      return store(static_cast<std::int32_t>(value));
    case DataType::int64:
      return store(static_cast<std::int64_t>(value));
    case DataType::float16:
      return store(half_of_float(number));
    case DataType::bfloat16:
      return store(brain_of_float(number));
    case DataType::float32:
      return store(number);
    case DataType::float64:
      return store(static_cast<double>(value));
    default:
      break;
  }
}

Memory share(int rank, std::size_t count, DataType type) {
  Memory memory(count * size_of(type));
  Random random(static_cast<std::uint64_t>(rank));
  for (std::size_t i = 0; i < count; ++i)
    put(memory, i, 1 + static_cast<int>(random.below(2)), type);
  return memory;
}

Memory block(std::size_t bytes, int from, int to) {
  Memory memory(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    memory[i] = static_cast<std::byte>((i + static_cast<std::size_t>(from * 17 + to * 5)) % 251);
  return memory;
}

std::span<const std::byte> part_of(const Memory& whole, int i, std::size_t bytes) {
  return std::span(whole).subspan(static_cast<std::size_t>(i) * bytes, bytes);
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// The location of a call's buffers. mixed: every other rank uses the shared heap.
enum class BufferLocation { private_memory, shared_heap, mixed };

// A buffer of one call. Shared heap memory is freed as soon as its rank is done.
class Data {
 public:
  Data(bool lent, std::span<const std::byte> content)
      : own_(lent ? 0 : content.size()), span_(own_) {
    if (lent && !content.empty())
      span_ = test_heap()->allocate(Bytes(static_cast<std::int64_t>(content.size()))).value();
    std::copy(content.begin(), content.end(), span_.begin());
  }
  ~Data() {
    if (own_.empty() && !span_.empty()) test_heap()->free(span_);
  }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;
  std::span<std::byte> span() const { return span_; }

 private:
  Memory own_;
  std::span<std::byte> span_;
};

struct Setting {
  Hosts hosts;
  BufferLocation buffer_location = BufferLocation::private_memory;
  std::uint64_t seed = 1;
  std::size_t piece_bytes = 1024;
};

// A group and the calls that its ranks make in it.
class Ranks {
 public:
  explicit Ranks(const Setting& setting)
      : turns(setting.seed),
        group(turns, setting.hosts, setting.piece_bytes),
        buffer_location_(setting.buffer_location) {}

  Data data(int rank, std::span<const std::byte> content) {
    return Data(buffer_location_ == BufferLocation::shared_heap ||
                    (buffer_location_ == BufferLocation::mixed && rank % 2 == 0),
                content);
  }

  // Each rank calls what call_of(rank, execute) makes, which must call execute(call) once.
  template <class Body>
  void run(const CallPlan& plan, Body body) {
    const auto done = turns.run(group.size(), [&](int rank) {
      return body(rank, [&, rank](CollectiveCall call) {
        return group.call(rank, call,
                          [&](MessageExchange& exchange, const CollectiveCall& numbered) {
                            return execute_plan(plan, exchange, numbered);
                          });
      });
    });
    ASSERT_TRUE(done.has_value()) << done.error().message;
    EXPECT_TRUE(group.all_received());
  }

  TurnScheduler turns;
  InMemoryGroup group;

 private:
  const BufferLocation buffer_location_;
};

GroupShape shape(const Ranks& ranks) { return shape_of(ranks.group.hosts()); }

std::string words_of(const Setting& setting) {
  std::string words;
  for (const auto& ranks : setting.hosts)
    words += (words.empty() ? "" : "_") + std::to_string(ranks.size());
  const char* places[] = {"", "_lent", "_some_lent"};
  return words + places[static_cast<int>(setting.buffer_location)];
}
std::string name_of(const testing::TestParamInfo<Setting>& info) { return words_of(info.param); }
void PrintTo(const Setting& setting, std::ostream* out) { *out << words_of(setting); }

// With each of the plans.
void check_all_reduce(Ranks& ranks, const std::vector<CallPlan>& plans, std::size_t count,
                      DataType type, ReduceOp op) {
  std::vector<Memory> shares;
  for (int rank = 0; rank < ranks.group.size(); ++rank) shares.push_back(share(rank, count, type));
  const auto expected = serial(shares, {type, op, ranks.group.size()});
  for (const auto& plan : plans)
    ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
      const auto buffer = ranks.data(rank, shares[static_cast<std::size_t>(rank)]);
      const auto bytes = buffer.span().size();
      TRY(carry_out(
          {make_header(Operation::all_reduce, 0, bytes, type, op, 0), {}, buffer.span()}));
      EXPECT_TRUE(equal(buffer.span(), expected))
          << text(plan) << " " << text(type) << " " << text(op) << " " << count << " rank " << rank;
      return {};
    });
}

void check_reduce(Ranks& ranks, const CallPlan& plan, std::size_t count, int root) {
  constexpr auto kType = DataType::float32;
  std::vector<Memory> shares;
  for (int rank = 0; rank < ranks.group.size(); ++rank) shares.push_back(share(rank, count, kType));
  const auto expected = serial(shares, {kType, ReduceOp::average, ranks.group.size()});
  ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
    const auto& own = shares[static_cast<std::size_t>(rank)];
    const auto buffer = ranks.data(rank, own);
    TRY(carry_out({make_header(Operation::reduce, 0, own.size(), kType, ReduceOp::average, root),
                   {},
                   buffer.span()}));
    EXPECT_TRUE(equal(buffer.span(), rank == root ? expected : own))
        << text(plan) << " " << count << " to " << root << " rank " << rank;
    return {};
  });
}

void check_reduce_scatter(Ranks& ranks, const std::vector<CallPlan>& plans, std::size_t count,
                          DataType type, ReduceOp op) {
  const auto n = static_cast<std::size_t>(ranks.group.size());
  std::vector<Memory> shares;
  for (int rank = 0; rank < ranks.group.size(); ++rank)
    shares.push_back(share(rank, count * n, type));
  const auto expected = serial(shares, {type, op, ranks.group.size()});
  const auto bytes = count * size_of(type);
  for (const auto& plan : plans)
    ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
      const auto input = ranks.data(rank, shares[static_cast<std::size_t>(rank)]);
      const auto output = ranks.data(rank, Memory(bytes));
      TRY(carry_out({make_header(Operation::reduce_scatter, 0, bytes, type, op, 0), input.span(),
                     output.span()}));
      EXPECT_TRUE(equal(output.span(), part_of(expected, rank, bytes)))
          << text(plan) << " " << text(type) << " " << text(op) << " " << count << " rank " << rank;
      return {};
    });
}

MessageHeader move_header(Operation operation, std::size_t bytes, int root) {
  return make_header(operation, 0, bytes, DataType::uint8, ReduceOp::sum, root);
}

void check_all_gather(Ranks& ranks, const CallPlan& plan, std::size_t bytes) {
  Memory expected;
  for (int rank = 0; rank < ranks.group.size(); ++rank)
    for (const auto byte : block(bytes, rank, 0)) expected.push_back(byte);
  ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
    const auto input = ranks.data(rank, block(bytes, rank, 0));
    const auto output = ranks.data(rank, Memory(expected.size()));
    TRY(carry_out({move_header(Operation::all_gather, bytes, 0), input.span(), output.span()}));
    EXPECT_TRUE(equal(output.span(), expected)) << text(plan) << " " << bytes << " rank " << rank;
    // In place: the input is the own block of the output.
    const auto whole = ranks.data(rank, Memory(expected.size()));
    const auto own = whole.span().subspan(static_cast<std::size_t>(rank) * bytes, bytes);
    std::copy(input.span().begin(), input.span().end(), own.begin());
    TRY(carry_out({move_header(Operation::all_gather, bytes, 0), own, whole.span()}));
    EXPECT_TRUE(equal(whole.span(), expected)) << text(plan) << " " << bytes << " rank " << rank;
    return {};
  });
}

void check_broadcast(Ranks& ranks, const CallPlan& plan, std::size_t bytes, int root) {
  const auto expected = block(bytes, root, 0);
  ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
    const auto buffer = ranks.data(rank, rank == root ? expected : Memory(bytes));
    const auto input = rank == root ? buffer.span() : std::span<std::byte>();
    TRY(carry_out({move_header(Operation::broadcast, bytes, root), input, buffer.span()}));
    EXPECT_TRUE(equal(buffer.span(), expected))
        << text(plan) << " " << bytes << " from " << root << " rank " << rank;
    return {};
  });
}

// Sizes in elements of four bytes: zero, one, odd, a page and one more or less, the inline limit of
// a host's ranks and one more, several pieces for each rank.
constexpr std::size_t kCounts[] = {0, 1, 3, 1023, 1025, 8192, 8193, 20'003};

class EveryPlan : public testing::TestWithParam<Setting> {
 protected:
  EveryPlan() : ranks(GetParam()) {}
  std::vector<CallPlan> plans(Operation operation, std::size_t bytes) const {
    return fitting_plans(operation, bytes, shape(ranks));
  }
  Ranks ranks;
};

TEST_P(EveryPlan, AllReduceEqualsTheSerialAnswer) {
  for (const auto count : kCounts)
    check_all_reduce(ranks, plans(Operation::all_reduce, count * 4), count, DataType::float32,
                     ReduceOp::sum);
}

TEST_P(EveryPlan, ReduceEqualsTheSerialAnswerAndLeavesTheOthersBuffersAlone) {
  for (const auto count : {0u, 3u, 8193u})
    for (const auto& plan : plans(Operation::reduce, count * 4))
      for (int root = 0; root < ranks.group.size(); root += count > 3 ? 3 : 1)
        check_reduce(ranks, plan, count, root);
}

TEST_P(EveryPlan, ReduceScatterEqualsTheSerialAnswer) {
  for (const auto count : {0u, 1u, 17u, 1025u, 9001u})
    check_reduce_scatter(ranks, plans(Operation::reduce_scatter, count * 4), count,
                         DataType::float32, ReduceOp::average);
}

TEST_P(EveryPlan, AllGatherPutsEveryBlockInItsPlace) {
  for (const auto bytes : {0u, 1u, 4095u, 4097u, 40'001u})
    for (const auto& plan : plans(Operation::all_gather, bytes))
      check_all_gather(ranks, plan, bytes);
}

TEST_P(EveryPlan, BroadcastFromEveryRootReachesAll) {
  for (const auto bytes : {0u, 1u, 4097u, 32'769u, 80'001u})
    for (const auto& plan : plans(Operation::broadcast, bytes))
      for (int root = 0; root < ranks.group.size(); root += bytes > 4097 ? 4 : 1)
        check_broadcast(ranks, plan, bytes, root);
}

TEST_P(EveryPlan, NobodyLeavesABarrierBeforeAllHaveEntered) {
  for (const auto& plan : plans(Operation::barrier, 0)) {
    int entered = 0;
    ranks.run(plan, [&](int, auto carry_out) -> Result<void> {
      for (int round = 1; round <= 5; ++round) {
        ++entered;
        TRY(carry_out({move_header(Operation::barrier, 0, 0)}));
        EXPECT_GE(entered, round * ranks.group.size()) << text(plan);
      }
      return {};
    });
  }
}

INSTANTIATE_TEST_SUITE_P(OneRankAHost, EveryPlan,
                         testing::Values(Setting{hosts_of({1, 1})}, Setting{hosts_of({1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1, 1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1, 1, 1, 1, 1})},
                                         Setting{hosts_of({1, 1, 1, 1, 1, 1, 1, 1, 1})}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(EvenHosts, EveryPlan,
                         testing::Values(Setting{hosts_of({2, 2}), BufferLocation::shared_heap},
                                         Setting{hosts_of({2, 2, 2}), BufferLocation::mixed},
                                         Setting{hosts_of({3, 3}), BufferLocation::private_memory},
                                         Setting{hosts_of({2, 2, 2, 2}),
                                                 BufferLocation::private_memory},
                                         Setting{hosts_of({4, 4}), BufferLocation::shared_heap},
                                         Setting{hosts_of({3, 3, 3}), BufferLocation::shared_heap}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(UnevenHosts, EveryPlan,
                         testing::Values(Setting{hosts_of({2, 1}), BufferLocation::shared_heap},
                                         Setting{hosts_of({3, 2}), BufferLocation::private_memory},
                                         Setting{hosts_of({3, 2}), BufferLocation::shared_heap},
                                         Setting{hosts_of({1, 4, 2}), BufferLocation::mixed},
                                         Setting{hosts_of({4, 2, 3}),
                                                 BufferLocation::private_memory},
                                         Setting{hosts_of({2, 5}), BufferLocation::mixed}),
                         name_of);

// All types and reductions where each way of reducing differs: among all ranks, and within hosts
// first.
TEST(EveryType, EqualsTheSerialAnswer) {
  for (const auto& hosts : {hosts_of({1, 1, 1}), hosts_of({3, 2, 2})}) {
    Ranks ranks({.hosts = hosts});
    for (const auto type : kReducedTypes)
      for (const auto op : kReduceOps) {
        if (!is_defined(op, type)) continue;
        check_all_reduce(ranks, fitting_plans(Operation::all_reduce, 1000, shape(ranks)), 125, type,
                         op);
      }
  }
  Ranks even({.hosts = hosts_of({2, 2})});
  for (const auto type : kReducedTypes)
    for (const auto op : kReduceOps)
      if (is_defined(op, type))
        check_reduce_scatter(even, fitting_plans(Operation::reduce_scatter, 1000, shape(even)), 125,
                             type, op);
}

// So large that slices have several parts, which are reduced and distributed while others travel.
TEST(LargeBuffers, GoInPartsToTheSerialAnswer) {
  constexpr std::size_t kCount = 1'100'001;
  for (const auto& setting : {Setting{hosts_of({2, 2}), BufferLocation::shared_heap},
                              Setting{hosts_of({2, 2}), BufferLocation::private_memory},
                              Setting{hosts_of({3, 1, 1}), BufferLocation::private_memory}}) {
    Ranks ranks({.hosts = setting.hosts,
                 .buffer_location = setting.buffer_location,
                 .piece_bytes = 128 * 1024});
    auto plans = fitting_plans(Operation::all_reduce, kCount * 4, shape(ranks));
    std::erase_if(plans, [](const CallPlan& plan) { return !plan.hierarchical; });
    check_all_reduce(ranks, plans, kCount, DataType::float32, ReduceOp::average);
    for (const auto& plan : fitting_plans(Operation::broadcast, kCount * 4, shape(ranks)))
      if (plan.hierarchical) check_broadcast(ranks, plan, kCount * 4, 1);
    for (const auto& plan : fitting_plans(Operation::reduce, kCount * 4, shape(ranks)))
      if (plan.hierarchical) check_reduce(ranks, plan, kCount, 1);
  }
}

TEST(LargeBuffers, OfAMegabyteEqualTheSerialAnswer) {
  Ranks ranks({.hosts = hosts_of({1, 1, 1, 1, 1}), .piece_bytes = 128 * 1024});
  check_all_reduce(ranks, fitting_plans(Operation::all_reduce, 1 << 20, shape(ranks)), 1 << 18,
                   DataType::float32, ReduceOp::sum);
}

// The bits that each rank gets when all contribute values that must be rounded. Some are NaN, for
// which min depends on the order of its operands.
std::vector<Memory> results(const Setting& setting, const CallPlan& plan, std::size_t count,
                            DataType type, ReduceOp op = ReduceOp::sum) {
  Ranks ranks(setting);
  std::vector<Memory> all(static_cast<std::size_t>(ranks.group.size()));
  ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
    Random random(static_cast<std::uint64_t>(rank));
    Memory own(count * size_of(type));
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = random.below(16) == 0 ? std::numeric_limits<float>::quiet_NaN()
                                               : static_cast<float>(random.uniform() - 0.5);
      const auto brain = brain_of_float(value);
      if (type == DataType::float32)
        std::memcpy(own.data() + i * 4, &value, 4);
      else
        std::memcpy(own.data() + i * 2, &brain, 2);
    }
    const auto buffer = ranks.data(rank, own);
    TRY(carry_out(
        {make_header(Operation::all_reduce, 0, own.size(), type, op, 0), {}, buffer.span()}));
    all[static_cast<std::size_t>(rank)].assign(buffer.span().begin(), buffer.span().end());
    return {};
  });
  return all;
}

TEST(Bits, AreTheSameOnAllRanksWhateverTheTimingAndWhereverBuffersLie) {
  constexpr std::size_t kCount = 9001;
  for (const auto& hosts : {hosts_of({1, 1, 1, 1, 1, 1, 1}), hosts_of({2, 2, 2}), hosts_of({4, 2})})
    for (const auto type : {DataType::float32, DataType::bfloat16})
      for (const auto& plan :
           fitting_plans(Operation::all_reduce, kCount * size_of(type), shape_of(hosts))) {
        const auto op = type == DataType::float32 ? ReduceOp::sum : ReduceOp::min;
        const auto first = results({.hosts = hosts, .seed = 1}, plan, kCount, type, op);
        for (const auto& result : first) EXPECT_TRUE(result == first[0]) << text(plan);
        const auto again =
            results({.hosts = hosts, .buffer_location = BufferLocation::shared_heap, .seed = 2},
                    plan, kCount, type, op);
        EXPECT_TRUE(again == first) << text(plan);
      }
}

TEST(Bits, OfDoublingAreThoseOfHalvingAndDoubling) {
  for (const auto& hosts : {hosts_of({1, 1, 1, 1}), hosts_of({1, 1, 1, 1, 1, 1, 1})})
    for (const auto op : {ReduceOp::sum, ReduceOp::min})
      EXPECT_TRUE(results({.hosts = hosts}, {Algorithm::recursive_doubling}, 5000,
                          DataType::bfloat16,
                          op) == results({.hosts = hosts}, {Algorithm::halving_doubling}, 5000,
                                         DataType::bfloat16, op));
}

// The bytes that each rank sends to other hosts, by the formula at the top of the algorithm's file.
std::vector<std::size_t> sent(const Hosts& hosts, const CallPlan& plan, Operation operation,
                              std::size_t bytes) {
  // Every size is divisible by the number of its pieces, and a piece holds all that a rank sends at
  // once.
  Ranks ranks(
      {.hosts = hosts, .buffer_location = BufferLocation::shared_heap, .piece_bytes = kSlotBytes});
  const auto n = static_cast<std::size_t>(ranks.group.size());
  ranks.run(plan, [&](int rank, auto carry_out) -> Result<void> {
    const auto gathers = operation == Operation::all_gather;
    const auto scatters = operation == Operation::reduce_scatter;
    const auto input = ranks.data(rank, Memory(gathers ? bytes : scatters ? n * bytes : 0));
    const auto output = ranks.data(rank, Memory(gathers ? n * bytes : bytes));
    const auto header = make_header(operation, 0, bytes, DataType::float32, ReduceOp::sum, 0);
    return carry_out({header, input.span(), output.span()});
  });
  std::vector<std::size_t> all;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    all.push_back(ranks.group.sent_by_host(host));
  return all;
}

std::size_t sum(const std::vector<std::size_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

// For n equal hosts, with one rank each or with several ranks that reduce within the host first.
void expect_all_reduce_sends(const Hosts& hosts, bool hierarchical, std::size_t bytes) {
  const auto n = hosts.size();
  const auto sent_by = [&](Algorithm algorithm) {
    return sent(hosts, {algorithm, hierarchical}, Operation::all_reduce, bytes);
  };
  const auto p = std::bit_floor(n), rounds = static_cast<std::size_t>(std::bit_width(p)) - 1;
  EXPECT_EQ(sent_by(Algorithm::ring), std::vector(n, 2 * (n - 1) * bytes / n));
  std::vector<std::size_t> doubling(n, rounds * bytes), halving(n, 2 * (p - 1) * bytes / p);
  for (std::size_t i = 0; i < n - p; ++i) {  // pairs of a proxy and an extra rank
    doubling[2 * i] += bytes;
    halving[2 * i] += bytes;
    doubling[2 * i + 1] = halving[2 * i + 1] = bytes;
  }
  EXPECT_EQ(sent_by(Algorithm::recursive_doubling), doubling) << n;
  EXPECT_EQ(sent_by(Algorithm::halving_doubling), halving) << n;
  const auto trees = sent_by(Algorithm::double_tree);
  EXPECT_EQ(sum(trees), 2 * (n - 1) * bytes) << n;
  for (const auto one : trees) EXPECT_LE(one, 2 * bytes);
}

TEST(BytesSent, ByAllReduceAreThoseOfTheFormulas) {
  constexpr std::size_t kBytes = 2520 * 64 * 4;  // divisible by 1 to 9, in lines
  for (int n = 2; n <= 9; ++n)
    expect_all_reduce_sends(hosts_of(std::vector<int>(static_cast<std::size_t>(n), 1)), false,
                            kBytes);
}

TEST(BytesSent, ByHierarchicalAllReduceAreThoseOfTheFormulasForHosts) {
  constexpr std::size_t kBytes = 2520 * 64 * 4;
  expect_all_reduce_sends(hosts_of({2, 2}), true, kBytes);
  expect_all_reduce_sends(hosts_of({2, 2, 2}), true, kBytes);
  expect_all_reduce_sends(hosts_of({2, 2, 2, 2}), true, kBytes);
  expect_all_reduce_sends(hosts_of({2, 3, 4}), true, kBytes);
  expect_all_reduce_sends(hosts_of({1, 4, 1, 2}), true, kBytes);
}

TEST(BytesSent, ByFlatAllReduceAreOneShareToEverybodyElsewhere) {
  EXPECT_EQ(sent(hosts_of({1, 1, 1}), {Algorithm::flat}, Operation::all_reduce, 400),
            std::vector<std::size_t>(3, 800));
  EXPECT_EQ(sent(hosts_of({2, 2}), {Algorithm::flat, true}, Operation::all_reduce, 400),
            std::vector<std::size_t>(2, 400));
}

TEST(BytesSent, ByBlocksAreThoseOfTheFormulas) {
  constexpr std::size_t kBytes = 64'000;
  for (const auto operation : {Operation::all_gather, Operation::reduce_scatter}) {
    EXPECT_EQ(sent(hosts_of({1, 1, 1, 1}), {Algorithm::ring}, operation, kBytes),
              std::vector<std::size_t>(4, 3 * kBytes));
    // One link of the ring leaves each host.
    EXPECT_EQ(sent(hosts_of({2, 2, 2}), {Algorithm::ring}, operation, kBytes),
              std::vector<std::size_t>(3, 5 * kBytes));
    EXPECT_EQ(sent(hosts_of({2, 2, 2}), {Algorithm::ring, true}, operation, kBytes),
              std::vector<std::size_t>(3, 4 * kBytes));
    // Each host sends the blocks of all but the next host (all-gather), or of all but its own in
    // another order (reduce-scatter).
    const auto uneven = sent(hosts_of({1, 3, 2}), {Algorithm::ring, true}, operation, kBytes);
    const bool gathers = operation == Operation::all_gather;
    EXPECT_EQ(uneven, gathers ? (std::vector<std::size_t>{3 * kBytes, 4 * kBytes, 5 * kBytes})
                              : (std::vector<std::size_t>{5 * kBytes, 3 * kBytes, 4 * kBytes}));
  }
}

TEST(BytesSent, ByBroadcastAndReduceReachEverybodyOnce) {
  constexpr std::size_t kBytes = 256'000;
  for (const auto& hosts : {hosts_of({1, 1, 1, 1, 1}), hosts_of({1, 1, 1, 1})})
    for (const auto algorithm : {Algorithm::ring, Algorithm::double_tree})
      for (const auto operation : {Operation::broadcast, Operation::reduce}) {
        const auto all = sent(hosts, {algorithm}, operation, kBytes);
        EXPECT_EQ(sum(all), (hosts.size() - 1) * kBytes);
        for (const auto one : all) EXPECT_LE(one, kBytes);
      }
  for (const auto algorithm : {Algorithm::ring, Algorithm::double_tree})
    for (const auto operation : {Operation::broadcast, Operation::reduce})
      EXPECT_EQ(sum(sent(hosts_of({2, 3, 2}), {algorithm, true}, operation, kBytes)), 2 * kBytes);
  for (const auto& hosts : {hosts_of({2, 3, 2}), hosts_of({1, 2, 1})})
    EXPECT_EQ(sent(hosts, {Algorithm::ring, true}, Operation::reduce, kBytes),
              (std::vector<std::size_t>{0, kBytes, kBytes}));
}

// A group of some of the processes, in any order. For each rank of the group: its process.
struct SubGroup {
  SubGroup(TurnScheduler& turns, const std::vector<int>& ranks_a_host, int processes,
           Random& random)
      : group(turns, hosts_of(ranks_a_host)), members(static_cast<std::size_t>(processes)) {
    std::iota(members.begin(), members.end(), 0);
    for (std::size_t i = 0; i + 1 < members.size(); ++i)
      std::swap(members[i], members[i + random.below(members.size() - i)]);
    members.resize(static_cast<std::size_t>(group.size()));
  }
  std::optional<int> rank_of(int process) const {
    const auto found = std::find(members.begin(), members.end(), process);
    if (found == members.end()) return std::nullopt;
    return static_cast<int>(found - members.begin());
  }
  InMemoryGroup group;
  std::vector<int> members;
};

struct Step {
  SubGroup& in;
  CallPlan plan;
  std::size_t count;
};

Result<void> add_up(const Step& step, int rank) {
  auto& group = step.in.group;
  std::vector<std::int64_t> values(step.count, rank + 1);
  const auto bytes = std::as_writable_bytes(std::span(values));
  const auto header =
      make_header(Operation::all_reduce, 0, bytes.size(), DataType::int64, ReduceOp::sum, 0);
  TRY(group.call(rank, {header, {}, bytes},
                 [&](MessageExchange& exchange, const CollectiveCall& call) {
                   return execute_plan(step.plan, exchange, call);
                 }));
  const auto expected = group.size() * (group.size() + 1) / 2;
  for (const auto value : values)
    if (value != expected) return Error{Code::internal, text(step.plan)};
  return {};
}

// Processes are in several groups at the same time and call in one group after the other, as the
// seed says. Each group's calls keep their own order, and nothing synchronizes the processes.
TEST(GroupsByAlgorithm, InterleavedFromASeedAnswerAsEachAlone) {
  constexpr int kProcesses = 7;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    TurnScheduler turns(seed);
    SubGroup all(turns, {3, 2, 2}, kProcesses, random), pairs(turns, {2, 2}, kProcesses, random),
        odd(turns, {1, 1, 1}, kProcesses, random);
    SubGroup* const groups[] = {&all, &pairs, &odd};
    std::vector<Step> steps;
    for (int i = 0; i < 40; ++i) {
      auto& in = *groups[random.below(3)];
      const auto count = random.below(random.below(8) == 0 ? 20'000 : 300);
      const auto plans =
          fitting_plans(Operation::all_reduce, count * 8, shape_of(in.group.hosts()));
      steps.push_back({in, plans[random.below(plans.size())], count});
    }
    const auto done = turns.run(kProcesses, [&](int process) -> Result<void> {
      for (const auto& step : steps)
        if (const auto rank = step.in.rank_of(process)) TRY(add_up(step, *rank));
      return {};
    });
    ASSERT_TRUE(done.has_value()) << done.error().message << " with seed " << seed;
  }
}

}  // namespace
}  // namespace lockstep::comm
