#include "comm/torch/connect.h"

#include <cstdlib>
#include <functional>

#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "comm/rendezvous/server.h"
#include "comm/torch/backend_group.h"
#include "comm/torch/store_rendezvous.h"
#include "net/crypto.h"
#include "net/reserved_port.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

StoreRendezvous rendezvous_over_memory() {
  return StoreRendezvous(c10::make_intrusive<c10d::HashStore>(), "test");
}

TEST(StoreRendezvous, AValueThatWasSetIsFound) {
  auto rendezvous = rendezvous_over_memory();
  ASSERT_TRUE(rendezvous.set("rank-0", "127.0.0.1:4000"));
  EXPECT_EQ(*rendezvous.get("rank-0", Deadline::after(std::chrono::seconds(10))), "127.0.0.1:4000");
}

TEST(StoreRendezvous, AKeyThatIsNotSetIsNamedAtTheDeadline) {
  auto rendezvous = rendezvous_over_memory();
  const auto value = rendezvous.get("rank-3", Deadline::after(milliseconds(20)));
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, Code::timeout);
  EXPECT_NE(value.error().message.find("rank-3"), std::string::npos) << value.error().message;
  EXPECT_TRUE(rendezvous.set("rank-3", "here")) << "the reader left a value";
}

TEST(StoreRendezvous, AKeyKeepsItsFirstValue) {
  auto rendezvous = rendezvous_over_memory();
  ASSERT_TRUE(rendezvous.set("rank-0", "here"));
  EXPECT_TRUE(rendezvous.set("rank-0", "here"));
  const auto again = rendezvous.set("rank-0", "there");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::already_exists);
}

// Runs the body in a forked process, because the environment belongs to the process. Zero if it
// returned true.
pid_t start_rank(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  return child;
}

int end_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class ConnectFromEnvironment : public testing::Test {
 protected:
  static constexpr int kSize = 6;

  void SetUp() override {
    ::setenv("WORLD_SIZE", std::to_string(kSize).c_str(), 1);
    ::setenv("RANK", "0", 1);
    for (const char* name :
         {"LOCKSTEP_RENDEZVOUS", "LOCKSTEP_SECRET_FILE", "MASTER_ADDR", "MASTER_PORT"})
      ::unsetenv(name);
  }

  // True if a sum over this rank's half of the group is what it should be.
  static bool sums_over_a_half(c10d::ProcessGroup& group, int rank) {
    const bool upper = rank >= kSize / 2;
    const auto backend = group.getBackend(c10::DeviceType::CPU);
    const auto options = backend->getBackendOptions();
    options->group_name = upper ? "upper" : "lower";
    auto store = group.getStore();
    if (store) store = c10::make_intrusive<c10d::PrefixStore>(options->group_name, store);
    const auto half = backend->split(
        store, upper ? std::vector<int>{3, 4, 5} : std::vector<int>{0, 1, 2}, options);
    std::vector<at::Tensor> tensors{at::full({1000}, rank + 1.0)};
    half->allreduce(tensors)->wait();
    return tensors[0].sum().item<double>() == 1000 * (upper ? 4 + 5 + 6 : 1 + 2 + 3);
  }

  // True if a sum over all ranks, of a first and a second group, is what it should be.
  static bool sums_over_ranks(int rank) {
    ::setenv("RANK", std::to_string(rank).c_str(), 1);
    for (int time = 0; time < 2; ++time) {
      auto group = connect_from_environment(std::chrono::seconds(20));
      if (!group) {
        fprintf(stderr, "rank %d: %s\n", rank, group.error().message.c_str());
        return false;
      }
      std::vector<at::Tensor> tensors{at::full({1000}, rank + 1.0)};
      (*group)->allreduce(tensors)->wait();
      if (tensors[0].sum().item<double>() != 1000.0 * kSize * (kSize + 1) / 2) return false;
      if (!sums_over_a_half(**group, rank)) return false;
      // Rank 0 has the store through which the other half connects: no rank exits before all are
      // connected.
      (*group)->barrier()->wait();
    }
    return true;
  }
};

TEST_F(ConnectFromEnvironment, WithoutAMeetingPlaceItSaysHowToStartRanks) {
  const auto group = connect_from_environment();
  ASSERT_FALSE(group);
  EXPECT_NE(group.error().message.find("lockstep run"), std::string::npos);
}

TEST_F(ConnectFromEnvironment, AWordInsteadOfARankIsRefused) {
  ::setenv("RANK", "first", 1);
  const auto group = connect_from_environment();
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().message, "RANK must be a number, got 'first'");
}

TEST_F(ConnectFromEnvironment, AMeetingPlaceWithoutItsSecretIsRefused) {
  ::setenv("LOCKSTEP_RENDEZVOUS", "127.0.0.1:1", 1);
  const auto group = connect_from_environment();
  ASSERT_FALSE(group);
  EXPECT_NE(group.error().message.find("LOCKSTEP_SECRET_FILE"), std::string::npos);
}

TEST_F(ConnectFromEnvironment, RanksMeetAtTheAgentsMeetingPlace) {
  const auto file = testing::TempDir() + format("lockstep-secret-{}", getpid());
  const net::Secret secret = net::Secret::random();
  // The server has a thread, so the ranks are forked before it. They retry until it listens, on a
  // port that they receive through a pipe.
  int port_pipe[2];
  ASSERT_EQ(pipe(port_pipe), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize; ++rank)
    children.push_back(start_rank([&, rank] {
      std::uint16_t port = 0;
      if (read(port_pipe[0], &port, sizeof port) != sizeof port) return false;
      ::setenv("LOCKSTEP_RENDEZVOUS", format("127.0.0.1:{}", port).c_str(), 1);
      ::setenv("LOCKSTEP_SECRET_FILE", file.c_str(), 1);
      return sums_over_ranks(rank);
    }));
  ASSERT_TRUE(write_file(file, secret.hex() + "\n"));
  auto server = RendezvousServer::start("127.0.0.1", 0, secret);
  ASSERT_TRUE(server) << server.error().message;
  const std::uint16_t port = (*server)->port();
  for (int rank = 0; rank < kSize; ++rank)
    ASSERT_EQ(write(port_pipe[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
  unlink(file.c_str());
  close(port_pipe[0]);
  close(port_pipe[1]);
}

bool listens(std::uint16_t port, Deadline deadline) {
  while (!deadline.passed())
    if (net::Socket::connect_tcp("127.0.0.1", port, deadline)) return true;
  return false;
}

// The last rank still reads the addresses when rank 0 is connected to all. Each group is dropped
// earlier on some ranks than on others, while the first ranks already connect for the next one.
TEST_F(ConnectFromEnvironment, RanksMeetAtRankZerosStoreAlsoWhenOneComesLate) {
  const auto port = net::ReservedPort::open().value();
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", std::to_string(port.number()).c_str(), 1);
  std::vector<pid_t> children;
  for (int rank = 0; rank < kSize - 1; ++rank)
    children.push_back(start_rank([rank] { return sums_over_ranks(rank); }));
  EXPECT_TRUE(listens(port.number(), Deadline::after(std::chrono::seconds(20))));
  children.push_back(start_rank([] { return sums_over_ranks(kSize - 1); }));
  for (const pid_t child : children) EXPECT_EQ(end_of(child), 0);
}

// The actions of Python when a forked worker exits.
bool a_forked_child_leaves() {
  const pid_t child = start_rank([] {
    ::alarm(15);
    BackendGroup::leave_all();
    return true;
  });
  return end_of(child) == 0;
}

TEST_F(ConnectFromEnvironment, AForkedChildLeavesNothingAndHangsNowhere) {
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  const auto port = net::ReservedPort::open().value();
  ::setenv("MASTER_PORT", std::to_string(port.number()).c_str(), 1);
  ::setenv("WORLD_SIZE", "2", 1);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const auto first = start_rank([&] {
    const auto group = connect_from_environment(std::chrono::seconds(20));
    if (!group) return false;
    std::vector<at::Tensor> tensors{at::full({10}, 1.0)};
    const auto work = (*group)->allreduce(tensors);
    // Rank 1 has not called it yet, so a thread of the group will complete the future.
    const auto future = work->getFuture();
    if (write(go[1], "!", 1) != 1) return false;
    future->wait();
    return a_forked_child_leaves();
  });
  const auto second = start_rank([&] {
    ::setenv("RANK", "1", 1);
    const auto group = connect_from_environment(std::chrono::seconds(20));
    char order = 0;
    if (!group || read(go[0], &order, 1) != 1) return false;
    std::vector<at::Tensor> tensors{at::full({10}, 1.0)};
    (*group)->allreduce(tensors)->wait();
    return true;
  });
  EXPECT_EQ(end_of(first), 0);
  EXPECT_EQ(end_of(second), 0);
  close(go[0]);
  close(go[1]);
}

}  // namespace
}  // namespace lockstep::comm
