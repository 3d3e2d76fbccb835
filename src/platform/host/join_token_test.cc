#include "platform/host/join_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/host/keys.h"

namespace lockstep::host {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JoinTokenTest : public ::testing::Test {
 protected:
  JoinToken token(int number = 0) const {
    JoinToken made{.host = "gpu1",
                   .pod = "default",
                   .end = Time(std::chrono::seconds(1'790'000'000)),
                   .proof = {}};
    made.number = number;
    made.proof = keys_.join_proof(made);
    return made;
  }
  const Keys keys_ = Keys::from_values(net::Secret::random(), "t0ken");
};

TEST_F(JoinTokenTest, IsReadAsItIsWritten) {
  const auto read = parse_join_token(join_token_text(token()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->host, "gpu1");
  EXPECT_EQ(read->pod, "default");
  EXPECT_EQ(read->end, token().end);
  EXPECT_TRUE(keys_.is_join_token(*read));
  EXPECT_EQ(parse_join_token(join_token_text(token(7)))->number, 7);
}

TEST_F(JoinTokenTest, IsForOneHostOnePodOneNumberAndOneEnd) {
  JoinToken other = token();
  other.number = 1;
  EXPECT_FALSE(keys_.is_join_token(other));
  other = token();
  other.host = "gpu2";
  EXPECT_FALSE(keys_.is_join_token(other));
  other = token();
  other.pod = "left";
  EXPECT_FALSE(keys_.is_join_token(other));
  other = token();
  other.end += std::chrono::seconds(1);
  EXPECT_FALSE(keys_.is_join_token(other));
}

TEST_F(JoinTokenTest, AnErrorDoesNotRepeatIt) {
  for (const std::string& words :
       {std::string(), std::string("gpu1"), std::string("a:b:c:d:e"),
        join_token_text(token()) + "0", "/" + join_token_text(token())}) {
    const auto read = parse_join_token(words);
    ASSERT_FALSE(read) << words;
    EXPECT_THAT(read.error().message, HasSubstr("lockstep host token"));
    EXPECT_THAT(read.error().message, Not(HasSubstr(token().proof)));
  }
}

}  // namespace
}  // namespace lockstep::host
