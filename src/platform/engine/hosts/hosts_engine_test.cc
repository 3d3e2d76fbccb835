#include "platform/engine/hosts/hosts_engine.h"

#include <optional>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/engine/hosts/service_session.h"

namespace lockstep::engine {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Phase = model::NodePhase;

class HostsClock : public Clock, public SteadyClock {
 public:
  Time now() const override { return Time(seconds(1'790'000'000)) + passed; }
  Duration since_boot() const override { return passed; }
  std::string boot_id() const override { return "boot"; }
  Duration passed = seconds(100);
};

model::NodeName node_of(int attempt, int index) { return {"", {{{"demo", 1}, attempt}, index}}; }

// Node i of the attempt runs on host "h<i>".
Gang gang_on(int nodes, int attempt = 1) {
  Gang gang{.attempt = {"", {{"demo", 1}, attempt}}, .program = {}, .nodes = {}};
  gang.program.command = {"true"};
  gang.program.checkpoint_folder = "runs/demo/1/checkpoints";
  gang.make_checkpoint_folder = true;
  for (int index = 0; index < nodes; ++index)
    gang.nodes.push_back({.index = index,
                          .host = format("h{}", index),
                          .address = {},
                          .devices = {0},
                          .device_uuids = {},
                          .islands = {}});
  return gang;
}

class HostsEngineTest : public ::testing::Test {
 protected:
  api::ServiceReport report(std::vector<std::pair<model::NodeName, Phase>> nodes = {}) {
    api::ServiceReport report{.service = service_, .number = ++number_, .clock = clock_.now()};
    report.session = "daemon";
    report.answered = answered_;
    for (const auto& [node, phase] : nodes)
      report.nodes.push_back({.node = text(node), .seen = {.phase = phase}, .launch = {}});
    return report;
  }
  // The host carries the answer out.
  api::ServiceOrders call(std::vector<std::pair<model::NodeName, Phase>> nodes = {}) {
    take(report(std::move(nodes)));
    auto orders = engine_.orders("h0");
    answered_ = orders.number;
    return orders;
  }
  // With facts that can be stored.
  bool take(const api::ServiceReport& report) {
    const bool counts = engine_.take("h0", report);
    if (counts) engine_.record_facts("h0", {});
    return counts;
  }
  // Its first call has no session.
  void restart_service() {
    service_ = "second";
    number_ = answered_ = 0;
    auto first = report();
    first.session = "";
    EXPECT_FALSE(engine_.take("h0", first));
    answered_ = engine_.orders("h0").number;
  }
  std::vector<std::pair<std::string, Phase>> listed() {
    std::vector<std::pair<std::string, Phase>> all;
    const auto list = engine_.list();
    for (const ListedNode& one : list->nodes) all.emplace_back(text(one.node), one.seen.phase);
    return all;
  }

  HostsClock clock_;
  HostsEngine engine_{
      {.steady = clock_, .clock = clock_, .session = "daemon", .silent_after = seconds(30)}};
  std::string service_ = "first";
  std::int64_t number_ = 0;
  std::int64_t answered_ = 0;
};

TEST_F(HostsEngineTest, ANodeIsOrderedUntilItsHostHasIt) {
  engine_.submit(gang_on(1));
  EXPECT_TRUE(engine_.has_new_orders("h0"));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::starting)));
  const auto orders = call();
  ASSERT_THAT(orders.start, SizeIs(1));
  EXPECT_EQ(orders.start[0].launch.node, "demo/1.1/0");
  EXPECT_EQ(orders.start[0].launch.node_folder, "runs/demo/1/attempt-1/node-0");
  EXPECT_FALSE(engine_.has_new_orders("h0"));
  EXPECT_THAT(call({{node_of(1, 0), Phase::starting}}).start, SizeIs(1));
  EXPECT_THAT(call({{node_of(1, 0), Phase::present}}).start, IsEmpty());
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::present)));
  call();
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(HostsEngineTest, AnOrderOfALostAnswerIsRepeated) {
  call();
  engine_.submit(gang_on(1));
  EXPECT_THAT(engine_.orders("h0").start, SizeIs(1));  // never arrives
  EXPECT_THAT(call().start, SizeIs(1));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::starting)));
}

TEST_F(HostsEngineTest, ANodeThatStartedAndEndedBetweenTwoReportsIsGone) {
  engine_.submit(gang_on(1));
  call();
  EXPECT_THAT(call().start, IsEmpty());
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(HostsEngineTest, ANewStartOfTheServiceGetsTheOrdersThatTheOldOneDidNotCarryOut) {
  engine_.submit(gang_on(1));
  call();
  call({{node_of(1, 0), Phase::starting}});  // in its queue, when it is killed
  restart_service();
  EXPECT_THAT(call().start, SizeIs(1));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::starting)));
}

TEST_F(HostsEngineTest, AHostThatDoesNotCallIsSilent) {
  call();
  clock_.passed += seconds(29);
  EXPECT_THAT(engine_.list()->silent, IsEmpty());
  clock_.passed += seconds(1);
  EXPECT_THAT(engine_.list()->silent, ElementsAre("h0"));
  call();
  EXPECT_THAT(engine_.list()->silent, IsEmpty());
}

TEST_F(HostsEngineTest, AHostThatIsPresumedDeadHasNoNodesAndCannotBeAskedUntilItCalls) {
  engine_.submit(gang_on(1));
  call();
  const auto before = call({{node_of(1, 0), Phase::present}});
  engine_.kill(node_of(1, 0));
  engine_.presume_dead("h0");
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("declared dead"));
  const auto orders = call({{node_of(1, 0), Phase::present}});
  EXPECT_GT(orders.number, before.number) << "its service ignores lower ones";
  EXPECT_THAT(orders.kill, IsEmpty());
  EXPECT_EQ(engine_.list()->why_unavailable("h0"), "");
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::present)));
}

TEST_F(HostsEngineTest, AReportThatOvertookAnotherStays) {
  engine_.submit(gang_on(1));
  call();
  const auto late = report();
  call({{node_of(1, 0), Phase::present}});
  engine_.take("h0", late);
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::present)));
}

TEST_F(HostsEngineTest, AKillIsOrderedUntilTheNodeIsGone) {
  engine_.submit(gang_on(1));
  call();
  call({{node_of(1, 0), Phase::present}});
  engine_.kill(node_of(1, 0));
  EXPECT_TRUE(engine_.has_new_orders("h0"));
  EXPECT_THAT(call({{node_of(1, 0), Phase::present}}).kill, ElementsAre("demo/1.1/0"));
  EXPECT_THAT(call({{node_of(1, 0), Phase::present}}).kill, ElementsAre("demo/1.1/0"));
  EXPECT_THAT(call().kill, IsEmpty());
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(HostsEngineTest, ANodeThatIsKilledBeforeItsOrderIsSentIsNeverStarted) {
  call();
  engine_.submit(gang_on(1));
  engine_.kill(node_of(1, 0));
  EXPECT_THAT(listed(), IsEmpty());
  const auto orders = call();
  EXPECT_THAT(orders.start, IsEmpty());
  EXPECT_THAT(orders.kill, IsEmpty());
}

TEST_F(HostsEngineTest, ANodeWhoseOrderMayHaveArrivedIsListedUntilItsHostDoesNotHaveIt) {
  call();
  engine_.submit(gang_on(1));
  const auto lost = engine_.orders("h0");
  EXPECT_THAT(lost.start, SizeIs(1));
  engine_.kill(node_of(1, 0));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::starting)));
  const auto orders = call();
  EXPECT_THAT(orders.start, IsEmpty());
  EXPECT_THAT(orders.kill, ElementsAre("demo/1.1/0"));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::starting)));
  call();
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(HostsEngineTest, AHostThatHasNotCalledOrIsSilentIsUnavailableAndKeepsItsNodes) {
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("has not called"));
  call({{node_of(1, 0), Phase::present}});
  EXPECT_EQ(engine_.list()->why_unavailable("h0"), "");
  EXPECT_THAT(engine_.list()->why_unavailable("h1"), HasSubstr("has not called"));
  clock_.passed += seconds(31);
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("has not called since 20"));
  EXPECT_THAT(listed(), SizeIs(1));
  call({{node_of(1, 0), Phase::present}});
  EXPECT_EQ(engine_.list()->why_closed("h0"), "");
}

TEST_F(HostsEngineTest, AHostThatCannotListItsNodesKeepsThem) {
  call({{node_of(1, 0), Phase::present}});
  clock_.passed += seconds(20);
  auto blind = report();
  blind.nodes_error = "a file system hangs";
  engine_.take("h0", blind);
  EXPECT_THAT(listed(), SizeIs(1));
  EXPECT_EQ(engine_.list()->why_unavailable("h0"), "");
  clock_.passed += seconds(11);
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("a file system hangs"));
}

TEST_F(HostsEngineTest, AHostWithAProblemTakesNoNodeAndCanBeAsked) {
  auto full = report();
  full.problems.push_back({api::HostProblemKind::disk_full, "/tmp is full"});
  take(full);
  EXPECT_EQ(engine_.list()->why_unavailable("h0"), "");
  EXPECT_EQ(engine_.list()->why_closed("h0"), "/tmp is full");
  auto early = report();
  early.clock += seconds(60);
  take(early);
  EXPECT_THAT(engine_.list()->why_closed("h0"), HasSubstr("its clock is ahead"));
}

TEST_F(HostsEngineTest, AnEarlierSessionOfTheDaemonConfirmsNothing) {
  engine_.submit(gang_on(1));
  engine_.orders("h0");
  answered_ = 7;
  auto old = report();
  old.session = "another";
  engine_.take("h0", old);
  EXPECT_THAT(engine_.orders("h0").start, SizeIs(1));
}

TEST_F(HostsEngineTest, AHostIsUnavailableUntilAReportNamesTheSessionWhichItsFirstAnswerTells) {
  auto first = report({{node_of(1, 0), Phase::present}});
  first.session = "the daemon before";
  EXPECT_FALSE(engine_.take("h0", first));
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("has not called"));
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_TRUE(engine_.has_new_orders("h0")) << "the answer does not wait";
  EXPECT_EQ(engine_.orders("h0").session, "daemon");
  EXPECT_FALSE(engine_.has_new_orders("h0"));
  call();
  EXPECT_EQ(engine_.list()->why_closed("h0"), "");
}

TEST_F(HostsEngineTest, ALateReportOfTheStartBeforeDoesNotCount) {
  call();
  engine_.submit(gang_on(1));
  const auto late = report();
  restart_service();
  call({{node_of(1, 0), Phase::present}});
  EXPECT_FALSE(engine_.take("h0", late));
  EXPECT_THAT(listed(), ElementsAre(std::pair("demo/1.1/0", Phase::present)));
}

TEST_F(HostsEngineTest, AHostTakesNoNodeUntilItsFactsAreStored) {
  EXPECT_TRUE(engine_.take("h0", report()));
  EXPECT_EQ(engine_.list()->why_unavailable("h0"), "");
  EXPECT_THAT(engine_.list()->why_closed("h0"), HasSubstr("has not reported its devices"));
  engine_.record_facts("h0", Error{Code::exhausted, "the disk is full"});
  EXPECT_THAT(engine_.list()->why_closed("h0"), HasSubstr("not on the map: the disk is full"));
  call();
  EXPECT_EQ(engine_.list()->why_closed("h0"), "");
  restart_service();
  EXPECT_TRUE(engine_.take("h0", report()));
  EXPECT_THAT(engine_.list()->why_closed("h0"), HasSubstr("has not reported its devices"))
      << "the machine may have changed";
}

TEST_F(HostsEngineTest, AHostThatIsRemovedAndJoinsAgainGetsOrdersWithHigherNumbers) {
  call();
  const auto before = call();
  engine_.forget("h0");
  EXPECT_THAT(engine_.list()->why_unavailable("h0"), HasSubstr("has not called"));
  EXPECT_GT(call().number, before.number);
}

// --- A host that loses, delays and repeats calls, and restarts ---

class SimulatedHost {
 public:
  explicit SimulatedHost(std::mt19937_64& random) : random_(random) {}

  api::ServiceReport report(const Clock& clock) {
    api::ServiceReport report = session_->begin_report();
    report.clock = clock.now();
    for (const std::string& node : queued_)
      report.nodes.push_back({.node = node, .seen = {.phase = Phase::starting}, .launch = {}});
    for (const std::string& node : running_)
      report.nodes.push_back({.node = node, .seen = {.phase = Phase::present}, .launch = {}});
    return report;
  }
  void carry_out(const api::ServiceReport& report, const api::ServiceOrders& orders) {
    if (!session_->begin_orders(report, orders)) return;
    session_->record_orders_done(orders);
    for (const auto& start : orders.start)
      if (!ever_.contains(start.launch.node) && !running_.contains(start.launch.node))
        queued_.insert(start.launch.node);
    for (const std::string& node : orders.kill) {
      queued_.erase(node);
      running_.erase(node);
      killed_.insert(node);
    }
  }
  void live() {
    if (!queued_.empty() && random_() % 2 == 0) {
      const std::string node = *queued_.begin();
      queued_.erase(queued_.begin());
      EXPECT_TRUE(ever_.insert(node).second) << node << " is started twice";
      EXPECT_FALSE(killed_.contains(node)) << node << " is started after it was killed";
      running_.insert(node);
    }
    if (!running_.empty() && random_() % 8 == 0) running_.erase(running_.begin());
    if (random_() % 16 != 0) return;
    session_.emplace(format("start-{}", ++starts_));  // agents stay, the queue is lost
    queued_.clear();
  }
  bool has(const std::string& node) const {
    return queued_.contains(node) || running_.contains(node);
  }
  bool ever_ran(const std::string& node) const { return ever_.contains(node); }

 private:
  std::mt19937_64& random_;
  int starts_ = 1;
  std::optional<ServiceSession> session_{"start-1"};
  std::set<std::string> queued_, running_, ever_, killed_;
};

class LossyHost : public ::testing::TestWithParam<int> {};

TEST_P(LossyHost, StartsEachNodeOnceAndIsListedWithEachThatItHas) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  HostsClock clock;
  HostsEngine engine(
      {.steady = clock, .clock = clock, .session = "daemon", .silent_after = seconds(30)});
  SimulatedHost host(random);
  std::set<std::string> submitted, killed;
  std::vector<api::ServiceReport> late;
  for (int turn = 0; turn < 400; ++turn) {
    if (turn % 10 == 0 && turn < 200) {
      const int attempt = turn / 10 + 1;
      engine.submit(gang_on(1, attempt));
      submitted.insert(text(node_of(attempt, 0)));
    }
    if (!submitted.empty() && random() % 20 == 0) {
      auto which = submitted.begin();
      std::advance(which, static_cast<long>(random() % submitted.size()));
      engine.kill(*model::parse_node_name(*which));
      killed.insert(*which);
    }
    const auto report = host.report(clock);
    if (random() % 4 == 0) late.push_back(report);
    const bool is_last = turn >= 380;
    if (is_last || random() % 3 != 0) engine.take("h0", report);
    if (!late.empty() && random() % 5 == 0) engine.take("h0", late.front());
    if (random() % 5 == 0) late.clear();
    const auto orders = engine.orders("h0");
    if (is_last || random() % 3 != 0) host.carry_out(report, orders);
    std::set<std::string> listed;
    const auto list = engine.list();
    for (const ListedNode& one : list->nodes) listed.insert(text(one.node));
    for (const std::string& node : submitted)
      EXPECT_TRUE(!host.has(node) || listed.contains(node)) << node << " at " << turn;
    host.live();
  }
  for (const std::string& node : submitted)
    EXPECT_TRUE(host.ever_ran(node) || killed.contains(node) || host.has(node)) << node;
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyHost, ::testing::Range(0, 50));

}  // namespace
}  // namespace lockstep::engine
