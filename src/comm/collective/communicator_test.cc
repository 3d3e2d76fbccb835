// The calls that a communicator refuses, and its behaviour in edge cases.
#include "comm/collective/thread_group_for_test.h"
#include "comm/group/fault.h"

namespace lockstep::comm {
namespace {

using namespace testing_groups;
using namespace std::chrono_literals;

template <class Pendings>
void expect_invalid(const Pendings& pending, const std::string& words) {
  auto result = pending.wait();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::invalid);
  EXPECT_NE(result.error().message.find(words), std::string::npos) << result.error().message;
}

TEST(Communicator, BadArgumentsAreRefusedAndLeaveItUsable) {
  ThreadGroup group(one_host(2));
  std::vector<std::byte> seven(7), eight(8);
  auto& comm = group[0];
  expect_invalid(comm.all_reduce(seven, DataType::int32, ReduceOp::sum), "int32");
  expect_invalid(comm.all_reduce(eight, DataType::int64, ReduceOp::average), "average of int64");
  expect_invalid(comm.reduce_scatter(seven, eight, DataType::uint8, ReduceOp::sum), "2 blocks");
  expect_invalid(comm.all_gather(eight, eight), "2 blocks");
  expect_invalid(comm.broadcast(eight, 2), "root 2");
  expect_invalid(comm.send(eight, 0, 1), "rank 0");
  expect_invalid(comm.recv(eight, 1, -1), "tag");
  int source = 0;
  expect_invalid(comm.recv_from_any(eight, -1, source), "tag");
  group.run([](Communicator& one) { EXPECT_TRUE(one.barrier().wait().has_value()); });
}

TEST(Communicator, BadOptionsAreRefused) {
  LocalRendezvous place;
  const auto secret = net::Secret::random();
  EXPECT_FALSE(Communicator::create({.rank = 2, .size = 2, .secret = secret}, place).has_value());
  EXPECT_FALSE(Communicator::create({.secret = secret, .group = ""}, place).has_value());
  EXPECT_FALSE(Communicator::create({.secret = secret, .timeout = 0us}, place).has_value());
}

TEST(Communicator, ARankThatNeverComesIsNamedAtTheTimeOut) {
  LocalRendezvous place;
  auto comm = Communicator::create({.rank = 0,
                                    .size = 2,
                                    .secret = net::Secret::random(),
                                    .timeout = 100ms,
                                    .network = {.address = "127.0.0.1"}},
                                   place);
  ASSERT_FALSE(comm.has_value());
  EXPECT_EQ(comm.error().code, Code::timeout);
  EXPECT_NE(comm.error().message.find("for rank 1"), std::string::npos) << comm.error().message;
}

// Reads what rank 0 has published, for a rank that must publish nothing itself.
class ReadOnlyRendezvous : public Rendezvous {
 public:
  explicit ReadOnlyRendezvous(Rendezvous& place) : inner_(place) {}
  Result<void> set(std::string_view, std::string_view) override { return {}; }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    return inner_.get(key, deadline);
  }

 private:
  Rendezvous& inner_;
};

TEST(Communicator, AWrongSecretIsRefusedAndTheOthersMeet) {
  LocalRendezvous place;
  const auto options = [](int rank, const net::Secret& secret) -> CommunicatorOptions {
    return {.rank = rank,
            .size = 2,
            .host_id = "a",
            .secret = secret,
            .timeout = 30s,
            .network = {.address = "127.0.0.1"}};
  };
  const auto secret = net::Secret::random();
  const auto live = [&](int rank) {
    const auto comm = Communicator::create(options(rank, secret), place);
    ASSERT_TRUE(comm.has_value()) << comm.error().message;
    EXPECT_TRUE((*comm)->barrier().wait().has_value());
  };
  std::thread other([&] { live(0); });
  ReadOnlyRendezvous listening(place);
  const auto stranger = Communicator::create(options(1, net::Secret::random()), listening);
  live(1);
  other.join();
  ASSERT_FALSE(stranger.has_value());
  EXPECT_EQ(stranger.error().code, Code::denied);
  EXPECT_NE(stranger.error().message.find("secret"), std::string::npos) << stranger.error().message;
}

// The reason for which rank 1 of a group of two is refused, as rank 0 is.
template <class OptionsOf>
Error refusal_of(OptionsOf options_of) {
  LocalRendezvous place;
  std::thread other([&] { EXPECT_FALSE(Communicator::create(options_of(0), place).has_value()); });
  const auto comm = Communicator::create(options_of(1), place);
  other.join();
  EXPECT_FALSE(comm.has_value());
  return comm ? Error{} : comm.error();
}

TEST(Communicator, AnUnknownProviderIsNamed) {
  const auto refusal =
      refusal_of([secret = net::Secret::random()](int rank) -> CommunicatorOptions {
        return {.rank = rank,
                .size = 2,
                .host_id = std::to_string(rank),
                .secret = secret,
                .timeout = 2s,
                .network = {.provider = "carrier-pigeon", .address = "127.0.0.1"}};
      });
  EXPECT_NE(refusal.message.find("carrier-pigeon"), std::string::npos) << refusal.message;
}

TEST(Communicator, AnUnknownAlgorithmIsRefusedWithTheNamesThereAre) {
  LocalRendezvous place;
  auto comm = Communicator::create({.secret = net::Secret::random(), .algorithm = "rings"}, place);
  ASSERT_FALSE(comm.has_value());
  EXPECT_NE(comm.error().message.find("'rings'; there are flat, ring, "), std::string::npos)
      << comm.error().message;
}

TEST(Communicator, AllRanksTakeTheCostsOfRankZero) {
  LocalRendezvous place;
  const auto secret = net::Secret::random();
  std::vector<double> reductions(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const auto comm = Communicator::create({.rank = rank,
                                              .size = 3,
                                              .host_id = "a",
                                              .secret = secret,
                                              .timeout = 30s,
                                              .network = {.address = "127.0.0.1"},
                                              .costs = Costs{.reduction = 1e-9 * (rank + 1)}},
                                             place);
      ASSERT_TRUE(comm) << comm.error().message;
      reductions[static_cast<std::size_t>(rank)] = (*comm)->costs().reduction;
      EXPECT_TRUE((*comm)->barrier().wait());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(reductions, (std::vector<double>{1e-9, 1e-9, 1e-9}));
}

TEST(Communicator, WhatCollectivesSendToOtherHostsIsCounted) {
  constexpr std::size_t kBytes = 64 * 1024;
  auto options = two_hosts(4);
  options.algorithm = "ring,hierarchical";
  ThreadGroup group(options);
  std::atomic<std::uint64_t> sent = 0;
  group.run([&](Communicator& communicator) {
    std::vector<float> values(kBytes / sizeof(float));
    ASSERT_TRUE(communicator.all_reduce(bytes_of(values), DataType::float32, ReduceOp::sum).wait());
    sent += communicator.wire_bytes();
  });
  EXPECT_EQ(sent, 2 * kBytes);  // 2 (H - 1) / H of the buffer by each of two hosts
}

TEST(Communicator, CallsAreCarriedOutAsWasTunedForTheirSize) {
  constexpr std::size_t kBytes = 64 * 1024;
  auto options = two_hosts(4);
  options.costs = Costs{};
  options.costs->tuned = {{"all_reduce", 2, 4, 64_KiB, "ring"},
                          {"all_reduce", 2, 4, 1_MiB, "ring,hierarchical"}};
  ThreadGroup group(options);
  std::atomic<std::uint64_t> sent_flat = 0, sent_in_all = 0;
  group.run([&](Communicator& communicator) {
    std::vector<float> values(2 * kBytes / sizeof(float));
    const auto all = bytes_of(values);
    const auto sum = [&](std::span<std::byte> part) {
      return communicator.all_reduce(part, DataType::float32, ReduceOp::sum).wait();
    };
    ASSERT_TRUE(sum(all.first(kBytes)));
    sent_flat += communicator.wire_bytes();
    ASSERT_TRUE(sum(all));
    sent_in_all += communicator.wire_bytes();
  });
  EXPECT_EQ(sent_flat, 3 * kBytes);  // 2 (n - 1) / n of the buffer by one rank of each host
  EXPECT_EQ(sent_in_all - sent_flat, 2 * 2 * kBytes);
}

TEST(Communicator, ATuningForAnAlgorithmThatThereIsNotIsRefusedByName) {
  LocalRendezvous place;
  CommunicatorOptions options{.size = 2, .secret = net::Secret::random(), .costs = Costs{}};
  options.costs->tuned = {{"all_reduce", 2, 2, 64_KiB, "rings"}};
  const auto comm = Communicator::create(std::move(options), place);
  ASSERT_FALSE(comm.has_value());
  EXPECT_TRUE(comm.error().message.starts_with("LOCKSTEP_COSTS: what was tuned for all_reduce"))
      << comm.error().message;
}

TEST(Communicator, RanksThatForceDifferentAlgorithmsAreNamedWhenTheyMeet) {
  LocalRendezvous place;
  const auto secret = net::Secret::random();
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      auto comm = Communicator::create({.rank = rank,
                                        .size = 3,
                                        .host_id = "a",
                                        .secret = secret,
                                        .timeout = 30s,
                                        .network = {.address = "127.0.0.1"},
                                        .algorithm = rank == 1 ? "ring" : "double_tree"},
                                       place);
      const auto done = comm ? (*comm)->barrier().wait() : Result<void>(comm.error());
      if (!done) errors[static_cast<std::size_t>(rank)] = done.error().message;
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    EXPECT_NE(error.find("rank 0 has the algorithm double_tree, rank 1 has ring: set "
                         "LOCKSTEP_ALGORITHM alike on all ranks"),
              std::string::npos)
        << error;
}

TEST(Communicator, TagsMatchInAnyOrderAndEachTagInOrder) {
  for (const auto& options : {one_host(2), a_host_each(2)}) {
    ThreadGroup group(options);
    group.run([](Communicator& comm) {
      std::vector<std::vector<std::byte>> buffers;
      std::vector<OperationFuture> pending;
      const std::size_t sizes[] = {10, 100'000, 10, 100'000};
      for (std::size_t i = 0; i < 4; ++i)
        buffers.emplace_back(sizes[i], static_cast<std::byte>(comm.rank() == 0 ? i + 1 : 0));
      if (comm.rank() == 0) {
        for (std::size_t i = 0; i < 4; ++i)
          pending.push_back(comm.send(buffers[i], 1, static_cast<int>(i / 2)));
      } else {
        for (const std::size_t i : {2u, 3u, 0u, 1u})
          pending.push_back(comm.recv(buffers[i], 0, static_cast<int>(i / 2)));
      }
      for (const auto& one : pending) ASSERT_TRUE(one.wait().has_value());
      for (std::size_t i = 0; i < 4; ++i)
        EXPECT_EQ(buffers[i].back(), static_cast<std::byte>(i + 1));
    });
  }
}

TEST(Communicator, ARecvFromAnyTakesTheFirstOfItsTagFromWhomeverItComes) {
  for (const auto& options : {one_host(3), a_host_each(3)}) {
    ThreadGroup group(options);
    group.run([](Communicator& comm) {
      for (const int tag : {7, 8}) {  // with data that comes with the offer, and after it
        const std::size_t size = tag == 7 ? 1 : 100'000;
        std::vector<std::byte> buffer(size, static_cast<std::byte>(comm.rank()));
        if (comm.rank() > 0) {
          ASSERT_TRUE(comm.send(buffer, 0, tag).wait().has_value());
          continue;
        }
        int first = -1, second = -1;
        std::vector<std::byte> other(size);
        auto one = comm.recv_from_any(buffer, tag, first);
        auto two = comm.recv_from_any(other, tag, second);
        ASSERT_TRUE(one.wait().has_value());
        ASSERT_TRUE(two.wait().has_value());
        EXPECT_EQ(first + second, 3);
        EXPECT_EQ(buffer.back(), static_cast<std::byte>(first));
        EXPECT_EQ(other.back(), static_cast<std::byte>(second));
      }
    });
  }
}

TEST(Communicator, ARecvFromAnyAndOneFromAPeerMatchInTheOrderInWhichTheyWerePosted) {
  ThreadGroup group(one_host(2));
  group.run([](Communicator& comm) {
    std::vector<std::vector<std::byte>> buffers;
    for (int i = 0; i < 4; ++i) buffers.emplace_back(10, static_cast<std::byte>(i));
    if (comm.rank() == 1) {
      ASSERT_TRUE(comm.recv({}, 0, 0).wait().has_value());  // all are posted
      for (const auto& buffer : buffers) ASSERT_TRUE(comm.send(buffer, 0, 3).wait().has_value());
      return;
    }
    int sources[2] = {-1, -1};
    const std::vector<OperationFuture> pending = {
        comm.recv(buffers[0], 1, 3), comm.recv_from_any(buffers[1], 3, sources[0]),
        comm.recv(buffers[2], 1, 3), comm.recv_from_any(buffers[3], 3, sources[1])};
    ASSERT_TRUE(comm.send({}, 1, 0).wait().has_value());
    for (const auto& one : pending) ASSERT_TRUE(one.wait().has_value());
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(buffers[i].back(), static_cast<std::byte>(i));
    EXPECT_EQ(sources[0] + sources[1], 2);
  });
}

TEST(Communicator, ARecvFromAnyEndsWhenAllOthersHaveLeft) {
  ThreadGroup group(one_host(3));
  std::vector<std::byte> buffer(8);
  int source = -1;
  auto pending = group[0].recv_from_any(buffer, 1, source);
  group.drop(1);
  EXPECT_FALSE(pending.done());
  group.drop(2);
  const auto result = pending.wait();
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("all other ranks left the group"), std::string::npos)
      << result.error().message;
}

TEST(Communicator, TooManySendsAndReceivesAreRefusedAndLeaveItUsable) {
  ThreadGroup group(one_host(2));
  std::vector<OperationFuture> pending;
  for (std::size_t i = 0; i < 65'536; ++i) pending.push_back(group[0].recv({}, 1, 1));
  const auto refused = group[0].recv({}, 1, 1).wait();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::exhausted);
  EXPECT_NE(refused.error().message.find("wait for some"), std::string::npos)
      << refused.error().message;
  group.run([](Communicator& comm) { EXPECT_TRUE(comm.barrier().wait().has_value()); });
}

TEST(Communicator, MoreSendsThanTheWindowWaitTheirTurn) {
  ThreadGroup group(one_host(2));
  group.run([](Communicator& comm) {
    std::vector<std::int32_t> values(2000);
    std::vector<OperationFuture> pending;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto element = std::as_writable_bytes(std::span(values).subspan(i, 1));
      if (comm.rank() == 0) values[i] = static_cast<std::int32_t>(i);
      pending.push_back(comm.rank() == 0 ? comm.send(element, 1, 0) : comm.recv(element, 0, 0));
    }
    for (const auto& one : pending) ASSERT_TRUE(one.wait().has_value());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], static_cast<std::int32_t>(i));
  });
}

TEST(Communicator, SendsGoOnWhileACollectiveWaits) {
  ThreadGroup group(one_host(3));
  group.run([](Communicator& comm) {
    std::vector<std::byte> buffer(200'000);
    auto barrier = comm.rank() == 2 ? OperationFuture::completed({}) : comm.barrier();
    if (comm.rank() == 0) {
      EXPECT_TRUE(comm.send(buffer, 1, 0).wait().has_value());
    }
    if (comm.rank() == 1) {
      EXPECT_TRUE(comm.recv(buffer, 0, 0).wait().has_value());
      EXPECT_FALSE(barrier.done());
      EXPECT_TRUE(comm.send({}, 2, 0).wait().has_value());
    }
    if (comm.rank() == 2) {
      EXPECT_TRUE(comm.recv({}, 1, 0).wait().has_value());
      barrier = comm.barrier();
    }
    EXPECT_TRUE(barrier.wait().has_value());
  });
}

TEST(Communicator, SizesThatDifferBetweenSendAndRecvAreNamed) {
  ThreadGroup group(one_host(2));
  group.run([](Communicator& comm) {
    std::vector<std::byte> buffer(comm.rank() == 0 ? 64 : 128);
    auto result = comm.rank() == 0 ? comm.recv(buffer, 1, 3).wait()
                                   : (comm.send(buffer, 0, 3), comm.barrier()).wait();
    ASSERT_FALSE(result.has_value());
    EXPECT_NE(
        result.error().message.find("receives 64 bytes with tag 3 from rank 1, which sends 128"),
        std::string::npos)
        << result.error().message;
  });
}

TEST(Communicator, ACallbackComesOnceAndMaySubmit) {
  ThreadGroup group(one_host(2));
  group.run([](Communicator& comm) {
    std::atomic<int> calls = 0;
    const OperationPromise chained;
    comm.barrier().on_done([&](const Result<void>& first) {
      EXPECT_TRUE(first.has_value());
      ++calls;
      comm.barrier().on_done([&](const Result<void>& second) { chained.complete(second); });
    });
    EXPECT_TRUE(chained.future().wait().has_value());
    OperationFuture::completed({}).on_done([&](const Result<void>&) { ++calls; });
    EXPECT_EQ(calls.load(), 2);
  });
}

TEST(Communicator, DestructionEndsWhatIsPending) {
  ThreadGroup group(one_host(2));
  std::vector<float> first(100'000), second(100'000);
  auto pending = group[0].all_reduce(bytes_of(first), DataType::float32, ReduceOp::sum);
  group.drop(0);
  auto result = pending.wait();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::cancelled);
  auto left = group[1].all_reduce(bytes_of(second), DataType::float32, ReduceOp::sum).wait();
  ASSERT_FALSE(left.has_value());
  EXPECT_NE(left.error().message.find("left the group"), std::string::npos) << left.error().message;
}

TEST(Communicator, TwoGroupsOfTheSameRanksDoNotMix) {
  LocalRendezvous place;
  const auto secret = net::Secret::random();
  const auto live = [&](int rank) {
    std::vector<std::unique_ptr<Communicator>> comms;
    for (const char* name : {"first", "second"})
      comms.push_back(Communicator::create({.rank = rank,
                                            .size = 2,
                                            .host_id = std::to_string(rank),
                                            .secret = secret,
                                            .group = name,
                                            .network = {.address = "127.0.0.1"}},
                                           place)
                          .value());
    std::vector<std::int32_t> a(5000, 1), b(5000, 10);
    // In another order on each rank: the groups are independent.
    auto first = [&] { return comms[0]->all_reduce(bytes_of(a), DataType::int32, ReduceOp::sum); };
    auto second = [&] { return comms[1]->all_reduce(bytes_of(b), DataType::int32, ReduceOp::sum); };
    auto one = rank == 0 ? first() : second();
    auto two = rank == 0 ? second() : first();
    EXPECT_TRUE(one.wait().has_value());
    EXPECT_TRUE(two.wait().has_value());
    EXPECT_EQ(a, std::vector<std::int32_t>(5000, 2));
    EXPECT_EQ(b, std::vector<std::int32_t>(5000, 20));
  };
  std::thread other([&] { live(1); });
  live(0);
  other.join();
}

TEST(Communicator, ErrorsNameRanksByTheirNumbersInTheRunAndTheGroupByWhatItIs) {
  LocalRendezvous place;
  const auto secret = net::Secret::random();
  const auto make = [&](int rank) {
    return Communicator::create({.rank = rank,
                                 .size = 2,
                                 .host_id = "a",
                                 .secret = secret,
                                 .group = "g1",
                                 .members = {"replicas of shard 1", {5, 7}},
                                 .timeout = std::chrono::milliseconds(300)},
                                place)
        .value();
  };
  std::unique_ptr<Communicator> late;
  std::thread other([&] { late = make(1); });
  const auto comm = make(0);
  other.join();
  const auto message = comm->barrier().wait().error().message;
  for (const auto* part :
       {"rank 5 is at #1 barrier; rank 7 has not entered #1 barrier", "for rank 7 (host a",
        "rank 5 was in barrier #1", "of replicas of shard 1: ranks 5, 7"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  EXPECT_EQ(message.find("g1"), std::string::npos) << message;
}

// A rank, for example 7, was lost in another group. The ranks of this group learn that, and do not
// blame the rank that leaves.
TEST(Communicator, ARankThatLeavesBecauseOfAnotherGroupsFaultNamesTheRankAtFaultThere) {
  ThreadGroup group(one_host(2));
  std::vector<int> at_fault;
  set_fault_listener([&](const GroupFault& fault) { at_fault.push_back(fault.rank); });
  notify_fault_listener({GroupFault::Kind::timed_out, 7, "rank 7 is at fault"});
  group.drop(1);
  const auto error = group[0].barrier().wait().error();
  EXPECT_EQ(error.code, Code::timeout);
  EXPECT_TRUE(error.message.starts_with("rank 1 gave up: rank 7 is at fault")) << error.message;
  EXPECT_EQ(at_fault, (std::vector{7, 7})) << "as rank 1 was told, and as rank 0 tells";
  clear_faults();
  set_fault_listener({});
}

TEST(Communicator, AllocatedMemoryIsZeroedAndWritable) {
  ThreadGroup group(one_host(1));
  auto buffer = group[0].allocate(10_KiB).value();
  EXPECT_EQ(buffer.size(), 10_KiB);
  for (const auto byte : buffer.span()) ASSERT_EQ(byte, std::byte{0});
  buffer.data()[10239] = std::byte{1};
  EXPECT_TRUE(group[0].allocate(Bytes(0)).has_value());
  EXPECT_FALSE(group[0].allocate(Bytes(-1)).has_value());
}

}  // namespace
}  // namespace lockstep::comm
