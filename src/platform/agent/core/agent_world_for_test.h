// For tests of the core: a shell without processes. It records effects and answers those that have
// an answer at once.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "platform/agent/core/step.h"

namespace lockstep::agent::testing_world {

inline constexpr Duration kSecond = std::chrono::seconds(1);

inline AgentSettings settings_for_test() {
  return {.first_rank = 2,
          .nodes = 2,
          .hang_after = 30 * kSecond,
          .time_left = 100 * kSecond,
          .start_limit = 300 * kSecond};
}

class AgentStepTest : public testing::Test {
 protected:
  void configure(const AgentSettings& settings) { state = AgentState(settings); }

  void handle(const Event& event) {
    for (const Effect& effect : step(state, event, now))
      std::visit([&](const auto& each) { carry_out(each); }, effect);
  }
  void command(model::CommandKind kind) {
    handle(CommandReceived{{.kind = kind, .grace = 10 * kSecond}});
  }
  // Two ranks run; the ranks of other nodes may not.
  void start() { command(model::CommandKind::start); }
  void end(int local_rank, model::RankState how, int code) {
    handle(RanksEnded{{{local_rank, how, code}}});
  }
  // A second at a time, as the shell does at least.
  void pass(Duration duration) {
    for (Duration left = duration; left > Duration(0) && !exited; left -= kSecond) {
      now += std::min(left, kSecond);
      since_answer += daemon_is_away ? std::min(left, kSecond) : Duration(0);
      handle(TimePassed{since_answer, all_delivered, since_answer});
    }
  }
  // Until nothing is left of the ranks.
  void clean_up() {
    for (int i = 0; i < 3; ++i) pass(kSecond / 10);
  }
  const model::Rank& rank(int local_rank) const { return state.ranks.at(local_rank); }

  AgentState state{settings_for_test()};
  Duration now = 1000 * kSecond;
  bool daemon_is_away = false;
  Duration since_answer{};
  bool all_delivered = true;
  // The processes.
  std::vector<std::int64_t> pids = {11, 12};
  std::string start_error;
  bool lacks_folder = false;
  std::optional<std::string> restart_error;
  std::vector<RankEnd> unseen_ends;  // the next check finds them
  std::map<int, RankActivity> activities;
  std::vector<std::int64_t> leftovers;
  // Carried out.
  std::vector<int> signals;
  std::vector<int> restarted_ranks;
  std::vector<std::string> events;
  std::vector<int> notified_ranks;
  std::vector<int> logged_ranks;  // their last lines
  int checks = 0;
  int reports = 0;
  int finished = 0;
  bool exited = false;

 private:
  void carry_out(const StartRanks&) { handle(RanksStarted{pids, start_error, lacks_folder}); }
  void carry_out(const RestartRank& effect) {
    restarted_ranks.push_back(effect.local_rank);
    if (restart_error) return handle(RestartFailed{effect.local_rank, *restart_error});
    handle(RankRestarted{effect.local_rank, 100 + std::ssize(restarted_ranks)});
  }
  void carry_out(const CheckRanks&) {
    ++checks;
    if (!unseen_ends.empty()) handle(RanksEnded{std::exchange(unseen_ends, {})});
    handle(RanksChecked{activities});
  }
  void carry_out(const SignalRanks& effect) { signals.push_back(effect.signal); }
  void carry_out(const KillLeftovers&) { handle(LeftoversChecked{leftovers}); }
  void carry_out(const FinishStreams&) { ++finished; }
  void carry_out(const ReportStatus&) { ++reports; }
  void carry_out(const AddEvent& effect) { events.push_back(effect.text); }
  void carry_out(const AddLogLine&) {}
  void carry_out(const NotifyPeers& effect) { notified_ranks.push_back(effect.rank); }
  void carry_out(const LogLastLines& effect) { logged_ranks.push_back(effect.local_rank); }
  void carry_out(const WriteLog&) {}
  void carry_out(const Exit&) { exited = true; }
};

}  // namespace lockstep::agent::testing_world
