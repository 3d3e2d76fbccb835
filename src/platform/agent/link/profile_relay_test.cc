#include "platform/agent/link/profile_relay.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/base64.h"
#include "text/json.h"

namespace lockstep::agent {
namespace {

using api::TraceState;

class ProfileRelayTest : public testing::Test {
 protected:
  // With what the daemon has of rank 3's trace.
  static api::ProfileOrder order(std::int64_t received, std::string id = "a") {
    return {.request_id = std::move(id), .steps = 5, .base_us = 7, .ranks = {{3, received}}};
  }
  void write(const std::string& name, std::string_view content) const {
    ASSERT_TRUE(write_file(folder_ / name, content));
  }
  api::TraceReport report() const { return relay_.report().value().ranks.at(0); }

  const TemporaryFolder folder_;
  ProfileRelay relay_{folder_.path()};
};

TEST_F(ProfileRelayTest, RanksSeeTheOrderAsLongAsItIsInForce) {
  EXPECT_FALSE(relay_.report());
  EXPECT_FALSE(relay_.pass_on(order(0)));
  const Json seen = parse_json(read_file(folder_ / "order.json").value()).value();
  EXPECT_EQ(seen["request_id"], "a");
  EXPECT_EQ(seen["ranks"][0]["rank"], 3);
  EXPECT_FALSE(relay_.pass_on(std::nullopt));
  EXPECT_FALSE(read_file(folder_ / "order.json"));
  EXPECT_FALSE(relay_.report());
}

TEST_F(ProfileRelayTest, AReportSaysHowFarARankIs) {
  relay_.pass_on(order(0));
  EXPECT_EQ(report().state, TraceState::absent);
  write("rank-3.json", R"({"request_id":"older","state":"done","steps":5})");
  EXPECT_EQ(report().state, TraceState::waiting);
  write("rank-3.json", R"({"request_id":"a","state":"recording","steps":2})");
  EXPECT_EQ(report().state, TraceState::recording);
  EXPECT_EQ(report().steps, 2);
  write("rank-3.json", R"({"request_id":"a","state":"done","steps":5})");
  EXPECT_EQ(report().state, TraceState::failed) << "without a trace";
}

TEST_F(ProfileRelayTest, ATraceGoesFromTheByteThatTheDaemonLacks) {
  const std::string trace(600 << 10, 'x');
  relay_.pass_on(order(0));
  write("rank-3.json", R"({"request_id":"a","state":"done","steps":5})");
  write("rank-3.gz", trace);
  EXPECT_EQ(report().total, 600 << 10);
  EXPECT_EQ(net::from_base64(report().bytes)->size(), 512u << 10);
  EXPECT_FALSE(relay_.pass_on(order(0))) << "the daemon took nothing";
  EXPECT_TRUE(relay_.pass_on(order(512 << 10)));
  EXPECT_EQ(report().offset, 512 << 10);
  EXPECT_EQ(net::from_base64(report().bytes)->size(), 88u << 10);
}

}  // namespace
}  // namespace lockstep::agent
