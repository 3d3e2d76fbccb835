#include "platform/host/rank_token.h"

#include <gtest/gtest.h>

namespace lockstep::host {
namespace {

const RankName kRank{{"3f9c0a5e7d21b864", {{"my_demo.x", 42}, 2}}, 5};
const std::string kAgentToken(64, 'a');

TEST(RankToken, NamesItsRankAndHidesTheTokenOfTheAgents) {
  const std::string token = rank_token(kRank, kAgentToken);
  EXPECT_EQ(rank_of_token(token), kRank);
  EXPECT_EQ(token.find(kAgentToken), std::string::npos);
  EXPECT_NE(token, rank_token(kRank, std::string(64, 'b')));
  EXPECT_NE(token.substr(token.size() - 64),
            rank_token({kRank.attempt, 6}, kAgentToken).substr(token.size() - 64));
  const RankName plain{{"", {{"demo", 1}, 1}}, 0};
  EXPECT_EQ(rank_of_token(rank_token(plain, kAgentToken)), plain);
}

TEST(RankToken, OtherWordsNameNoRank) {
  const std::string digits(64, 'c');
  for (const std::string& words :
       {std::string(), std::string("lsr_"), "lsr_" + digits, "lst_demo/1.1_0_" + digits,
        "lsr_demo/1_0_" + digits, "lsr_x:demo/1.1_0_" + digits, "lsr_demo/1.1_0" + digits,
        "lsr_demo/1.1_" + digits, "lsr_demo/1.1_-1_" + digits, "lsr_demo/1.1_x_" + digits})
    EXPECT_FALSE(rank_of_token(words)) << words;
  EXPECT_EQ(rank_token(kRank, "no token"), "");
}

}  // namespace
}  // namespace lockstep::host
