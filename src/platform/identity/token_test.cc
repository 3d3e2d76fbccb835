#include "platform/identity/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::identity {
namespace {

using ::testing::MatchesRegex;

Directory directory_with(const TokenText& token) {
  Directory directory;
  directory.users["ann"] = {.name = "ann"};
  directory.tokens[token.id] = {.id = token.id, .secret_hash = secret_hash(token), .user = "ann"};
  return directory;
}

TEST(Token, IsReadAsItWasMade) {
  const TokenText token = new_token();
  const std::string words = text(token);
  EXPECT_THAT(words, MatchesRegex("lst_[0-9A-Za-z]{12}_[0-9A-Za-z]{43}"));
  const auto read = parse_token(words);
  ASSERT_TRUE(read);
  EXPECT_EQ(text(*read), words);
  EXPECT_NE(text(new_token()), words);
}

TEST(Token, OtherTextsAreNone) {
  const std::string words = text(new_token());
  for (const std::string& other :
       {std::string(), std::string("lst_"), words + "a", words.substr(1), "LST" + words.substr(3),
        words.substr(0, 16) + "." + words.substr(17), words.substr(0, words.size() - 1) + "-",
        std::string(10'000, 'a')})
    EXPECT_FALSE(parse_token(other)) << other;
}

TEST(Token, IsFoundByItsSecret) {
  const TokenText token = new_token();
  const Directory directory = directory_with(token);
  ASSERT_NE(find_token(directory, text(token), Time()), nullptr);
  EXPECT_EQ(find_token(directory, text(token), Time())->user, "ann");
  EXPECT_EQ(find_token(directory, text({token.id, new_token().secret}), Time()), nullptr)
      << "forged";
  EXPECT_EQ(find_token(directory, text({new_token().id, token.secret}), Time()), nullptr);
  EXPECT_EQ(find_token(directory, "lst_" + token.id + "_" + secret_hash(token), Time()), nullptr)
      << "the hash is no secret";
}

TEST(Token, EndsAtItsTimeAndWithItsUser) {
  const TokenText token = new_token();
  Directory directory = directory_with(token);
  const Time end{std::chrono::seconds(100)};
  directory.tokens[token.id].ends = end;
  EXPECT_NE(find_token(directory, text(token), end - Duration(1)), nullptr);
  EXPECT_EQ(find_token(directory, text(token), end), nullptr);
  directory.users["ann"].disabled = true;
  EXPECT_EQ(find_token(directory, text(token), Time()), nullptr);
  directory.users["ann"] = {.name = "ann", .removed = Time()};
  EXPECT_EQ(find_token(directory, text(token), Time()), nullptr);
}

}  // namespace
}  // namespace lockstep::identity
