#include "platform/core/step/ending/reason_text.h"

#include <chrono>

#include <gtest/gtest.h>

namespace lockstep::step {
namespace {

TEST(Words, DurationsAreShort) {
  EXPECT_EQ(short_text(std::chrono::seconds(10)), "10s");
  EXPECT_EQ(short_text(std::chrono::minutes(30)), "30m");
  EXPECT_EQ(short_text(std::chrono::hours(2)), "2h");
  EXPECT_EQ(short_text(std::chrono::minutes(90)), "1h 30m");
}

TEST(Words, ALineFromOutsideIsCutAtAWholeCharacter) {
  EXPECT_EQ(one_line("a\nb\tc"), "a b c");
  EXPECT_LE(one_line(std::string(299, 'x') + "\xc3\xa9\xc3\xa9").size(), 300u);
  EXPECT_EQ(one_line(std::string(299, 'x') + "\xc3\xa9"), std::string(299, 'x'));
  EXPECT_EQ(one_line(std::string(298, 'x') + "\xc3\xa9\xc3\xa9"),
            std::string(298, 'x') + "\xc3\xa9");
}

}  // namespace
}  // namespace lockstep::step
