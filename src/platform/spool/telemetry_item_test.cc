#include "platform/spool/telemetry_item.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/convert.h"

namespace lockstep::spool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Item, IsWrittenAsItIsRead) {
  const TelemetryItem item{
      .sequence = 7,
      .kind = TelemetryKind::metrics,
      .rank = 3,
      .step = 12,
      .time = Time(Duration(1'790'000'000'000'001)),
      .values = {{"loss", 2.5}, {"gap", -std::numeric_limits<double>::infinity()}}};
  EXPECT_EQ(from_json<TelemetryItem>(to_json(item)).value(), item);
}

TEST(Item, HasTheNamesUnderWhichEarlierAgentsAndSpoolsWroteIt) {
  EXPECT_EQ(dump_json(to_json(TelemetryItem{.sequence = 1, .text = "one"})),
            R"({"sequence":1,"kind":"log","rank":0,"step":0,"steps":0,)"
            R"("time":"1970-01-01T00:00:00Z","text":"one","values":{}})");
}

TEST(Item, OfAnUnknownKindIsRefusedByItsField) {
  const auto read = from_json<TelemetryItem>(Json{{"kind", "progess"}});
  EXPECT_EQ(read.error().code, Code::invalid);
  EXPECT_THAT(read.error().message,
              AllOf(HasSubstr("kind: "), HasSubstr("'progess'"),
                    HasSubstr("log, metrics, telemetry, progress, checkpoint, event"),
                    HasSubstr("did you mean 'progress'?")));
  EXPECT_FALSE(from_json<TelemetryItem>(Json::object())) << "nobody guesses what it is";
}

TEST(Item, OfALogCountsItsLines) {
  EXPECT_EQ(line_count({.kind = TelemetryKind::log, .text = "one"}), 1);
  EXPECT_EQ(line_count({.kind = TelemetryKind::log, .text = "one\n\nthree"}), 3);
  EXPECT_EQ(line_count({.kind = TelemetryKind::log, .text = ""}), 1) << "an empty line";
  EXPECT_EQ(line_count({.kind = TelemetryKind::checkpoint, .text = "/c\n"}), 0);
}

}  // namespace
}  // namespace lockstep::spool
