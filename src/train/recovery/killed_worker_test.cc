// A worker's process is killed in a step: the others compute its shares. Or the server's is: its
// worker reports that.
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/server.h"
#include "train/agent_for_test.h"
#include "train/parameter_server/ranks_apart_for_test.h"
#include "train/recovery/processes_for_test.h"

namespace lockstep::train::killed_worker_test {
namespace {

using processes_for_test::Process;
using processes_for_test::say;
using ranks_apart_for_test::kBound;
using ranks_apart_for_test::RankTraining;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr std::int64_t kSteps = 8;

Mesh mesh_of(int rank, int ranks, int port, const net::Secret& secret) {
  return Mesh::apart(std::make_shared<Meeting>(
      rank, ranks, kBound, [port, secret](bool, Duration) -> Result<comm::RunRendezvous> {
        auto client = TRY(comm::RendezvousClient::connect(
            "127.0.0.1", static_cast<std::uint16_t>(port), secret, Deadline::after(kBound)));
        return comm::RunRendezvous{std::move(client), secret};
      }));
}

// Says the port of a rendezvous, until end().
Process meeting_place(const net::Secret& secret) {
  return Process::start([&](int report) -> Result<void> {
    const auto server = TRY(comm::RendezvousServer::start("127.0.0.1", 0, secret));
    say(report, format("{}", server->port()));
    ::pause();
    return {};
  });
}

void end(const Process& process) {
  ::kill(process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
}

Result<void> run_rank(int rank, int port, const net::Secret& secret, int report) {
  RankTraining training;
  auto mesh = mesh_of(rank, kRanks, port, secret);
  const auto policy = TRY(parse_policy("ps:1", kRanks));
  training.model = TRY(shard(training.net, mesh, policy, training.net.blocks()));
  training.optimizer = TRY(Optimizer::create(*training.model, {.learning_rate = 0.01}));
  if (training.is_server()) {
    const auto steps = TRY(serve_parameters(*training.model, *training.optimizer));
    const auto expected = trainings_for_test::alone({.learning_rate = 0.01}, kSteps);
    const auto [most, held] = [&] {
      double difference = 0;
      for (const auto& one : training.model->state())
        difference = std::max(
            difference,
            trainings_for_test::difference(
                one.tensor, expected.at(one.name).narrow(0, one.owned.begin, one.owned.size())));
      return std::pair(difference, steps);
    }();
    say(report, format("steps {} {}", held, most < 1e-10 ? "equal" : "different"));
    return {};
  }
  int shares = 0;
  while (training.task().step < kSteps) {
    if (rank == 1 && training.task().step == 3) std::raise(SIGKILL);
    TRY(training.step());
    ++shares;
  }
  say(report, format("shares {}", shares));
  return {};
}

// With one worker: rank 1 is the server.
Result<void> run_with_killed_server(int rank, int port, const net::Secret& secret, int report) {
  std::optional<agent_for_test::Agent> agent;
  if (rank == 0) agent.emplace();
  RankTraining training;
  const auto policy = TRY(parse_policy("ps:1", 2));
  training.model = TRY(shard(training.net, mesh_of(rank, 2, port, secret), policy));
  training.optimizer = TRY(Optimizer::create(*training.model, {.learning_rate = 0.01}));
  if (training.is_server()) {
    TRY(serve_parameters(*training.model, *training.optimizer, 0, [](std::int64_t step) {
      if (step == 2) std::raise(SIGKILL);
      return Result<void>();
    }));
    return {};
  }
  while (training.task().step < kSteps)
    if (!training.step()) break;
  say(report, agent->heard());
  return {};
}

// So the agent does not take the end of the worker for a failure of its program.
TEST(KilledServer, IsReportedByTheWorker) {
  const auto secret = net::Secret::random();
  auto place = meeting_place(secret);
  const auto bound = Deadline::after(kBound);
  const int port = std::atoi(place.read_line(bound).c_str());
  auto worker =
      Process::start([&](int report) { return run_with_killed_server(0, port, secret, report); });
  auto server =
      Process::start([&](int report) { return run_with_killed_server(1, port, secret, report); });
  const auto said = worker.read_all(bound);
  EXPECT_EQ(server.read_all(bound), "");
  end(place);
  EXPECT_THAT(said, HasSubstr("\"fault\":\"connection_lost\",\"rank\":1"));
}

TEST(KilledWorker, StopsNothingAndTheOthersComputeItsShares) {
  const auto secret = net::Secret::random();
  auto place = meeting_place(secret);
  const auto bound = Deadline::after(kBound);
  const int port = std::atoi(place.read_line(bound).c_str());
  std::vector<Process> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(
        Process::start([&, rank](int report) { return run_rank(rank, port, secret, report); }));
  std::vector<std::string> said;
  for (auto& rank : ranks) said.push_back(rank.read_all(bound));
  end(place);
  EXPECT_EQ(said[3], "steps 8 equal\n");
  EXPECT_EQ(said[1], "");
  EXPECT_EQ(said[0].substr(0, 7), "shares ");
  EXPECT_EQ(said[2].substr(0, 7), "shares ");
  EXPECT_EQ(std::atoi(said[0].c_str() + 7) + std::atoi(said[2].c_str() + 7), 3 * 8 - 3);
}

}  // namespace
}  // namespace lockstep::train::killed_worker_test
