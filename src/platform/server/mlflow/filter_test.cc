#include "platform/server/mlflow/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::mlflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Comparison only(std::string_view text) {
  const auto parsed = parse_filter(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  if (!parsed || parsed->size() != 1) return {};
  return parsed->front();
}

std::string refusal(std::string_view text) {
  const auto parsed = parse_filter(text);
  return parsed ? "" : parsed.error().message;
}

TEST(MlflowFilter, AnEmptyTextHoldsForAllRuns) {
  EXPECT_TRUE(parse_filter("")->empty());
  EXPECT_TRUE(parse_filter("  ")->empty());
}

TEST(MlflowFilter, AComparisonHasAColumnAnOperatorAndAValue) {
  const Comparison metric = only("metrics.loss < 0.5");
  EXPECT_EQ(metric.column.entity, Entity::metric);
  EXPECT_EQ(metric.column.key, "loss");
  EXPECT_EQ(metric.is, Operator::less);
  EXPECT_EQ(metric.number, 0.5);
  const Comparison param = only("params.lr='1e-3'");
  EXPECT_EQ(param.column.entity, Entity::param);
  EXPECT_THAT(param.texts, ElementsAre("1e-3"));
}

TEST(MlflowFilter, NumbersHaveSignsAndExponents) {
  EXPECT_EQ(only("metrics.a > -1.5e-3").number, -1.5e-3);
  EXPECT_EQ(only("metrics.a >= 1E+3").number, 1000);
  EXPECT_EQ(only("metrics.a=.5").number, 0.5);
}

TEST(MlflowFilter, ColumnsMayHaveSlashesPointsAndQuotationMarks) {
  EXPECT_EQ(only("metrics.val/loss.1 = 1").column.key, "val/loss.1");
  EXPECT_EQ(only("params.`batch size` = '3'").column.key, "batch size");
  EXPECT_EQ(only("tags.\"a b\" = '3'").column.key, "a b");
  EXPECT_EQ(only("tags.mlflow.source.name = 'x'").column.key, "mlflow.source.name");
}

TEST(MlflowFilter, AttributesHaveOtherNames) {
  EXPECT_EQ(only("status = 'FINISHED'").column.key, "status");
  EXPECT_EQ(only("attributes.`run name` LIKE 'a%'").column.key, "run_name");
  EXPECT_EQ(only("Created > 5").column.key, "start_time");
}

TEST(MlflowFilter, WordsOfTheLanguageHaveNoCase) {
  const auto parsed = parse_filter("params.a ilike 'x' and tags.b is not null AND tags.c Is Null");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 3u);
  EXPECT_EQ((*parsed)[0].is, Operator::ilike);
  EXPECT_EQ((*parsed)[1].is, Operator::is_not_null);
  EXPECT_EQ((*parsed)[2].is, Operator::is_null);
}

TEST(MlflowFilter, ListsHaveTexts) {
  EXPECT_THAT(only("run_id IN ('a-1', \"b-2\")").texts, ElementsAre("a-1", "b-2"));
  EXPECT_EQ(only("run_id NOT IN ('a')").is, Operator::not_in);
}

TEST(MlflowFilter, ErrorsNameTheirPart) {
  EXPECT_THAT(refusal("metrics.loss < 'x'"), HasSubstr("a number was expected, not 'x'"));
  EXPECT_THAT(refusal("params.a = 3"), HasSubstr("a text in quotation marks was expected"));
  EXPECT_THAT(refusal("params.a < '3'"), HasSubstr("a is a text"));
  EXPECT_THAT(refusal("metrics.a LIKE '3'"), HasSubstr("a is a number"));
  EXPECT_THAT(refusal("metrics.a ~ 3"), HasSubstr("'~' is not expected"));
  EXPECT_THAT(refusal("metrics.a = 3 OR metrics.b = 2"), HasSubstr("AND was expected, not 'OR'"));
  EXPECT_THAT(refusal("metrics.a = 3 AND"), HasSubstr("missing after AND"));
  EXPECT_THAT(refusal("color = 'red'"), HasSubstr("'color' is no attribute"));
  EXPECT_THAT(refusal("weights.a = 1"), HasSubstr("'weights' is none of metrics"));
  EXPECT_THAT(refusal("params.a = 'x"), HasSubstr("has no end"));
  EXPECT_THAT(refusal("params.a IN 'x'"), HasSubstr("'(' was expected"));
  EXPECT_THAT(refusal("status IS NULL"), HasSubstr("status is never absent"));
  EXPECT_THAT(refusal("params."), HasSubstr("a name is missing"));
}

TEST(MlflowFilter, OrderingsHaveADirection) {
  const auto down = parse_ordering("metrics.loss DESC");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->column.key, "loss");
  EXPECT_FALSE(down->ascending);
  EXPECT_TRUE(parse_ordering("attributes.start_time")->ascending);
  EXPECT_THAT(parse_ordering("metrics.loss DOWN").error().message, HasSubstr("ASC or DESC"));
}

}  // namespace
}  // namespace lockstep::mlflow
