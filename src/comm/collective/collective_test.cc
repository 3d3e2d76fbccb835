// Every collective x type x reduction x transport x size x ranks, against one serial answer. The
// product is reduced: all sizes with one type, all types and reductions with one size.
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "comm/collective/thread_group_for_test.h"

namespace lockstep::comm {
namespace {

using namespace testing_groups;
using Bytestring = std::vector<std::byte>;

// One element, stored; values are chosen so that every type represents every partial result.
std::uint16_t brain_float(float value) {
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  const float rounded = std::ldexp(std::nearbyint(fraction * 256), exponent - 8);
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

template <class T>
void put(Bytestring& to, std::size_t i, T value) {
  std::memcpy(to.data() + i * sizeof value, &value, sizeof value);
}

void store(Bytestring& to, std::size_t i, double value, DataType type) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (type) {
    case DataType::uint8:
      return put(to, i, static_cast<std::uint8_t>(whole));
    case DataType::int32:
      return put(to, i, static_cast<std::int32_t>(whole));
    case DataType::int64:
      return put(to, i, whole);
    case DataType::float16:
      return put(to, i, static_cast<_Float16>(static_cast<float>(value)));
    case DataType::bfloat16:
      return put(to, i, brain_float(static_cast<float>(value)));
    case DataType::float32:
      return put(to, i, static_cast<float>(value));
    case DataType::float64:
      return put(to, i, value);
    default:
      break;
  }
}

// The value of rank `rank` at element i: 1 or 2, by the top bit of a product (Fibonacci hashing).
double share(int rank, std::size_t i) {
  const auto mixed = (i * 64 + static_cast<std::size_t>(rank) + 1) * 0x9E3779B97F4A7C15U;
  return mixed >> 63 == 0 ? 1.0 : 2.0;
}

int bits(int a, int b, ReduceOp op) {
  return op == ReduceOp::bit_and ? a & b : op == ReduceOp::bit_or ? a | b : a ^ b;
}

double reduced(int ranks, std::size_t i, ReduceOp op, DataType type) {
  double result = share(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = share(rank, i);
    if (op == ReduceOp::min)
      result = std::min(result, next);
    else if (op == ReduceOp::max)
      result = std::max(result, next);
    else if (op == ReduceOp::product)
      result *= next;
    else if (op >= ReduceOp::bit_and)
      result = bits(static_cast<int>(result), static_cast<int>(next), op);
    else
      result += next;
  }
  if (op != ReduceOp::average) return result;
  return type == DataType::float64 ? result / ranks
                                   : static_cast<float>(result) / static_cast<float>(ranks);
}

template <class Value>
Bytestring fill(std::size_t count, DataType type, Value value) {
  Bytestring bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) store(bytes, i, value(i), type);
  return bytes;
}

enum class Transport { shm, tcp, mixed };
// The location of buffers, and how the test waits for calls. mixed: this differs between the ranks.
enum class Memory { private_memory, shared_heap, mixed };
struct Case {
  Transport transport;
  int ranks;
  Memory memory = Memory::private_memory;
};

// A rank's buffer, with a copy of `content` in it.
class Data {
 public:
  Data(Communicator& comm, bool lent, const Bytestring& content) {
    if (lent)
      lent_ = comm.allocate(Bytes(static_cast<std::int64_t>(content.size()))).value();
    else
      elsewhere_.resize(content.size());
    std::copy(content.begin(), content.end(), span().begin());
  }
  std::span<std::byte> span() { return lent_.data() ? lent_.span() : std::span(elsewhere_); }
  bool operator==(std::span<const std::byte> other) {
    return std::equal(span().begin(), span().end(), other.begin(), other.end());
  }

 private:
  Buffer lent_;
  Bytestring elsewhere_;
};

// Bitwise reductions are the same for every integer type.
bool is_tried(ReduceOp op, DataType type) {
  return is_defined(op, type) && (op < ReduceOp::bit_and || type == DataType::int32);
}

class Collectives : public testing::TestWithParam<Case> {
 protected:
  Collectives() : group(options()) {}

  static GroupOptions options() {
    const auto [transport, ranks, memory] = GetParam();
    return transport == Transport::shm   ? one_host(ranks)
           : transport == Transport::tcp ? a_host_each(ranks)
                                         : two_hosts(ranks);
  }

  static constexpr std::size_t kSizes[] = {0, 1, 3, 17, 1000, 4095, 4097, 65537, 300'001};

  static bool lends(const Communicator& comm) {
    const auto memory = GetParam().memory;
    return memory == Memory::shared_heap || (memory == Memory::mixed && comm.rank() % 2 == 0);
  }
  static CallMode mode(const Communicator& comm) {
    return lends(comm) ? CallMode::blocking : CallMode::nonblocking;
  }
  static Data data(Communicator& comm, const Bytestring& content) {
    return Data(comm, lends(comm), content);
  }
  static void expect_done(const OperationFuture& pending) {
    const auto done = pending.wait();
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  void check_all_reduce(std::size_t count, DataType type, ReduceOp op) {
    const auto expected =
        fill(count, type, [&](std::size_t i) { return reduced(group.size(), i, op, type); });
    group.run([&](Communicator& comm) {
      auto buffer =
          data(comm, fill(count, type, [&](std::size_t i) { return share(comm.rank(), i); }));
      expect_done(comm.all_reduce(buffer.span(), type, op, mode(comm)));
      EXPECT_TRUE(buffer == expected) << text(type) << " " << text(op) << " " << count;
    });
  }

  void check_reduce(std::size_t count, DataType type, ReduceOp op, int root) {
    const auto expected =
        fill(count, type, [&](std::size_t i) { return reduced(group.size(), i, op, type); });
    group.run([&](Communicator& comm) {
      const auto own = fill(count, type, [&](std::size_t i) { return share(comm.rank(), i); });
      auto buffer = data(comm, own);
      expect_done(comm.reduce(buffer.span(), type, op, root, mode(comm)));
      EXPECT_TRUE(buffer == (comm.rank() == root ? expected : own)) << text(type) << " " << count;
    });
  }

  void check_reduce_scatter(std::size_t count, DataType type, ReduceOp op) {
    const auto n = static_cast<std::size_t>(group.size());
    const auto all =
        fill(count * n, type, [&](std::size_t i) { return reduced(group.size(), i, op, type); });
    group.run([&](Communicator& comm) {
      auto input =
          data(comm, fill(count * n, type, [&](std::size_t i) { return share(comm.rank(), i); }));
      auto output = data(comm, Bytestring(count * size_of(type)));
      expect_done(comm.reduce_scatter(input.span(), output.span(), type, op, mode(comm)));
      const auto block = output.span().size();
      EXPECT_TRUE(output ==
                  std::span(all).subspan(static_cast<std::size_t>(comm.rank()) * block, block))
          << text(type) << " " << text(op) << " " << count;
    });
  }

  // Byte i of the block that rank `from` has for rank `to`.
  static Bytestring block(std::size_t size, int from, int to) {
    return fill(size, DataType::uint8, [&](std::size_t i) {
      return static_cast<double>((i + static_cast<std::size_t>(from * 17 + to * 5)) % 251);
    });
  }
  template <class Block>
  static Bytestring joined(int count, Block block_of) {
    Bytestring all;
    for (int i = 0; i < count; ++i) {
      const auto one = block_of(i);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  // Each root is tried with small data, one with all sizes.
  template <class Body>
  void for_each_root(Body body) {
    for (const auto size : kSizes)
      for (int root = 0; root < group.size(); ++root)
        if (size <= 1000 || root == group.size() - 1) body(size, root);
  }

  ThreadGroup group;
};

TEST_P(Collectives, AllReduceOfEverySizeEqualsTheSerialAnswer) {
  for (const auto size : kSizes) check_all_reduce(size, DataType::float32, ReduceOp::sum);
}

TEST_P(Collectives, AllReduceOfEveryTypeAndReductionEqualsTheSerialAnswer) {
  for (const auto type : kReducedTypes)
    for (const auto op : kReduceOps)
      for (const std::size_t size : {17u, 20'003u})  // the algorithms for little and for much
        if (is_tried(op, type)) check_all_reduce(size, type, op);
}

TEST_P(Collectives, ReduceOfEverySizeEqualsTheSerialAnswerAndLeavesTheOthersBuffersAlone) {
  for_each_root([&](std::size_t size, int root) {
    check_reduce(size, DataType::float32, ReduceOp::average, root);
  });
}

TEST_P(Collectives, ReduceScatterOfEverySizeEqualsTheSerialAnswer) {
  for (const auto size : kSizes)
    if (size < 100'000) check_reduce_scatter(size, DataType::float64, ReduceOp::sum);
}

TEST_P(Collectives, ReduceScatterOfEveryTypeAndReductionEqualsTheSerialAnswer) {
  for (const auto type : kReducedTypes)
    for (const auto op : kReduceOps)
      for (const std::size_t size : {17u, 9001u})
        if (is_tried(op, type)) check_reduce_scatter(size, type, op);
}

TEST_P(Collectives, AllGatherPutsEveryBlockInItsPlace) {
  for (const auto size : kSizes) {
    const auto expected = joined(group.size(), [&](int from) { return block(size, from, 0); });
    group.run([&](Communicator& comm) {
      auto input = data(comm, block(size, comm.rank(), 0));
      auto output = data(comm, Bytestring(expected.size()));
      expect_done(comm.all_gather(input.span(), output.span(), mode(comm)));
      EXPECT_TRUE(output == expected) << size;
      // In place: the input is the own block of the output.
      auto in_place = data(comm, Bytestring(expected.size()));
      const auto own = in_place.span().subspan(static_cast<std::size_t>(comm.rank()) * size, size);
      std::copy(input.span().begin(), input.span().end(), own.begin());
      expect_done(comm.all_gather(own, in_place.span(), mode(comm)));
      EXPECT_TRUE(in_place == expected) << size;
    });
  }
}

TEST_P(Collectives, BroadcastFromEveryRootReachesAll) {
  for_each_root([&](std::size_t size, int root) {
    const auto expected = block(size, root, 0);
    group.run([&](Communicator& comm) {
      auto buffer = data(comm, comm.rank() == root ? expected : Bytestring(size));
      expect_done(comm.broadcast(buffer.span(), root, mode(comm)));
      EXPECT_TRUE(buffer == expected) << size << " from " << root;
    });
  });
}

TEST_P(Collectives, GatherBringsEveryBlockToTheRoot) {
  for_each_root([&](std::size_t size, int root) {
    const auto expected = joined(group.size(), [&](int from) { return block(size, from, root); });
    group.run([&](Communicator& comm) {
      auto input = data(comm, block(size, comm.rank(), root));
      auto output = data(comm, Bytestring(comm.rank() == root ? expected.size() : 0));
      expect_done(comm.gather(input.span(), output.span(), root, mode(comm)));
      EXPECT_TRUE(comm.rank() != root || output == expected) << size << " to " << root;
    });
  });
}

TEST_P(Collectives, ScatterBringsEveryRankItsBlock) {
  for_each_root([&](std::size_t size, int root) {
    const auto all = joined(group.size(), [&](int to) { return block(size, root, to); });
    group.run([&](Communicator& comm) {
      auto input = data(comm, comm.rank() == root ? all : Bytestring());
      auto output = data(comm, Bytestring(size));
      expect_done(comm.scatter(input.span(), output.span(), root, mode(comm)));
      EXPECT_TRUE(output == block(size, root, comm.rank())) << size << " from " << root;
    });
  });
}

TEST_P(Collectives, AllToAllBringsEveryBlockFromEverybodyToEverybody) {
  for (const auto size : kSizes) {
    if (size > 100'000) continue;
    group.run([&](Communicator& comm) {
      const auto out = joined(comm.size(), [&](int to) { return block(size, comm.rank(), to); });
      const auto in = joined(comm.size(), [&](int from) { return block(size, from, comm.rank()); });
      auto input = data(comm, out), output = data(comm, Bytestring(in.size()));
      expect_done(comm.all_to_all(input.span(), output.span(), mode(comm)));
      EXPECT_TRUE(output == in) << size;
    });
  }
}

TEST_P(Collectives, NobodyLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int> entered = 0;
  for (int round = 1; round <= 20; ++round)
    group.run([&](Communicator& comm) {
      ++entered;
      EXPECT_TRUE(comm.barrier(mode(comm)).wait().has_value());
      EXPECT_GE(entered.load(), round * comm.size());
    });
}

TEST_P(Collectives, AllRanksGetTheSameBitsAndGetThemAgain) {
  constexpr std::size_t kCount = 40'000;
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::vector<std::uint32_t>> results(2 * ranks);  // bit patterns
  for (std::size_t again = 0; again < 2; ++again)
    group.run([&](Communicator& comm) {
      Random random(static_cast<std::uint64_t>(comm.rank()));
      std::vector<float> values(kCount);
      for (auto& value : values) value = static_cast<float>(random.uniform() - 0.5);
      ASSERT_TRUE(comm.all_reduce(bytes_of(values), DataType::float32, ReduceOp::sum).wait());
      auto& bits = results[again * ranks + static_cast<std::size_t>(comm.rank())];
      for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    });
  for (const auto& result : results) EXPECT_TRUE(result == results[0]);
}

TEST_P(Collectives, ManyInFlightFinishInOrder) {
  group.run([&](Communicator& comm) {
    constexpr int kCalls = 200;
    std::vector<std::vector<std::int64_t>> buffers;
    for (int i = 0; i < kCalls; ++i)
      buffers.emplace_back(static_cast<std::size_t>(i * 5 % 97), comm.rank() + i);
    std::vector<OperationFuture> pending;
    for (auto& buffer : buffers)
      pending.push_back(comm.all_reduce(bytes_of(buffer), DataType::int64, ReduceOp::sum));
    const int n = comm.size();
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(pending[static_cast<std::size_t>(i)].wait().has_value());
      for (const auto value : buffers[static_cast<std::size_t>(i)])
        ASSERT_EQ(value, n * (n - 1) / 2 + n * i);
    }
  });
}

// Also the case of two ranks that both send 64 MiB before they receive, at a smaller size.
TEST_P(Collectives, AllSendToAllBeforeTheyReceive) {
  for (const std::size_t count : {0u, 5u, 4096u, 4097u, 1u << 20}) {
    if (count > 5000 && group.size() > 4) continue;
    group.run([&](Communicator& comm) {
      const auto n = static_cast<std::size_t>(comm.size());
      std::vector<Bytestring> out(n), in(n);
      std::vector<OperationFuture> sends, receives;
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        auto& buffer = out[static_cast<std::size_t>(peer)];
        buffer.assign(count, static_cast<std::byte>(comm.rank() * 16 + peer));
        sends.push_back(comm.send(buffer, peer, 7));
      }
      for (int peer = 0; peer < comm.size(); ++peer) {
        if (peer == comm.rank()) continue;
        auto& buffer = in[static_cast<std::size_t>(peer)];
        buffer.resize(count);
        receives.push_back(comm.recv(buffer, peer, 7));
      }
      for (const auto& pending : sends) ASSERT_TRUE(pending.wait().has_value());
      for (const auto& pending : receives) ASSERT_TRUE(pending.wait().has_value());
      for (int peer = 0; peer < comm.size(); ++peer) {
        const auto& buffer = in[static_cast<std::size_t>(peer)];
        ASSERT_TRUE(buffer == Bytestring(buffer.size(), std::byte(peer * 16 + comm.rank())));
      }
    });
  }
}

// This size uses non-temporal stores.
TEST(MoreThanTheCacheHolds, IsMovedAndReducedInLentMemory) {
  constexpr std::int32_t kBlock = 1 << 20;
  constexpr std::size_t kBlockBytes = sizeof(std::int32_t) * kBlock;
  ThreadGroup group(one_host(3));
  group.run([](Communicator& comm) {
    const int ranks = comm.size(), own = comm.rank(), whole = ranks * kBlock;
    const auto size = Bytes(std::int64_t{4} * whole);
    auto first = comm.allocate(size).value(), second = comm.allocate(size).value();
    const auto* const seen = reinterpret_cast<const std::int32_t*>(second.data());
    const auto put_numbers = [](Buffer& buffer, int from, int count, int value) {
      auto* const places = reinterpret_cast<std::int32_t*>(buffer.data()) + from;
      std::iota(places, places + count, value);
    };
    const auto expect_done = [](const OperationFuture& pending) { ASSERT_TRUE(pending.wait()); };
    const auto block =
        second.span().subspan(static_cast<std::size_t>(own) * kBlockBytes, kBlockBytes);

    put_numbers(second, own * kBlock, kBlock, own * kBlock);
    expect_done(comm.all_gather(block, second.span()));
    for (int i = 0; i < whole; ++i) ASSERT_EQ(seen[i], i);

    put_numbers(second, 0, whole, own == 1 ? 5 : 0);
    expect_done(comm.broadcast(second.span(), 1));
    for (int i = 0; i < whole; ++i) ASSERT_EQ(seen[i], i + 5);

    put_numbers(first, 0, whole, 0);
    expect_done(comm.reduce_scatter(first.span(), block, DataType::int32, ReduceOp::sum));
    for (int i = own * kBlock; i < (own + 1) * kBlock; ++i) ASSERT_EQ(seen[i], ranks * i);

    put_numbers(first, 0, whole, own);
    expect_done(comm.all_to_all(first.span(), second.span()));
    for (int i = 0; i < whole; ++i) ASSERT_EQ(seen[i], i % kBlock + own * kBlock + i / kBlock);
  });
}

// comm/algorithm tests in memory that algorithms are right. This test runs them over real links.
TEST(ForcedAlgorithms, EqualTheSerialAnswer) {
  for (const auto* algorithm : {"recursive_doubling", "halving_doubling,hierarchical",
                                "double_tree", "double_tree,hierarchical"}) {
    auto options = two_hosts(5);
    options.algorithm = algorithm;
    ThreadGroup group(options);
    for (const std::size_t count : {1u, 1000u, 300'001u}) {
      const auto type = DataType::float32;
      const auto expected = fill(count, type, [&](std::size_t i) {
        return reduced(group.size(), i, ReduceOp::sum, type);
      });
      group.run([&](Communicator& comm) {
        auto buffer = fill(count, type, [&](std::size_t i) { return share(comm.rank(), i); });
        ASSERT_TRUE(comm.all_reduce(buffer, type, ReduceOp::sum).wait().has_value());
        EXPECT_TRUE(buffer == expected) << algorithm << " " << count;
        ASSERT_TRUE(comm.broadcast(buffer, 3).wait().has_value());
        EXPECT_TRUE(buffer == expected) << algorithm << " " << count;
      });
    }
  }
}

// Rank 2 waits for rank 0's block, and rank 0 waits for rank 2 in the memory of their host.
TEST(Mismatches, AreFoundThoughRanksWaitForEachOther) {
  ThreadGroup group(two_hosts(4));
  group.run([](Communicator& comm) {
    Bytestring buffer(100'000), blocks(400'000);
    const auto pending = comm.rank() == 2
                             ? comm.gather(buffer, blocks, 2)
                             : comm.all_reduce(buffer, DataType::float32, ReduceOp::sum);
    const auto done = pending.wait();
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, Code::invalid) << done.error().message;
    EXPECT_NE(done.error().message.find("the ranks' calls do not match"), std::string::npos)
        << done.error().message;
  });
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* transports[] = {"shm", "tcp", "mixed"};
  const char* memories[] = {"", "_lent", "_some_lent"};
  return transports[static_cast<int>(info.param.transport)] + std::to_string(info.param.ranks) +
         memories[static_cast<int>(info.param.memory)];
}

INSTANTIATE_TEST_SUITE_P(
    All, Collectives,
    testing::Values(
        Case{Transport::shm, 1}, Case{Transport::shm, 2}, Case{Transport::shm, 3},
        Case{Transport::shm, 4}, Case{Transport::shm, 6}, Case{Transport::shm, 7},
        Case{Transport::shm, 8}, Case{Transport::tcp, 2}, Case{Transport::tcp, 5},
        Case{Transport::mixed, 4}, Case{Transport::mixed, 6, Memory::mixed},
        Case{Transport::mixed, 6, Memory::shared_heap},
        Case{Transport::shm, 1, Memory::shared_heap}, Case{Transport::shm, 2, Memory::shared_heap},
        Case{Transport::shm, 3, Memory::shared_heap}, Case{Transport::shm, 4, Memory::shared_heap},
        Case{Transport::shm, 5, Memory::shared_heap}, Case{Transport::shm, 9, Memory::shared_heap},
        Case{Transport::tcp, 3, Memory::shared_heap},
        Case{Transport::mixed, 5, Memory::shared_heap}, Case{Transport::shm, 2, Memory::mixed},
        Case{Transport::shm, 5, Memory::mixed}, Case{Transport::tcp, 2, Memory::mixed}),
    name_of);

}  // namespace
}  // namespace lockstep::comm
