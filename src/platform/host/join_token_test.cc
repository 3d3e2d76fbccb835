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
    made.proof = keys_.join_proof(made, number);
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
  EXPECT_TRUE(keys_.is_join_token(*read, 0));
}

TEST_F(JoinTokenTest, IsForOneHostOnePodOneNumberAndOneEnd) {
  EXPECT_FALSE(keys_.is_join_token(token(), 1));
  JoinToken other = token();
  other.host = "gpu2";
  EXPECT_FALSE(keys_.is_join_token(other, 0));
  other = token();
  other.pod = "left";
  EXPECT_FALSE(keys_.is_join_token(other, 0));
  other = token();
  other.end += std::chrono::seconds(1);
  EXPECT_FALSE(keys_.is_join_token(other, 0));
}

TEST_F(JoinTokenTest, AnErrorDoesNotRepeatIt) {
  for (const std::string& words :
       {std::string(), std::string("gpu1"), std::string("a:b:c:d"), join_token_text(token()) + "0",
        "/" + join_token_text(token())}) {
    const auto read = parse_join_token(words);
    ASSERT_FALSE(read) << words;
    EXPECT_THAT(read.error().message, HasSubstr("lockstep host token"));
    EXPECT_THAT(read.error().message, Not(HasSubstr(token().proof)));
  }
}

}  // namespace
}  // namespace lockstep::host
