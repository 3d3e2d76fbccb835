// The checks find errors: each of these simulations has a store or an engine that breaks its
// contract, and some seed shows it.
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulation.h"

namespace lockstep::sim {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class StoreWrapper : public store::Store {
 public:
  explicit StoreWrapper(store::Store& real) : real_(real) {}
  Result<model::State> load() override { return real_.load(); }
  Result<std::optional<model::RunRows>> find_run(const model::RunId& run) override {
    return real_.find_run(run);
  }
  Result<std::optional<model::RunId>> find_request(const std::string& request_id) override {
    return real_.find_request(request_id);
  }
  Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) override {
    return real_.list_runs(filter);
  }
  Result<void> remove_run(const model::RunRows& run, std::span<const model::Change> also) override {
    return real_.remove_run(run, also);
  }
  Result<void> commit(std::span<const model::Change> changes) override {
    return real_.commit(changes);
  }
  Result<void> check_writable() override { return real_.check_writable(); }

 protected:
  store::Store& real_;
};

class LosesACommit : public StoreWrapper {
 public:
  using StoreWrapper::StoreWrapper;
  Result<void> commit(std::span<const model::Change> changes) override {
    if (++commits_ % 20 == 0) return {};
    return real_.commit(changes);
  }

 private:
  int commits_ = 0;
};

class StoresHalf : public StoreWrapper {
 public:
  using StoreWrapper::StoreWrapper;
  Result<void> commit(std::span<const model::Change> changes) override {
    if (changes.size() < 4) return real_.commit(changes);
    TRY(real_.commit(changes.first(changes.size() - 1)));
    return Error{Code::unavailable, "torn"};
  }
};

class EngineWrapper : public engine::Engine {
 public:
  EngineWrapper(engine::Engine& real, Hosts& hosts) : real_(real), hosts_(hosts) {}
  std::string_view name() const override { return real_.name(); }
  void submit(engine::Gang gang) override { real_.submit(std::move(gang)); }
  void kill(const model::NodeName& node) override { real_.kill(node); }
  Result<engine::EngineList> list() override { return real_.list(); }

 protected:
  engine::Engine& real_;
  Hosts& hosts_;
};

// The second time when the node is listed.
class LaunchesTwice : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void submit(engine::Gang gang) override {
    for (const engine::NodePlacement& node : gang.nodes)
      submitted_[engine::node_name(gang, node)] = engine::launch_spec(gang, node, "/home/daemon");
    real_.submit(std::move(gang));
  }
  Result<engine::EngineList> list() override {
    auto listed = TRY(real_.list());
    for (const engine::ListedNode& node : listed.nodes)
      if (const auto found = submitted_.extract(node.node); !found.empty())
        (void)hosts_.start(found.mapped());
    return listed;
  }

 private:
  std::map<model::NodeName, host::LaunchSpec> submitted_;
};

class LaunchesNothing : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void submit(engine::Gang gang) override {
    if (gang.nodes.size() > 1) real_.submit(std::move(gang));
  }
};

class ForgetsALiveNode : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  Result<engine::EngineList> list() override {
    auto listed = TRY(real_.list());
    if (++looks_ % 50 == 0 && !listed.nodes.empty()) listed.nodes.pop_back();
    return listed;
  }

 private:
  int looks_ = 0;
};

class RemembersTheDead : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  Result<engine::EngineList> list() override {
    const engine::EngineList listed = TRY(real_.list());
    for (const engine::ListedNode& node : listed.nodes) seen_.insert(node.node);
    engine::EngineList all;
    for (const model::NodeName& node : seen_) all.nodes.push_back({.node = node});
    return all;
  }

 private:
  std::set<model::NodeName> seen_;
};

class KillsAnother : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void kill(const model::NodeName& node) override {
    const auto listed = real_.list();
    if (!listed) return;
    for (const engine::ListedNode& other : listed->nodes)
      if (other.node != node) return real_.kill(other.node);
  }
};

class KillsNobody : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void kill(const model::NodeName&) override {}
};

// --- Engines that choose the hosts ---

// Changes what it lists of each node.
class ListWrapper : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  Result<engine::EngineList> list() override {
    auto listed = TRY(real_.list());
    for (engine::ListedNode& node : listed.nodes) change(node.seen);
    return listed;
  }

 protected:
  virtual void change(model::Observation& seen) = 0;
};

class NamesAnotherHost : public ListWrapper {
 public:
  using ListWrapper::ListWrapper;

 protected:
  void change(model::Observation& seen) override {
    if (!seen.host.empty()) seen.host = "another";
  }
};

class NamesNoHost : public ListWrapper {
 public:
  using ListWrapper::ListWrapper;

 protected:
  void change(model::Observation& seen) override { seen.host.clear(); }
};

class SaysThatAllStart : public ListWrapper {
 public:
  using ListWrapper::ListWrapper;

 protected:
  void change(model::Observation& seen) override {
    if (seen.phase == model::NodePhase::pending) seen.phase = model::NodePhase::starting;
  }
};

class BlamesTheHost : public ListWrapper {
 public:
  using ListWrapper::ListWrapper;

 protected:
  void change(model::Observation& seen) override {
    if (seen.blame == model::EndBlame::engine) seen.blame = model::EndBlame::host;
  }
};

class BlamesNoHost : public ListWrapper {
 public:
  using ListWrapper::ListWrapper;

 protected:
  void change(model::Observation& seen) override {
    if (seen.blame == model::EndBlame::host) seen.blame = model::EndBlame::engine;
  }
};

class ExcludesNoHost : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void submit(engine::Gang gang) override {
    gang.excluded_hosts.clear();
    real_.submit(std::move(gang));
  }
};

// Nodes that are to be killed count as gone, and their jobs go on.
class ForgetsWhatItIsToKill : public EngineWrapper {
 public:
  using EngineWrapper::EngineWrapper;
  void kill(const model::NodeName& node) override { killed_.insert(node); }
  Result<engine::EngineList> list() override {
    auto listed = TRY(real_.list());
    std::erase_if(listed.nodes, [&](const engine::ListedNode& node) {
      return killed_.contains(node.node) && node.seen.phase == model::NodePhase::pending;
    });
    return listed;
  }

 private:
  std::set<model::NodeName> killed_;
};

template <class Broken>
std::function<store::Store&(store::Store&)> with_store() {
  return [kept = std::make_shared<std::unique_ptr<Broken>>()](store::Store& real) -> store::Store& {
    return *(*kept = std::make_unique<Broken>(real));
  };
}

template <class Broken>
std::function<engine::Engine&(engine::Engine&, Hosts&)> with_engine() {
  return [kept = std::make_shared<std::unique_ptr<Broken>>()](engine::Engine& real,
                                                              Hosts& hosts) -> engine::Engine& {
    return *(*kept = std::make_unique<Broken>(real, hosts));
  };
}

// The violation that the first failing seed reports.
std::string found(SimulationSetup setup) {
  for (setup.seed = 1; setup.seed <= 30; ++setup.seed)
    if (const SimulationOutcome verdict = Simulation(setup).run(); verdict.violation)
      return *verdict.violation;
  return "nothing";
}

TEST(Checks, FindAStoreThatLosesACommit) {
  EXPECT_THAT(found({.wrap_store = with_store<LosesACommit>()}),
              AnyOf(HasSubstr("the store does not hold what the controller believes"),
                    HasSubstr("changes, but not its version"), HasSubstr("goes from version"),
                    HasSubstr("was acknowledged, and the store does not have it"),
                    HasSubstr("was told that it is done, and it is not")));
}

TEST(Checks, FindAStoreThatKeepsHalfACommit) {
  EXPECT_THAT(found({.wrap_store = with_store<StoresHalf>()}),
              HasSubstr("the store does not hold what the controller believes"));
}

// The daemon refuses the second agent, so no rank runs twice.
TEST(Checks, FindAnEngineThatLaunchesTwice) {
  EXPECT_THAT(found({.wrap_engine = with_engine<LaunchesTwice>()}),
              HasSubstr("leaves while ranks of"));
}

TEST(Checks, FindAnEngineThatOnlySaysThatItLaunched) {
  EXPECT_THAT(found({.wrap_engine = with_engine<LaunchesNothing>()}), HasSubstr("it met no fault"));
}

TEST(Checks, FindAnEngineThatForgetsALiveNode) {
  EXPECT_THAT(found({.wrap_engine = with_engine<ForgetsALiveNode>()}),
              AnyOf(HasSubstr("is released while process"), HasSubstr("but it met no fault")));
}

TEST(Checks, FindAnEngineThatListsTheDead) {
  EXPECT_THAT(found({.wrap_engine = with_engine<RemembersTheDead>()}), HasSubstr("is to end for"));
}

TEST(Checks, FindAnEngineThatOnlySaysThatItKilled) {
  EXPECT_THAT(found({.wrap_engine = with_engine<KillsNobody>()}),
              HasSubstr("to be killed, and was not"));
}

TEST(Checks, FindAnEngineThatKillsTheWrongNode) {
  EXPECT_THAT(found({.wrap_engine = with_engine<KillsAnother>()}),
              AnyOf(HasSubstr("is killed while its attempt goes on"),
                    HasSubstr("to be killed, and was not")));
}

template <class Broken>
std::string found_where_the_engine_places() {
  return found({.chosen_by = ChosenBy::engine, .wrap_engine = with_engine<Broken>()});
}

TEST(Checks, FindAnEngineThatNamesAnotherHost) {
  EXPECT_THAT(found_where_the_engine_places<NamesAnotherHost>(),
              HasSubstr("is said to be on another, and the cluster chose"));
}

TEST(Checks, FindAnEngineThatNamesNoHost) {
  EXPECT_THAT(found_where_the_engine_places<NamesNoHost>(),
              HasSubstr("is shown on -, and the cluster has it on"));
}

TEST(Checks, FindAnEngineThatSaysThatPendingNodesStart) {
  EXPECT_THAT(found_where_the_engine_places<SaysThatAllStart>(), HasSubstr("is shown as"));
}

TEST(Checks, FindAnEngineThatBlamesTheWrongHost) {
  EXPECT_THAT(found_where_the_engine_places<BlamesTheHost>(),
              HasSubstr("is blamed for the end of"));
}

TEST(Checks, FindAnEngineThatBlamesNoHost) {
  EXPECT_THAT(found_where_the_engine_places<BlamesNoHost>(),
              HasSubstr("and this does not count as a loss"));
}

TEST(Checks, FindAnEngineThatExcludesNoHost) {
  EXPECT_THAT(found_where_the_engine_places<ExcludesNoHost>(), HasSubstr("may be placed on"));
}

TEST(Checks, FindAnEngineThatForgetsTheJobsThatItIsToCancel) {
  EXPECT_THAT(found_where_the_engine_places<ForgetsWhatItIsToKill>(),
              AnyOf(HasSubstr("which has ended, and nothing cancels it"),
                    HasSubstr("to be killed, and was not")));
}

}  // namespace
}  // namespace lockstep::sim
