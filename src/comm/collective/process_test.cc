// The behaviour when processes die, stop or disagree. Ranks are forked children that report in
// lines over a pipe.
#include <functional>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "comm/collective/communicator.h"
#include "comm/collective/process_group_for_test.h"
#include "comm/fabric/cut_connections_for_test.h"
#include "comm/flight/label.h"
#include "comm/group/fault.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;
using namespace testing_processes;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The report that must be equal on all ranks: the error of a call that starts after the failure.
std::string later_words(Communicator& comm) { return words(comm.barrier().wait()); }

bool contains(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

const std::vector<std::string> kOneHost{"a", "a", "a"};
const std::vector<std::string> kThreeHosts{"a", "b", "c"};

std::vector<std::byte> zeros(std::size_t bytes) { return std::vector<std::byte>(bytes); }

// When it returns, the previous collective is running and not only queued. The thread that executes
// it also sends messages, and has checked the queue between these two.
void exchange_twice(Communicator& comm, int peer) {
  for (int i = 0; i < 2; ++i) {
    auto own = zeros(1), other = zeros(1);
    const auto sent = comm.send(own, peer, 1);
    (void)comm.recv(other, peer, 1).wait();
    (void)sent.wait();
  }
}

class Processes : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  // A process death is detected only within a host. The argument begins with "rank 2 (host".
  static std::string loss_of(const std::string& who) {
    const bool whole = who.ends_with(")");
    if (GetParam() == kThreeHosts) return "lost the connection to " + who;
    return whole ? who + " died" : who;
  }
};

// Writes the faults that the library reports to an agent, one line each.
void report_faults_to(int report) {
  set_fault_listener([report](const GroupFault& fault) {
    const bool lost = fault.kind == GroupFault::Kind::connection_lost;
    write_line(report, format("fault: {} {}", lost ? "connection_lost" : "timed_out", fault.rank));
  });
}

TEST_P(Processes, ACutConnectionIsNoDeathAndAllNameTheRankThatIsCutOff) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    auto buffer = zeros(1 << 16);
    (void)self.comm.all_reduce(buffer, DataType::int32, ReduceOp::max).wait();
    report_faults_to(self.report);
    write_line(self.report, "ready");
    auto pending = self.comm.rank() == 2 ? OperationFuture::completed({}) : self.comm.barrier();
    if (self.comm.rank() == 2) {
      read_line(self.orders, 60s);
      cut_connections(self.rendezvous_port);
      pending = self.comm.recv(buffer, 0, 1);  // a barrier could complete by shared memory
    }
    const auto result = words(pending.wait());
    write_line(self.report, result);
    read_line(self.orders, 60s);  // stays alive, so that no rank sees a process end
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    ASSERT_EQ(ranks.report(rank), "ready");
  }
  ranks.order(2, "cut");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.report(rank), "fault: connection_lost 2");
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, "peer_lost: lost the connection to rank ")) << error;
    EXPECT_FALSE(contains(error, "died")) << error;
    const bool from_others = contains(
        error,
        format("lost the connection to rank 2 (host {}, pid {})", GetParam()[2], ranks.pid(2)));
    // Rank 2 may receive the others' reason over the connection that is cut last.
    const bool from_itself = contains(error, "no other rank answers: rank 2 is cut off");
    EXPECT_TRUE(from_others || (rank == 2 && from_itself)) << error;
  }
}

TEST_P(Processes, ATimeOutIsToldAsTheFaultOfTheRankThatIsLate) {
  Ranks ranks(GetParam(), 1s, [](Ranks::Self self) {
    report_faults_to(self.report);
    (void)self.comm.barrier().wait();
    if (self.comm.rank() != 1) (void)self.comm.barrier().wait();
    if (self.comm.rank() == 1) read_line(self.orders, 60s);
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.report(rank), "fault: timed_out 1");
}

TEST_P(Processes, ARankThatLeavesIsNoFaultOfTheNetwork) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    report_faults_to(self.report);
    if (self.comm.rank() != 1) write_line(self.report, words(self.comm.barrier().wait()));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (const int rank : {0, 2}) {
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, "rank 1 (host")) << error;
    EXPECT_TRUE(contains(error, "left the group")) << error;
  }
}

TEST_P(Processes, AKilledPeerEndsAPendingCollectiveLongBeforeTheTimeOutAndIsNamed) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    auto buffer = zeros(1 << 20);
    (void)self.comm.all_reduce(buffer, DataType::float32, ReduceOp::sum).wait();
    auto later = self.comm.rank() == 2
                     ? OperationFuture::completed({})
                     : self.comm.all_reduce(buffer, DataType::float32, ReduceOp::sum);
    if (self.comm.rank() != 2) exchange_twice(self.comm, 1 - self.comm.rank());
    write_line(self.report, "under way");
    if (self.comm.rank() == 2) read_line(self.orders, 60s);
    write_line(self.report, words(later.wait()));
    write_line(self.report, words(self.comm.barrier().wait()));
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    ASSERT_EQ(ranks.report(rank), "under way");
  }
  ranks.signal(2, SIGKILL);
  for (const int rank : {0, 1}) {
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, "peer_lost")) << error;
    EXPECT_TRUE(
        contains(error, loss_of(format("rank 2 (host {}, pid {})", GetParam()[2], ranks.pid(2)))))
        << error;
    EXPECT_TRUE(
        contains(error, format("rank {} was in all_reduce #2 (float32 sum, 1048576 bytes)", rank)))
        << error;
    EXPECT_TRUE(contains(ranks.report(rank), "rank 2"));  // the first cause, for later calls
  }
}

TEST_P(Processes, AKilledPeerEndsAPendingReceive) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    auto buffer = zeros(100'000);
    auto pending =
        self.comm.rank() == 0 ? self.comm.recv(buffer, 1, 5) : OperationFuture::completed({});
    write_line(self.report, "under way");
    if (self.comm.rank() != 0) read_line(self.orders, 60s);
    write_line(self.report, words(pending.wait()));
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    ASSERT_EQ(ranks.report(rank), "under way");
  }
  ranks.signal(1, SIGKILL);
  const auto error = ranks.report(0);
  EXPECT_TRUE(contains(error, "rank 1 (host")) << error;
  EXPECT_TRUE(contains(error, ": rank 0 waits for the send of rank 1 with tag 5")) << error;
  EXPECT_TRUE(
      contains(error, "; rank 0 was in a recv from rank 1 (tag 5, 0 of 100000 bytes moved)"))
      << error;
}

TEST_P(Processes, AStoppedPeerIsNamedAtTheTimeOut) {
  Ranks ranks(GetParam(), 2s, [](Ranks::Self self) {
    auto buffer = zeros(1 << 16);
    (void)self.comm.all_reduce(buffer, DataType::int32, ReduceOp::max).wait();
    write_line(self.report, "ready");
    read_line(self.orders, 60s);
    write_line(self.report,
               words(self.comm.all_reduce(buffer, DataType::int32, ReduceOp::max).wait()));
    write_line(self.report, later_words(self.comm));
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    ASSERT_EQ(ranks.report(rank), "ready");
  }
  ranks.signal(1, SIGSTOP);
  for (const int rank : {0, 2}) ranks.order(rank, "go");
  std::set<std::string> later;
  for (const int rank : {0, 2}) {
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, "timeout")) << error;
    EXPECT_TRUE(contains(error, "waited 2s for rank")) << error;
    EXPECT_TRUE(contains(
        error, format("rank 1 (host {}, pid {}) does not answer", GetParam()[1], ranks.pid(1))))
        << error;
    EXPECT_TRUE(
        contains(error, format("rank {} was in all_reduce #2 (int32 max, 65536 bytes)", rank)))
        << error;
    later.insert(ranks.report(rank));
  }
  EXPECT_EQ(later.size(), 1u) << testing::PrintToString(later);
}

// The reports of all ranks on request, which are equal.
std::string words_of_all(Ranks& ranks) {
  std::set<std::string> words;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.order(rank, "say");
    words.insert(ranks.report(rank));
  }
  EXPECT_EQ(words.size(), 1u) << testing::PrintToString(words);
  return *words.begin();
}

TEST_P(Processes, OnATimeOutAllRanksSayWhoIsLateAndSinceWhen) {
  Ranks ranks(GetParam(), 2s, [](Ranks::Self self) {
    auto buffer = zeros(1 << 16);
    (void)self.comm.barrier().wait();
    if (self.comm.rank() != 1) {
      const FlightLabel label("layers.7");
      (void)self.comm.all_reduce(buffer, DataType::int32, ReduceOp::max).wait();
      write_line(self.report, "over");
    }
    read_line(self.orders, 60s);
    write_line(self.report, later_words(self.comm));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (const int rank : {0, 2}) ASSERT_EQ(ranks.report(rank), "over");
  const auto later = words_of_all(ranks);
  EXPECT_TRUE(
      contains(later,
               "timeout: ranks 0 and 2 are at #2 all_reduce(layers.7, 64.0 KiB); rank 1 has not "
               "entered #2 all_reduce(layers.7, 64.0 KiB), last seen"))
      << later;
  EXPECT_TRUE(contains(later, "ago after #1 barrier")) << later;
}

TEST(Process, APipelineThatHangsNamesTheSendThatIsMissing) {
  Ranks ranks(kOneHost, 2s, [](Ranks::Self self) {
    auto buffer = zeros(100'000);
    if (self.comm.rank() == 2) {
      const FlightLabel label("stage.1");
      (void)self.comm.recv(buffer, 1, 5).wait();
      write_line(self.report, "over");
    }
    read_line(self.orders, 60s);
    write_line(self.report, later_words(self.comm));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  ASSERT_EQ(ranks.report(2), "over");
  const auto later = words_of_all(ranks);
  EXPECT_TRUE(contains(later, "rank 2 waits for the send of rank 1 with tag 5 for stage.1"))
      << later;
  EXPECT_TRUE(contains(later, "rank 1 waits for no rank, last seen")) << later;
}

TEST_P(Processes, CallsThatDoNotMatchAreNamedWithTheirRanks) {
  Ranks ranks(GetParam(), 20s, [](Ranks::Self self) {
    auto buffer = zeros(4000);
    const auto type = self.comm.rank() == 1 ? DataType::int32 : DataType::float32;
    (void)self.comm.barrier().wait();  // all are connected
    // Rank 1 calls last, so a rank that sees the mismatch finds the calls of all ranks in their
    // records.
    if (self.comm.rank() == 1) read_line(self.orders, 60s);
    auto called = self.comm.all_reduce(buffer, type, ReduceOp::sum);
    if (self.comm.rank() != 1) write_line(self.report, "called");
    (void)called.wait();
    write_line(self.report, later_words(self.comm));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (const int rank : {0, 2}) ASSERT_EQ(ranks.report(rank), "called");
  ranks.order(1, "call");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(ranks.report(rank),
                AllOf(HasSubstr("invalid: "), HasSubstr("#2"), HasSubstr("rank 0"),
                      HasSubstr("all_reduce(float32 sum, 4000 bytes)"), HasSubstr("rank 1"),
                      HasSubstr("all_reduce(int32 sum, 4000 bytes)")));
}

TEST_P(Processes, AForkedChildDoesNotKeepADeadRankAlive) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    if (self.comm.rank() == 2) {
      const pid_t worker = ::fork();
      if (worker == 0) {
        ::alarm(30);
        ::pause();  // like a data loader's worker that outlives its rank
        ::_exit(0);
      }
      write_line(self.report, std::to_string(worker));
      read_line(self.orders, 60s);
    } else {
      write_line(self.report, words(self.comm.barrier().wait()));
    }
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  const pid_t worker = std::stoi(ranks.report(2));
  ranks.signal(2, SIGKILL);
  for (const int rank : {0, 1}) {
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, loss_of("rank 2 (host"))) << error;
  }
  EXPECT_EQ(::kill(worker, SIGKILL), 0) << "the worker was to outlive its rank";
}

TEST_P(Processes, AForkedChildIsRefusedTheGroupAndItsRankGoesOn) {
  Ranks ranks(GetParam(), 20s, [](Ranks::Self self) {
    if (self.comm.rank() == 2) {
      auto buffer = zeros(10);
      const pid_t worker = ::fork();
      if (worker == 0) {
        ::alarm(15);
        write_line(self.report, words(self.comm.barrier().wait()));
        write_line(self.report, words(self.comm.send(buffer, 0, 1).wait()));
        ::_exit(0);
      }
      ::waitpid(worker, nullptr, 0);
    }
    write_line(self.report, words(self.comm.barrier().wait()));
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  for (int call = 0; call < 2; ++call) {
    const auto error = ranks.report(2);
    EXPECT_TRUE(contains(error, "forked from rank 2")) << error;
  }
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.report(rank), "ok");
}

TEST_P(Processes, WhoIsDoneFirstLeavesWithoutDisturbingTheOthers) {
  Ranks ranks(GetParam(), 20s, [](Ranks::Self self) {
    auto buffer = zeros(3000);
    const int rank = self.comm.rank();
    // Rank 0 sends and leaves at once; rank 1 receives long after rank 0 has left.
    if (rank == 0) write_line(self.report, words(self.comm.send(buffer, 1, 1).wait()));
    if (rank == 1) {
      read_line(self.orders);
      write_line(self.report, words(self.comm.recv(buffer, 0, 1).wait()));
      write_line(self.report, words(self.comm.recv(buffer, 0, 1).wait()));
    }
  });
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.report(rank), "met");
  EXPECT_EQ(ranks.report(0), "ok");
  EXPECT_EQ(ranks.report(0), "left");
  EXPECT_EQ(ranks.report(2), "left");
  ranks.order(1, "receive");
  EXPECT_EQ(ranks.report(1), "ok");
  const auto error = ranks.report(1);
  EXPECT_TRUE(contains(error, "left the group")) << error;
}

TEST_P(Processes, AnAbortIsToldToAll) {
  Ranks ranks(GetParam(), 60s, [](Ranks::Self self) {
    (void)self.comm.barrier().wait();  // all are connected
    auto pending = self.comm.rank() == 1 ? OperationFuture::completed({}) : self.comm.barrier();
    if (self.comm.rank() == 1) self.comm.abort({Code::cancelled, "the loss is NaN"});
    if (self.comm.rank() == 1) pending = self.comm.barrier();
    write_line(self.report, words(pending.wait()));
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.report(rank), "met");
    const auto error = ranks.report(rank);
    EXPECT_TRUE(contains(error, "the loss is NaN")) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Processes, testing::Values(kOneHost, kThreeHosts),
                         [](const auto& one) { return one.index == 0 ? "shm" : "tcp"; });

}  // namespace
}  // namespace lockstep::comm
