#include "text/shell_words.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ShellWords, AreWrittenAsTheyWouldBeTyped) {
  EXPECT_EQ(shell_words({"python", "train.py", "--lr=1e-3"}), "python train.py --lr=1e-3");
  EXPECT_EQ(shell_words({"sh", "-c", "echo it's; exit 7"}), R"(sh -c 'echo it'\''s; exit 7')");
  EXPECT_EQ(shell_words({"a", "", "größe 1"}), "a '' 'größe 1'");
}

TEST(ShellWords, StayOnOneLineWhateverIsInThem) {
  EXPECT_EQ(shell_words({"one\ntwo's", "\x1b[2J"}), R"($'one\ntwo\'s' $'\x1b[2J')");
}

}  // namespace
}  // namespace lockstep
