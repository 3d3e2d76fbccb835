// Whole trainings by workers and servers.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "train/parameter_server/message.h"
#include "train/parameter_server/ranks_apart_for_test.h"

namespace lockstep::train::parameter_server_test {
namespace {

using ranks_apart_for_test::RanksApart;
using ranks_apart_for_test::RankTraining;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 4;

// On a server: the largest difference of its slices to the values.
double difference_to(const RankTraining& rank, const trainings_for_test::State& expected) {
  double most = 0;
  for (const auto& one : rank.model->state()) {
    const auto& whole = expected.at(one.name);
    most = std::max(most, trainings_for_test::difference(
                              one.tensor, whole.narrow(0, one.owned.begin, one.owned.size())));
  }
  return most;
}

TEST(ParameterServer, SynchronousWorkersGiveTheResultsOfOneProcess) {
  for (const OptimizerOptions& options :
       {OptimizerOptions{.method = Sgd{.momentum = 0.9}, .learning_rate = 0.1},
        OptimizerOptions{.method = AdamW{}, .learning_rate = 0.01}}) {
    const auto expected = trainings_for_test::alone(options, kSteps);
    for (const auto* policy : {"ps:2", "ps:1,servers=0", "ps:3,servers=4;0;2"}) {
      RanksApart ranks(4 + (policy[3] - '0'));
      EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
        auto rank = TRY(RankTraining::start(ranks, number, policy, options));
        if (!rank->is_server()) {
          while (rank->task().step < kSteps) TRY(rank->step());
          return {};
        }
        EXPECT_EQ(TRY(serve_parameters(*rank->model, *rank->optimizer)), kSteps);
        EXPECT_LT(difference_to(*rank, expected), 1e-10) << policy;
        for (const auto& [name, tensor] : rank->model->parameters())  // with others' slices
          EXPECT_LT(trainings_for_test::difference(tensor.detach().view(-1),
                                                   expected.at("parameter/" + name)),
                    1e-10)
              << name;
        return {};
      }),
                "");
    }
  }
}

TEST(ParameterServer, EachShareOfEachStepIsComputedOnceAndFastWorkersComputeMore) {
  for (const std::string policy : {"ps:2,staleness=3", "ps:2,async"}) {
    RanksApart ranks(5);
    Mutex mutex;
    Condition changed;
    std::multiset<Task> done;
    int of_slow = 0;
    EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
      auto rank = TRY(RankTraining::start(ranks, number, policy, {.learning_rate = 0.01}));
      if (rank->is_server()) {
        TRY(serve_parameters(*rank->model, *rank->optimizer));
        return {};
      }
      while (rank->task().step < 8) {
        const auto task = rank->task();
        const auto bound = Deadline::after(ranks_apart_for_test::kBound);
        if (number == 0) {  // as slow as five steps of others
          // With staleness 3 the others stop for this share when all other shares up to step + 3
          // are computed: then each of the two waits in its last step, which is not in `done`.
          const auto others_stop_at = 3 * (static_cast<std::size_t>(task.step) + 4) - 3;
          const Lock lock(mutex);
          const auto awaited = std::min<std::size_t>({done.size() + 5, others_stop_at, 20});
          while (done.size() < awaited && !bound.passed()) changed.wait_until(mutex, bound);
          ++of_slow;
        }
        TRY(rank->step());
        const Lock lock(mutex);
        done.insert(task);
        changed.notify_all();
      }
      return {};
    }),
              "");
    EXPECT_EQ(done.size(), 24u) << policy;
    EXPECT_EQ(std::set<Task>(done.begin(), done.end()).size(), 24u);
    EXPECT_LT(of_slow, 8);
  }
}

TEST(ParameterServer, AWorkerWithInfiniteGradientsIsLeftOutOfTheUpdate) {
  RanksApart ranks(3);
  EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
    auto rank = TRY(RankTraining::start(ranks, number, "ps:1", {.learning_rate = 0.01}));
    if (rank->is_server()) {
      EXPECT_EQ(TRY(serve_parameters(*rank->model, *rank->optimizer)), 2);
      for (const auto& one : rank->model->state())
        EXPECT_TRUE(one.tensor.isfinite().all().item<bool>());
      return {};
    }
    while (rank->task().step < 2) {
      auto x = trainings_for_test::wave({6, 5}, 1);
      if (number == 1) x.fill_(std::numeric_limits<double>::infinity());
      const auto y = trainings_for_test::wave({6, 3}, 1);
      TRY(rank->model->backward(rank->net.loss(*rank->model, x, y), Sync::now));
      TRY(rank->model->finish_gradients());
      const auto outcome = TRY(rank->optimizer->step());
      EXPECT_EQ(outcome.taken, number != 1);
      EXPECT_EQ(outcome.non_finite.has_value(), number == 1);
    }
    return {};
  }),
            "");
}

TEST(ParameterServer, AWorkerThatJoinsLaterStartsWithTheServersParameters) {
  RanksApart ranks(3);
  std::atomic<int> joined = 0;
  EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
    const std::string policy = "ps:1,staleness=1";
    auto rank = TRY(RankTraining::start(ranks, number, policy, {.learning_rate = 0.01}));
    if (rank->is_server()) {
      EXPECT_EQ(TRY(serve_parameters(*rank->model, *rank->optimizer)), 8);
      return {};
    }
    while (rank->task().step < 3) TRY(rank->step());
    if (number == 0) {
      const auto bound = Deadline::after(ranks_apart_for_test::kBound);
      while (joined == 0 && !bound.passed()) std::this_thread::yield();
      while (rank->task().step < 8) TRY(rank->step());
      return {};
    }
    rank.reset();  // leaves
    auto again = TRY(RankTraining::start(ranks, number, policy, {.learning_rate = 0.01}));
    EXPECT_GE(again->task().step, 2);
    EXPECT_GT(trainings_for_test::difference(again->net.first, trainings_for_test::Net().first), 0);
    ++joined;
    while (again->task().step < 8) TRY(again->step());
    return {};
  }),
            "");
  EXPECT_EQ(joined, 1);
}

// Waits until it is true, or a bound passes, after which the test fails elsewhere.
void wait_for(const std::atomic<bool>& state) {
  const auto bound = Deadline::after(ranks_apart_for_test::kBound);
  while (!state && !bound.passed()) std::this_thread::yield();
}

TEST(ParameterServer, WaitsForAWorkerInPlaceOfALostOneIfTheOthersLeftBeforeTheLastUpdate) {
  const OptimizerOptions options{.learning_rate = 0.01};
  const auto expected = trainings_for_test::alone(options, 1);
  const std::string policy = "ps:1,staleness=1";
  RanksApart ranks(3);
  std::atomic<bool> slow_has_task = false;
  std::atomic<bool> fast_has_left = false;
  EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
    if (number == 1) {  // lost with its task, when the other worker has left
      auto group = TRY(ranks.mesh(number).meeting()->join({2}));
      TRY(send(group, 0, {.verb = Message::Verb::take}));
      EXPECT_EQ(TRY(receive(group, 0)).task, (Task{0, 1}));
      slow_has_task = true;
      wait_for(fast_has_left);
      group.leave();
    }
    auto rank = TRY(RankTraining::start(ranks, number, policy, options));
    if (rank->is_server()) {
      EXPECT_EQ(TRY(serve_parameters(*rank->model, *rank->optimizer)), 1);
      EXPECT_LT(difference_to(*rank, expected), 1e-10);
      return {};
    }
    wait_for(slow_has_task);
    while (rank->task().step < 1) TRY(rank->step());
    rank.reset();  // leaves
    fast_has_left = true;
    return {};
  }),
            "");
}

TEST(ParameterServer, ServesOnceAndASecondTimeIsRefused) {
  RanksApart ranks(2);
  EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
    auto rank = TRY(RankTraining::start(ranks, number, "ps:1", {.learning_rate = 0.01}));
    if (!rank->is_server()) return rank->step();
    EXPECT_EQ(TRY(serve_parameters(*rank->model, *rank->optimizer)), 1);
    const auto again = serve_parameters(*rank->model, *rank->optimizer);
    EXPECT_THAT(again ? "" : again.error().message, HasSubstr("has served parameters before"));
    return {};
  }),
            "");
}

TEST(ParameterServer, ServersThatBeginAfterDifferentStepsAreRefused) {
  RanksApart ranks(3);
  const auto failures = ranks.run([&](int number) -> Result<void> {
    if (number == 0) return {};  // no worker is needed
    auto rank = TRY(RankTraining::start(ranks, number, "ps:2", {.learning_rate = 0.01}));
    TRY(serve_parameters(*rank->model, *rank->optimizer, number));
    return {};
  });
  EXPECT_THAT(failures, AllOf(HasSubstr("rank 1: the servers begin after different steps, 1 and 2"),
                              HasSubstr("rank 2: the servers begin after")));
}

TEST(ParameterServerMessages, AnyNumberOfLearningRatesReachesTheServer) {
  RanksApart ranks(2);
  EXPECT_EQ(ranks.run([&](int number) -> Result<void> {
    const auto meeting = ranks.mesh(number).meeting();
    auto group = TRY(meeting->connect_servers({0, 1}, "rates"));
    std::vector<double> rates(40);
    std::iota(rates.begin(), rates.end(), 0.5);
    if (number == 1) return send_rates(group, 0, rates);
    EXPECT_EQ(TRY(receive_rates(group, 1, 40)), rates);
    return {};
  }),
            "");
}

std::string refusal(const std::string& policy, int ranks) {
  const auto parsed = parse_policy(policy, ranks);
  return parsed ? "" : parsed.error().message;
}

TEST(ParameterServerPolicy, HasItsNamesAndWhatMakesNoSenseIsNamedWithTheRemedy) {
  const auto policy = parse_policy("ps:2,staleness=4,servers=0;3", 6).value();
  EXPECT_EQ(policy.servers, (std::vector<int>{0, 3}));
  EXPECT_EQ(policy.staleness, 4);
  EXPECT_EQ(text(policy, 6), "ps:2,staleness=4 (servers 0, 3)");
  EXPECT_EQ(text(parse_policy("ps:1,async", 3).value(), 3), "ps:1,async (servers 2)");
  EXPECT_THAT(refusal("ps:2,servers=4;9", 6),
              AllOf(HasSubstr("server 9 is not among the ranks 0 to 5"), HasSubstr("name one")));
  EXPECT_THAT(refusal("ps:2,servers=4;4", 6), HasSubstr("rank 4 is named twice"));
  EXPECT_THAT(refusal("ps:2,servers=4", 6), HasSubstr("1 servers are named, and ps:2 has 2"));
  EXPECT_THAT(refusal("ps:6", 6), HasSubstr("use 5 servers at most"));
  EXPECT_THAT(refusal("ps:x", 6), HasSubstr("write ps:1"));
  EXPECT_THAT(refusal("ps:1,staleness=-1", 6), HasSubstr("staleness '-1' is not a number"));
  EXPECT_THAT(refusal("ps:1,fast", 6), HasSubstr("option 'fast'"));
  EXPECT_THAT(refusal("ps:1+keep", 6), HasSubstr("'+keep' is not for servers"));
}

TEST(ParameterServerPolicy, NeedsRanksThatAreApartAndOthersNeedThemConnected) {
  trainings_for_test::Net net;
  const auto connected = shard(net, Mesh::single(), {.servers = {0}});
  ASSERT_FALSE(connected);
  EXPECT_THAT(connected.error().message, HasSubstr("Group::apart()"));
  RanksApart ranks(2);
  const auto apart = shard(net, ranks.mesh(0), {});
  ASSERT_FALSE(apart);
  EXPECT_THAT(apart.error().message, HasSubstr("Group::connect()"));
}

}  // namespace
}  // namespace lockstep::train::parameter_server_test
