#include "platform/host/rank_token.h"

#include <gtest/gtest.h>

namespace lockstep::host {
namespace {

const model::AttemptName kAttempt{"3f9c0a5e7d21b864", {{"my_demo.x", 42}, 2}};
const std::string kAgentToken(64, 'a');

TEST(RankToken, NamesItsAttemptAndHidesTheTokenOfTheAgents) {
  const std::string token = rank_token(kAttempt, kAgentToken);
  EXPECT_EQ(attempt_of_rank_token(token), kAttempt);
  EXPECT_EQ(token.find(kAgentToken), std::string::npos);
  EXPECT_NE(token, rank_token(kAttempt, std::string(64, 'b')));
  const model::AttemptName plain{"", {{"demo", 1}, 1}};
  EXPECT_EQ(attempt_of_rank_token(rank_token(plain, kAgentToken)), plain);
}

TEST(RankToken, OtherWordsNameNoAttempt) {
  const std::string digits(64, 'c');
  for (const std::string& words :
       {std::string(), std::string("lsr_"), "lsr_" + digits, "lst_demo/1.1_" + digits,
        "lsr_demo/1_" + digits, "lsr_x:demo/1.1_" + digits, "lsr_demo/1.1" + digits})
    EXPECT_FALSE(attempt_of_rank_token(words)) << words;
  EXPECT_EQ(rank_token(kAttempt, "no token"), "");
}

}  // namespace
}  // namespace lockstep::host
