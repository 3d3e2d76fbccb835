#include "comm/flight/diagnosis/across_groups.h"

#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/diagnosis/logs_for_test.h"

namespace lockstep::comm {
namespace {

using namespace testing_flight;
using testing::ElementsAre;
using testing::IsEmpty;

FlightLog log_in(const GroupRanks& members, int rank, std::vector<FlightOperation> operations) {
  auto log = testing_flight::rank(rank, std::move(operations));
  log.size = static_cast<int>(members.ranks.size());
  log.group = members.name;
  log.name = text(members);
  log.members = members.ranks;
  return log;
}

// Four ranks in shards of two. Rank 2 is stopped before its gather. Rank 3 waits for it there. In
// the replica groups, rank 0 waits for rank 2, and rank 1 for rank 3.
std::vector<FlightLog> one_stopped() {
  const GroupRanks shards0{"shards of replica 0", {0, 1}}, shards1{"shards of replica 1", {2, 3}};
  const GroupRanks replicas0{"replicas of shard 0", {0, 2}},
      replicas1{"replicas of shard 1", {1, 3}};
  const auto gather = done(call(1, "all_gather"), milliseconds(0), milliseconds(1));
  const auto next = started(call(2, "all_gather"), seconds(1));
  const auto sum = started(call(1, "all_reduce"), seconds(2));
  std::vector<FlightLog> logs = {
      log_in(shards0, 0, {gather}),
      log_in(shards0, 1, {gather}),
      log_in(shards1, 2, {gather}),
      log_in(shards1, 3, {gather, waiting(next, 2, WaitReason::enter_call)}),
      log_in(replicas0, 0, {waiting(sum, 2, WaitReason::send_data)}),
      log_in(replicas0, 2, {}),
      log_in(replicas1, 1, {waiting(sum, 3, WaitReason::send_data)}),
      log_in(replicas1, 3, {}),
  };
  for (FlightLog& log : logs)
    if (log.rank == 2) log.process = ProcessState::stopped;
  return logs;
}

TEST(FlightAcross, NamesTheRankThatHoldsUpAllGroupsAndNotThoseThatPassTheDelayOn) {
  const auto groups = flight_groups(one_stopped());
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_THAT(root_cause_ranks(groups), ElementsAre(2));
  EXPECT_EQ(
      describe_stall_across_groups(groups),
      "rank 2 holds up 3 groups; its process 4702 on host-a is stopped (SIGSTOP or a debugger)");
}

TEST(FlightAcross, EachGroupsVerdictNamesRanksByTheirNumbersInTheRun) {
  const auto groups = flight_groups(one_stopped());
  EXPECT_EQ(groups[3].name, "shards of replica 1: ranks 2, 3");
  EXPECT_EQ(
      diagnose(groups[3], kNow),
      "rank 3 is at #2 all_gather(4.0 MiB); rank 2 has not entered #2 all_gather(4.0 MiB), last "
      "seen 40.0s ago after #1 all_gather(4.0 MiB); its process 4702 on host-a is stopped "
      "(SIGSTOP or a debugger)");
}

TEST(FlightAcross, SaysNothingOfOneGroupAlone) {
  EXPECT_EQ(describe_stall_across_groups({group_of(one_late_rank())}), "");
  EXPECT_THAT(root_cause_ranks({}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::comm
