#include "text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string json_error(std::string_view words, const JsonLimits& limits = {}) {
  auto json = parse_json(words, limits);
  return json ? "no error" : json.error().message;
}
std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, TextComesBackAsItWasInTheSameOrder) {
  std::string words =
      R"({"z":1,"a":[true,null,-2,1.5,"ü\n"],"o":{"":{}},"big":18446744073709551615})";
  EXPECT_EQ(dump_json(parse_json(words).value()), words);
}

TEST(Json, ScalarsAndSurroundingBlanksAreRead) {
  EXPECT_EQ(parse_json(" \n 12 ").value(), 12);
  EXPECT_EQ(parse_json(R"("\ud83d\ude00")").value(), "😀");
}

TEST(Json, WhatParsersDisagreeAboutIsRefused) {
  EXPECT_THAT(json_error(R"({"a":1,"b":{"a":1},"a":2})"),
              AllOf(HasSubstr("line 1, column 22: "), HasSubstr("'a'"), HasSubstr("twice")));
  EXPECT_THAT(json_error("[1e999]"),
              AllOf(HasSubstr("line 1, column 7: "), HasSubstr("too large")));
  for (const char* wrong :
       {R"("\ud800")", R"("\udc00x")", "1 2", "{} {}", "[1,]", "NaN", "nul", "", " ", "'a'",
        "{a:1}", "01", "+1", "\"\x01\"", "\"\xff\"", "//x\n1", "[", "{\"a\"", "\"a"})
    EXPECT_NE(json_error(wrong), "no error") << wrong;
}

TEST(Json, ErrorsNameLineAndColumn) {
  EXPECT_EQ(json_error("{\n  \"a\": 1,\n  \"b\": oops\n}").substr(0, 17), "line 3, column 8:");
  EXPECT_EQ(json_error("[1").find("line 1, column "), 0u) << json_error("[1");
}

TEST(Json, SizeAndDepthAreBounded) {
  EXPECT_EQ(json_error(nested(64)), "no error");
  EXPECT_THAT(json_error(nested(65)),
              AllOf(HasSubstr("line 1, column 65: "), HasSubstr("64 deep")));
  EXPECT_NE(json_error(std::string(1'000'000, '[')), "no error");
  EXPECT_THAT(json_error("[1,2,3]", {.size = 4_B, .depth = 2}),
              AllOf(HasSubstr("7 B"), HasSubstr("4 B")));
}

TEST(Json, AnObjectWithManyKeysIsReadInGoodTime) {
  std::string words = "{";
  for (int i = 0; i < 200'000; ++i) words += format("{}\"k{}\":0", i == 0 ? "" : ",", i);
  EXPECT_EQ(parse_json(words + "}").value().size(), 200'000u);
}

TEST(Json, AnyMutationIsAnsweredAndWhatIsReadIsWrittenAndReadAgain) {
  constexpr std::string_view kOriginal =
      R"({"a":[1,-2.5e3,true,null,"\ud83d\ude00\n"],"b":{"c":"ü","d":[[],{}]}})";
  constexpr std::string_view kBytes = "{}[]:,\"\\u0123.eE-+ \t\xff\xc3\x80tfn";
  Random random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string words(kOriginal);
    for (std::uint64_t i = 0; i <= random.below(3); ++i)
      words[random.below(words.size())] = kBytes[random.below(kBytes.size())];
    auto json = parse_json(words);
    if (json)
      EXPECT_EQ(parse_json(dump_json(*json)).value(), *json) << words;
    else
      EXPECT_TRUE(json.error().message.starts_with("line 1, column ")) << json.error().message;
  }
}

TEST(Json, BytesThatAreNotUtf8AreReplacedWhenWritten) {
  EXPECT_EQ(dump_json(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(Json, FieldsWithoutAValueAreLeftOut) {
  const Json value = {
      {"a", nullptr}, {"b", {{"c", nullptr}, {"d", 1}}}, {"e", {nullptr, {{"f", nullptr}}}}};
  EXPECT_EQ(dump_json(without_nulls(value)), R"({"b":{"d":1},"e":[null,{}]})");
}

TEST(Json, BriefFitsIntoAMessage) {
  EXPECT_EQ(summarize_json(Json::object()), "an object");
  EXPECT_EQ(summarize_json(Json("two")), "\"two\"");
  EXPECT_LE(summarize_json(Json(std::string(500, 'x'))).size(), 60u);
}

}  // namespace
}  // namespace lockstep
