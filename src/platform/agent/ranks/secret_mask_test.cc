// Values of secrets in the output of ranks.
#include "platform/agent/ranks/secret_mask.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

const std::string kValue = "correct-horse";

// Passes the text in reads of `size` bytes.
std::string pass_all(SecretMask mask, std::string_view text, std::size_t size) {
  std::string out;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size())))
    out += mask.pass(text.substr(0, size));
  return out + std::string(mask.pass_rest());
}

TEST(SecretMask, AValueIsReplacedHoweverTheReadsCutIt) {
  const std::string text = "token=correct-horse and ccorrect-horsecorrect-horse, correct-hors";
  for (std::size_t size = 1; size <= text.size(); ++size)
    EXPECT_EQ(pass_all(SecretMask({kValue}), text, size), "token=*** and c******, correct-hors")
        << size;
}

TEST(SecretMask, WithoutSecretsTheBytesPassUnchangedAndAtOnce) {
  SecretMask mask;
  EXPECT_EQ(mask.pass(std::string_view("a\0b", 3)), std::string_view("a\0b", 3));
  EXPECT_EQ(mask.pass_rest(), "");
  EXPECT_EQ(mask.masked("text"), "text");
}

TEST(SecretMask, OnlyBytesThatMayBeginAValueAreHeldBack) {
  SecretMask mask({kValue});
  EXPECT_EQ(mask.pass("loss 0.5\ncorrect-"), "loss 0.5\n");
  EXPECT_EQ(mask.pass("ed\n"), "correct-ed\n");
  EXPECT_EQ(mask.pass("corr"), "");
  EXPECT_EQ(mask.pass_rest(), "corr");
  EXPECT_EQ(mask.pass_rest(), "");
}

TEST(SecretMask, TheLongestOfSeveralValuesIsReplaced) {
  const SecretMask mask({"abcdefgh", "abcdefghij", "cdefghijk"});
  for (const std::size_t size : {1U, 3U, 100U}) {
    EXPECT_EQ(pass_all(mask, "abcdefghij", size), "***") << size;
    EXPECT_EQ(pass_all(mask, "abcdefgh.", size), "***.") << size;
    EXPECT_EQ(pass_all(mask, "abcdefghi", size), "***i") << size;
    EXPECT_EQ(pass_all(mask, "cdefghijk", size), "***") << size;
  }
}

TEST(SecretMask, ShortValuesAndBlanksAroundAValueDoNotCount) {
  const SecretMask mask({"1234567", "  \n", "", "longer-value\n"});
  EXPECT_EQ(mask.masked("1234567 longer-value\n"), "1234567 ***\n");
}

TEST(SecretMask, AValueOfSeveralLinesIsReplacedAsAWhole) {
  EXPECT_EQ(pass_all(SecretMask({"BEGIN\nabc\nEND"}), "key BEGIN\nabc\nEND\nnext", 4),
            "key ***\nnext");
}

TEST(SecretMask, ItTakesTheValuesOfTheNamedVariablesOnly) {
  const SecretMask mask =
      mask_of({{"KEY", "first-value"}, {"OTHER", "second-value"}}, {"KEY", "MISSING"});
  EXPECT_EQ(mask.masked("first-value second-value"), "*** second-value");
}

}  // namespace
}  // namespace lockstep::agent
