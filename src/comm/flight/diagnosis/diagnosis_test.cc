#include "comm/flight/diagnosis/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/diagnosis/flight_text.h"
#include "comm/flight/diagnosis/logs_for_test.h"

namespace lockstep::comm {
namespace {

using namespace testing_flight;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SizeIs;

TEST(FlightVerdict, NamesWhoHasNotEnteredAndInWhatItWasLastSeen) {
  EXPECT_EQ(diagnose(group_of(one_late_rank()), kNow),
            "rank 2 is at #812 reduce_scatter(layers.7, 4.0 MiB); rank 1 has not entered #811 "
            "all_gather(layers.6, 4.0 MiB), last seen 40.0s ago in #810 barrier, waiting for rank "
            "0 to call it too");
}

TEST(FlightVerdict, TellsThatAProcessHasEndedAndWhoLeftNoRecord) {
  auto logs = one_late_rank();
  logs[1].process = ProcessState::ended;
  logs.erase(logs.begin());
  EXPECT_EQ(diagnose(group_of(std::move(logs)), kNow),
            "rank 2 is at #812 reduce_scatter(layers.7, 4.0 MiB); rank 1 has not entered #811 "
            "all_gather(layers.6, 4.0 MiB), last seen 40.0s ago in #810 barrier, waiting for rank "
            "0 to call it too; its process 4701 on host-a has ended; there is no record of rank 0");
}

TEST(FlightVerdict, BlamesOfSeveralBehindThoseWhoWaitForNobody) {
  const auto first = call(5, "all_reduce"), second = call(6, "barrier");
  const auto words = diagnose(
      group_of({rank(0, {done(first, milliseconds(0), milliseconds(9)),
                         started(second, milliseconds(10))}),
                rank(1, {waiting(started(first, milliseconds(0)), 2, WaitReason::send_data)}),
                rank(2, {started(first, milliseconds(0))})}),
      kNow);
  EXPECT_EQ(words,
            "rank 0 is at #6 barrier; rank 2 has not entered #6 barrier, last seen 40s ago in "
            "#5 all_reduce(4.0 MiB)");
}

TEST(FlightVerdict, TellsWhoWaitsForWhomWhenAllAreInTheSameCall) {
  const auto reduce = call(7, "all_reduce", "loss");
  EXPECT_EQ(
      diagnose(
          group_of(
              {rank(0, {waiting(started(reduce, milliseconds(0)), 1, WaitReason::send_data)}),
               rank(1, {started(reduce, milliseconds(10))}),
               rank(2, {waiting(started(reduce, milliseconds(0)), 1, WaitReason::send_data)})}),
          kNow),
      "ranks 0, 1 and 2 are in #7 all_reduce(loss, 4.0 MiB): ranks 0 and 2 wait for rank 1 "
      "to send data (40s), rank 1 waits for no rank, last seen 40.0s ago");
}

TEST(FlightVerdict, TellsWhatFailed) {
  const auto reduce = call(7, "all_reduce");
  const auto of_rank = [&](int number) {
    return rank(number, {failed(waiting(started(reduce, milliseconds(0)), (number + 1) % 3,
                                        WaitReason::send_data))});
  };
  EXPECT_EQ(diagnose(group_of({of_rank(0), of_rank(1), of_rank(2)}), kNow),
            "ranks 0, 1 and 2 failed in #7 all_reduce(4.0 MiB): rank 2 waited for rank 0 to send "
            "data (30s), rank 0 waited for rank 1 to send data (30s), rank 1 waited for rank 2 to "
            "send data (30s)");
}

TEST(FlightVerdict, NamesCallsThatDoNotMatch) {
  auto sum = call(7, "all_reduce");
  sum.type = "float32";
  sum.reduction = "sum";
  auto root = call(7, "broadcast");
  root.root = 1;
  EXPECT_EQ(diagnose(group_of({rank(0, {started(sum, milliseconds(0))}),
                               rank(1, {started(sum, milliseconds(0))}),
                               rank(2, {started(root, milliseconds(0))})}),
                     kNow),
            "the ranks' calls do not match at #7: rank 0 called all_reduce(float32 sum, 4194304 "
            "bytes), rank 2 called broadcast(root 1, 4194304 bytes)");
}

TEST(FlightVerdict, TellsThatNothingIsUnderWay) {
  const auto over = done(call(7, "barrier"), milliseconds(0), milliseconds(1));
  EXPECT_EQ(diagnose(group_of({rank(0, {over}), rank(1, {over}), rank(2, {over})}), kNow),
            "ranks 0, 1 and 2 have ended #7 barrier, the last 40.0s ago; nothing is under way");
  EXPECT_EQ(diagnose(group_of({rank(0, {}), rank(1, {}), rank(2, {})}), kNow),
            "no collective was called");
}

FlightOperation exchange(std::string name, int peer, int tag, milliseconds at) {
  auto operation = started(call(0, std::move(name)), at);
  operation.receives = operation.name == "recv";
  operation.peer = peer;
  operation.root = tag;
  return operation;
}

TEST(FlightVerdict, NamesTheSendThatAPipelineWaitsForAndWhoWaitsForNobody) {
  const auto barrier = done(call(7, "barrier"), milliseconds(0), milliseconds(2));
  auto recv = exchange("recv", 1, 5, seconds(10));
  recv.label = "stage.1";
  EXPECT_EQ(diagnose(group_of({rank(0, {barrier, exchange("recv", 2, 6, seconds(20))}),
                               rank(1, {barrier}), rank(2, {barrier, recv})}),
                     kNow),
            "rank 2 waits for the send of rank 1 with tag 5 for stage.1 (30s), rank 0 waits for "
            "the send of rank 2 with tag 6 (20s); rank 1 waits for no rank, last seen 40.0s ago "
            "after #7 barrier");
}

TEST(FlightVerdict, TellsOfExchangesBesideCollectives) {
  const auto barrier = call(1, "barrier");
  EXPECT_EQ(
      diagnose(
          group_of({rank(0, {waiting(started(barrier, seconds(0)), 2, WaitReason::enter_call)}),
                    rank(1, {waiting(started(barrier, seconds(0)), 2, WaitReason::enter_call)}),
                    rank(2, {exchange("recv", kAnyPeer, 1, seconds(30))})}),
          kNow),
      "ranks 0 and 1 are at #1 barrier; rank 2 has not entered #1 barrier, last seen 10s ago "
      "before its first collective; rank 2 waits for the send of any rank with tag 1 (10s)");
}

TEST(FlightVerdict, PassesOverExchangesThatEndedWell) {
  auto send = exchange("send", 1, 5, seconds(1));
  send.state = FlightState::done;
  send.ended = kBegin + seconds(2);
  EXPECT_EQ(describe_stall(group_of({rank(0, {send}), rank(1, {}), rank(2, {})}), kNow), "");
  send.state = FlightState::failed;
  EXPECT_EQ(describe_stall(group_of({rank(0, {send}), rank(2, {})}), kNow),
            "rank 0 waited for the recv of rank 1 with tag 5 (1s)");
}

TEST(FlightVerdict, NamesTheRankThatHoldsUpTheOthers) {
  EXPECT_EQ(find_late_rank(group_of(one_late_rank())), 1);
  const auto barrier = started(call(1, "barrier"), seconds(0));
  const auto waits = waiting(barrier, 2, WaitReason::enter_call);
  EXPECT_EQ(find_late_rank(group_of({rank(0, {waits}), rank(1, {waits}), rank(2, {barrier})})), 2);
  EXPECT_EQ(find_late_rank(group_of({rank(0, {waits}), rank(1, {waits}), rank(2, {})})), 2);
  EXPECT_EQ(find_late_rank(group_of({rank(0, {}), rank(1, {}), rank(2, {})})), -1);
  EXPECT_EQ(find_late_rank(group_of({rank(0, {exchange("recv", 1, 5, seconds(1))}), rank(1, {})})),
            1);
}

TEST(FlightGroups, OfTheSameNameAreToldApartByWhenTheyBegan) {
  auto before = rank(0, {});
  auto after = rank(0, {});
  after.group = "world-g1";
  after.recorded_since += seconds(5);
  const auto groups = flight_groups({before, after});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].name, "world since 2027-01-15T08:00:00Z");
  EXPECT_EQ(groups[1].name, "world since 2027-01-15T08:00:05Z");
}

TEST(FlightGroups, KeepOfTwoRecordsOfARankTheLaterBegun) {
  auto old = rank(1, {call(1, "barrier")});
  auto later = rank(1, {call(9, "barrier")});
  later.recorded_since += seconds(1);
  const auto group = group_of({old, later, rank(0, {})});
  ASSERT_THAT(group.logs, SizeIs(2));
  EXPECT_EQ(group.logs[1].operations.at(0).sequence, 9u);
}

TEST(FlightAges, CountFromTheLastRecordOnceAllProcessesHaveEnded) {
  auto logs = one_late_rank();
  EXPECT_EQ(viewed_at(logs, kNow), kNow);
  for (FlightLog& log : logs) log.process = ProcessState::ended;
  EXPECT_EQ(viewed_at(logs, kNow), kBegin + milliseconds(20));
}

TEST(FlightWords, NameRanksAndSpans) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 3}), "ranks 0, 1, 2 and 3");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 4, 5}), "ranks 0, 1, 2, 3 and 2 more");
  EXPECT_EQ(duration_text(Nanoseconds(-5)), "0s");
  EXPECT_EQ(duration_text(Nanoseconds(740)), "740ns");
  EXPECT_EQ(duration_text(milliseconds(1234)), "1.2s");
}

}  // namespace
}  // namespace lockstep::comm
