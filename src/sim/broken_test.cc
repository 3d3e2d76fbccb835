// The checks find what is broken: each of these worlds has a store or an engine that breaks its
// contract, and some seed shows it.
#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/world.h"

namespace lockstep::sim {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class OtherStore : public Store {
 public:
  explicit OtherStore(Store& real) : real_(real) {}
  Result<State> load() override { return real_.load(); }
  Result<void> commit(std::span<const Change> changes) override { return real_.commit(changes); }
  Result<void> probe() override { return real_.probe(); }

 protected:
  Store& real_;
};

class LosesACommit : public OtherStore {
 public:
  using OtherStore::OtherStore;
  Result<void> commit(std::span<const Change> changes) override {
    if (++commits_ % 20 == 0) return {};
    return real_.commit(changes);
  }

 private:
  int commits_ = 0;
};

class StoresHalf : public OtherStore {
 public:
  using OtherStore::OtherStore;
  Result<void> commit(std::span<const Change> changes) override {
    if (changes.size() < 4) return real_.commit(changes);
    TRY(real_.commit(changes.first(changes.size() - 1)));
    return Error{Code::unavailable, "torn"};
  }
};

class OtherEngine : public Engine {
 public:
  OtherEngine(Engine& real, Hosts& hosts) : real_(real), hosts_(hosts) {}
  Result<void> launch(const Launch& launch) override { return real_.launch(launch); }
  Result<void> kill(const NodeName& node) override { return real_.kill(node); }
  Result<Launch> launch_of(const NodeName& node) override { return real_.launch_of(node); }
  bool has_begun(const NodeName& node) override { return real_.has_begun(node); }
  Result<std::vector<Present>> list() override { return real_.list(); }

 protected:
  Engine& real_;
  Hosts& hosts_;
};

class LaunchesTwice : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<void> launch(const Launch& launch) override {
    TRY(real_.launch(launch));
    return hosts_.start(launch);
  }
};

class LaunchesNothing : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<void> launch(const Launch& launch) override {
    return launch.nodes == 1 ? Result<void>() : real_.launch(launch);
  }
};

class ForgetsALiveNode : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<std::vector<Present>> list() override {
    auto nodes = TRY(real_.list());
    if (++looks_ % 50 == 0 && !nodes.empty()) nodes.pop_back();
    return nodes;
  }

 private:
  int looks_ = 0;
};

class RemembersTheDead : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<std::vector<Present>> list() override {
    for (const Present& present : TRY(real_.list())) seen_.insert(present.node);
    std::vector<Present> all;
    for (const NodeName& node : seen_) all.push_back({node});
    return all;
  }

 private:
  std::set<NodeName> seen_;
};

class KillsAnother : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<void> kill(const NodeName& node) override {
    for (const Present& other : TRY(real_.list()))
      if (other.node != node) return real_.kill(other.node);
    return {};
  }
};

class KillsNobody : public OtherEngine {
 public:
  using OtherEngine::OtherEngine;
  Result<void> kill(const NodeName&) override { return {}; }
};

template <class Broken>
std::function<Store&(Store&)> with_store() {
  return [kept = std::make_shared<std::unique_ptr<Broken>>()](Store& real) -> Store& {
    return *(*kept = std::make_unique<Broken>(real));
  };
}

template <class Broken>
std::function<Engine&(Engine&, Hosts&)> with_engine() {
  return
      [kept = std::make_shared<std::unique_ptr<Broken>>()](Engine& real, Hosts& hosts) -> Engine& {
        return *(*kept = std::make_unique<Broken>(real, hosts));
      };
}

// What the first seed says that finds it.
std::string found(WorldSetup setup) {
  for (setup.seed = 1; setup.seed <= 30; ++setup.seed)
    if (const Verdict verdict = World(setup).run(); verdict.violation) return *verdict.violation;
  return "nothing";
}

TEST(Checks, FindAStoreThatLosesACommit) {
  EXPECT_THAT(found({.wrap_store = with_store<LosesACommit>()}),
              AnyOf(HasSubstr("the store does not hold what the controller believes"),
                    HasSubstr("changes, but not its version"),
                    HasSubstr("was told that it is done, and it is not")));
}

TEST(Checks, FindAStoreThatKeepsHalfACommit) {
  EXPECT_THAT(found({.wrap_store = with_store<StoresHalf>()}),
              HasSubstr("the store does not hold what the controller believes"));
}

TEST(Checks, FindAnEngineThatLaunchesTwice) {
  EXPECT_THAT(found({.wrap_engine = with_engine<LaunchesTwice>()}), HasSubstr("twice"));
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

}  // namespace
}  // namespace lockstep::sim
