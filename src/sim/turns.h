// Turns: whether those who start stood ahead, or delay nobody who does, and keep to what operators
// have set: the promises of the queue (docs/design/scheduler.md), judged without the pass' own
// means, by counting free devices host by host. It judges what was decided, and plans nothing.
//
// The head is the first of those who go on waiting, if the map can hold it and no limit keeps it.
// What starts behind it must not move the first moment at which it fits, if everybody who holds
// devices uses up his time-out. Those who start in one commit are judged one after another: there
// must be an order in which each, at his turn, stands ahead of the head or does not put it off.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/commit.h"
#include "sim/ground.h"

namespace lockstep::sim {

// What orphans of one run hold, as the run of an attempt.
struct Foreign {
  Run run{};
  Attempt attempt{};
  std::vector<Node> nodes{};
};

// A run, and what it holds if an attempt of it lives.
struct Claim {
  const Run* run = nullptr;
  const Attempt* attempt = nullptr;  // of one that starts: null until its turn has come
  std::vector<const Node*> nodes{};
  bool starts = false;  // now
  bool moves = false;   // it does where devices were kept for it, and stood in no queue
};

// Of every open run one claim, but for those that wait and of whose name an orphan goes on; those
// of orphans; and what operators have set.
struct Standing {
  std::vector<Claim> claims{};
  std::vector<std::shared_ptr<const Foreign>>
      orphans{};                             // shared by copies, whose claims point there
  std::map<std::string, HostState> hosts{};  // those that are not open
  std::map<LimitId, int> limits{};
};

// As the rows will stand after the commit, which starts some.
Standing standing_of(const State& durable, const Commit& commit);

class Turns {
 public:
  explicit Turns(const Map& map) : ground_(map) {}

  // What is wrong with who starts, if anything is.
  std::optional<std::string> wrong_start(const Standing& standing) const;
  // Whether the first of those that wait starts later than it would have, whoever starts, and
  // neither who outlives his time-out nor a host that was closed or drained is why.
  std::optional<std::string> put_off(const Standing& before, const Standing& after, Time now) const;
  // When nobody starts any more: who waits though he fits, and would delay nobody.
  std::optional<std::string> idle(const Standing& standing, Time now) const;

  // Those who wait for devices, in the order in which they stand.
  std::vector<RunId> order(const Standing& standing) const;
  struct Head {
    const Run* run = nullptr;
    // The end at which it fits; the beginning of time if it does now.
    Time start{};
  };
  std::optional<Head> head(const Standing& standing) const;

 private:
  // In the lane or not; the key; behind whom among equals. The smaller stands ahead.
  using Place = std::tuple<int, Time, int, int, Time, Time, RunId>;
  using Places = std::map<RunId, Place>;
  using Holders = std::vector<const Claim*>;
  // Devices until they are given back.
  struct Hold {
    const Claim* claim = nullptr;
    Time end{};
    bool is_last = true;                                 // of the claim
    std::vector<std::pair<std::string, int>> devices{};  // by host
  };
  static std::vector<Hold> holds_of(const Holders& holders);

  std::set<RunId> in_lane(const Standing& standing) const;
  Places places_of(const Standing& standing) const;
  const Run* first_waiting(const Standing& standing, const Places& places,
                           std::optional<int> rank = {}) const;
  bool can_be_placed(const Standing& standing, const RunSpec& spec) const;
  Ground::Free free_of(const Standing& standing, const Holders& holders) const;
  void give(const Standing& standing, const Hold& hold, Ground::Free& free, int sign) const;
  std::optional<Time> first_fit(const Standing& standing, const Run& run, Holders holders,
                                Duration behind = {}) const;

  std::optional<std::string> wrong_place(const Standing& standing, const Claim& claim) const;
  // By those of the claims that are left, what is wrong with them: tried before.
  using InVain = std::map<std::set<std::size_t>, std::string>;
  std::optional<std::string> wrong_turns(const Standing& standing) const;
  std::optional<std::string> wrong_from(Standing& moment, const Standing& end,
                                        InVain& in_vain) const;
  std::optional<std::string> wrong_turn(const Standing& moment, const Places& places,
                                        const Claim& claim) const;
  bool takes_limit(const Standing& standing, const Places& places, const Run& run) const;
  Time bound_for(const Standing& standing, const Places& places, const Run& run) const;

  const Ground ground_;
};

}  // namespace lockstep::sim
