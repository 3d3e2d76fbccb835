// Groups whose ranks connect on demand. Small ones, that do what large ones do: each of 12 ranks
// has 4 neighbours.
#include <algorithm>
#include <cstring>
#include <set>

#include <dirent.h>
#include <gtest/gtest.h>

#include "comm/collective/communicator.h"
#include "comm/collective/process_group_for_test.h"
#include "comm/collective/thread_group_for_test.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using namespace testing_groups;
using namespace testing_processes;

constexpr int kGroupRanks = 12;

class LargeGroup : public testing::TestWithParam<GroupOptions> {
 protected:
  static GroupOptions on_demand(std::string algorithm = {}) {
    auto options = GetParam();
    options.full_mesh_ranks = 1;
    options.algorithm = std::move(algorithm);
    return options;
  }
};

TEST_P(LargeGroup, CollectivesHaveTheirResultsByEachAlgorithm) {
  for (const auto* algorithm : {"", "ring", "double_tree"}) {
    SCOPED_TRACE(algorithm);
    ThreadGroup group(on_demand(algorithm));
    group.run([](Communicator& comm) {
      for (const std::size_t count : {1U, 100'000U}) {
        std::vector<std::int64_t> sums(count, comm.rank());
        ASSERT_TRUE(comm.all_reduce(bytes_of(sums), DataType::int64, ReduceOp::sum).wait());
        EXPECT_EQ(sums.back(), kGroupRanks * (kGroupRanks - 1) / 2);
      }
      std::vector<std::int64_t> all(kGroupRanks), own{comm.rank()};
      ASSERT_TRUE(comm.all_gather(bytes_of(own), bytes_of(all)).wait());
      EXPECT_EQ(all[5], 5);
      std::vector<std::int64_t> to_all(kGroupRanks, comm.rank()), from_all(kGroupRanks);
      ASSERT_TRUE(comm.all_to_all(bytes_of(to_all), bytes_of(from_all)).wait());
      EXPECT_EQ(from_all, all);
      for (const int root : {0, 7}) {
        std::vector<std::int64_t> value{comm.rank()};
        ASSERT_TRUE(comm.broadcast(bytes_of(value), root).wait());
        EXPECT_EQ(value[0], root);
      }
      ASSERT_TRUE(comm.barrier().wait());
    });
  }
}

TEST_P(LargeGroup, AnyRankSendsToAnyOther) {
  ThreadGroup group(on_demand());
  group.run([](Communicator& comm) {
    std::vector<std::vector<std::int64_t>> sent(kGroupRanks), received(kGroupRanks);
    std::vector<OperationFuture> calls;
    for (int peer = 0; peer < kGroupRanks; ++peer) {
      if (peer == comm.rank()) continue;
      const auto index = static_cast<std::size_t>(peer);
      sent[index].assign(1000, comm.rank());
      received[index].resize(1000);
      calls.push_back(comm.send(bytes_of(sent[index]), peer, 3));
      calls.push_back(comm.recv(bytes_of(received[index]), peer, 3));
    }
    for (auto& call : calls) ASSERT_TRUE(call.wait());
    for (int peer = 0; peer < kGroupRanks; ++peer)
      EXPECT_TRUE(peer == comm.rank() || received[static_cast<std::size_t>(peer)].back() == peer);
  });
}

// Rank 9 connects to rank 2, which is no neighbour of it and requests the connection through
// others.
TEST_P(LargeGroup, AnIdleRankMakesTheConnectionThatALowerOneWants) {
  ThreadGroup group(on_demand());
  std::vector<std::int64_t> sent(10, 7), received(10);
  auto receive = group[9].recv(bytes_of(received), 2, 1);
  ASSERT_TRUE(group[2].send(bytes_of(sent), 9, 1).wait());
  ASSERT_TRUE(receive.wait());
  EXPECT_EQ(received, sent);
}

INSTANTIATE_TEST_SUITE_P(Hosts, LargeGroup,
                         testing::Values(one_host(kGroupRanks), two_hosts(kGroupRanks),
                                         a_host_each(kGroupRanks)),
                         [](const auto& hosts) {
                           const std::set<std::string> ids(hosts.param.hosts.begin(),
                                                           hosts.param.hosts.end());
                           return "On" + std::to_string(ids.size());
                         });

std::vector<std::string> a_host_of_each(int ranks) { return a_host_each(ranks).hosts; }

class LargeGroupOfProcesses : public testing::TestWithParam<std::vector<std::string>> {};

// The errors of the others' later calls, which are the failure reason alone.
std::set<std::string> reasons_after_death(const std::vector<std::string>& hosts, int victim) {
  Ranks ranks(
      hosts, 60s,
      [victim](Ranks::Self self) {
        (void)self.comm.barrier().wait();
        write_line(self.report, "ready");
        auto pending = OperationFuture::completed({});
        if (self.comm.rank() != victim) pending = self.comm.barrier();
        if (self.comm.rank() == victim) read_line(self.orders, 60s);
        write_line(self.report, words(pending.wait()));
        write_line(self.report, words(self.comm.barrier().wait()));
      },
      1);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    EXPECT_EQ(ranks.report(rank), "met");
    EXPECT_EQ(ranks.report(rank), "ready");
  }
  ranks.signal(victim, SIGKILL);
  const auto bound = Deadline::after(10s);
  std::set<std::string> reasons;
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    if (rank == victim) continue;
    const auto error = ranks.report(rank);
    EXPECT_NE(error.find("peer_lost"), std::string::npos) << error;
    EXPECT_NE(error.find(format("rank {} (host", victim)), std::string::npos) << error;
    reasons.insert(ranks.report(rank));
  }
  EXPECT_GT(bound.remaining(), 5s);
  return reasons;
}

TEST_P(LargeGroupOfProcesses, ADeathIsKnownToAllWithinSecondsInOneSentence) {
  const auto reasons = reasons_after_death(GetParam(), 5);
  EXPECT_EQ(reasons.size(), 1U) << testing::PrintToString(reasons);
}

TEST_P(LargeGroupOfProcesses, TheDeathOfTheRankThatDecidesFirstIsKnownInOneSentenceToo) {
  const auto reasons = reasons_after_death(GetParam(), 0);
  EXPECT_EQ(reasons.size(), 1U) << testing::PrintToString(reasons);
}

TEST_P(LargeGroupOfProcesses, TheDeathsOfAHostsRanksAtOnceHaveOneSentence) {
  Ranks ranks(
      GetParam(), 60s,
      [](Ranks::Self self) {
        (void)self.comm.barrier().wait();
        write_line(self.report, "ready");
        if (self.comm.rank() < 3) read_line(self.orders, 60s);
        (void)self.comm.barrier().wait();
        write_line(self.report, words(self.comm.barrier().wait()));
      },
      1);
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    ASSERT_EQ(ranks.report(rank), "ready");
  }
  for (const int victim : {0, 1, 2}) ranks.signal(victim, SIGKILL);
  std::set<std::string> reasons;
  for (int rank = 3; rank < kGroupRanks; ++rank) reasons.insert(ranks.report(rank));
  EXPECT_EQ(reasons.size(), 1U) << testing::PrintToString(reasons);
}

TEST_P(LargeGroupOfProcesses, OnATimeOutAllNameTheLateRankInOneSentence) {
  Ranks ranks(
      GetParam(), 2s,
      [](Ranks::Self self) {
        (void)self.comm.barrier().wait();
        if (self.comm.rank() != 5) (void)self.comm.barrier().wait();
        if (self.comm.rank() == 5) read_line(self.orders, 60s);
        write_line(self.report, words(self.comm.barrier().wait()));
      },
      1);
  for (int rank = 0; rank < kGroupRanks; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  std::set<std::string> later;
  for (int rank = 0; rank < kGroupRanks; ++rank)
    if (rank != 5) later.insert(ranks.report(rank));
  ASSERT_EQ(later.size(), 1U) << testing::PrintToString(later);
  EXPECT_NE(later.begin()->find("timeout"), std::string::npos) << *later.begin();
  EXPECT_NE(later.begin()->find("rank 5 has not entered"), std::string::npos) << *later.begin();
}

TEST_P(LargeGroupOfProcesses, AnAbortEndsTheCallsOfAll) {
  Ranks ranks(
      GetParam(), 60s,
      [](Ranks::Self self) {
        (void)self.comm.barrier().wait();  // all have met
        if (self.comm.rank() == 5) self.comm.abort({Code::invalid, "the data are wrong"});
        write_line(self.report, words(self.comm.barrier().wait()));
      },
      1);
  for (int rank = 0; rank < kGroupRanks; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (int rank = 0; rank < kGroupRanks; ++rank) {
    const auto error = ranks.report(rank);
    EXPECT_NE(error.find("the data are wrong"), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, LargeGroupOfProcesses,
                         testing::Values(one_host(kGroupRanks).hosts, a_host_of_each(kGroupRanks)),
                         [](const auto& hosts) {
                           return hosts.param[0] == hosts.param[1] ? "One" : "Twelve";
                         });

int open_descriptors() {
  int count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (folder && ::readdir(folder.get()) != nullptr) ++count;
  return count - 3;  // ".", ".." and the folder's own
}

// As `./dev bench group` with 1,024 ranks. The forked children have this process's descriptors.
TEST(ManyProcesses, SixtyFourRanksMeetAndAllReduceWithFewDescriptors) {
  const int before = open_descriptors();
  constexpr int kMany = 64;
  Ranks ranks(
      std::vector<std::string>(kMany, "a"), 60s,
      [before](Ranks::Self self) {
        std::vector<std::int64_t> sum{1};
        const auto done =
            self.comm.all_reduce(bytes_of(sum), DataType::int64, ReduceOp::sum).wait();
        write_line(self.report, format("{} {}", words(done), sum[0]));
        write_line(self.report, std::to_string(open_descriptors() - before));
        (void)self.comm.barrier().wait();
      },
      1);
  for (int rank = 0; rank < kMany; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (int rank = 0; rank < kMany; ++rank) {
    EXPECT_EQ(ranks.report(rank), "ok 64");
    EXPECT_GT(std::stoi(ranks.report(rank)), 0);
  }
}

}  // namespace
}  // namespace lockstep::comm
