#include "text/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Json read(std::string_view words) { return parse_yaml(words, "x.yaml").value().value; }
std::string yaml_error(std::string_view words, const YamlLimits& limits = {}) {
  auto document = parse_yaml(words, "x.yaml", limits);
  return document ? "no error" : document.error().message;
}

TEST(Yaml, PlainScalarsHaveTheTypesOfTheCoreSchema) {
  EXPECT_EQ(read("[null, ~, true, False, 12, -3, +4, 0x1F, 0o17, 1.5, .5, 1e3, -2.]"),
            Json::array({nullptr, nullptr, true, false, 12, -3, 4, 31, 15, 1.5, 0.5, 1e3, -2.0}));
  EXPECT_EQ(read("[.nan, .inf, -.inf]"), Json::array({"NaN", "Infinity", "-Infinity"}));
  EXPECT_EQ(read("[18446744073709551615, -9223372036854775808]"),
            Json::array({18446744073709551615u, std::numeric_limits<std::int64_t>::min()}));
}

TEST(Yaml, WhatOnlyLooksLikeANumberOrBooleanIsText) {
  Json words =
      read("[yes, no, on, 1_000, 10 Gbit/s, 12h, 1.2.3, '12', \"true\", e3, ., -, !!str 5]");
  for (const Json& word : words) EXPECT_TRUE(word.is_string()) << word;
}

TEST(Yaml, JsonIsRead) {
  EXPECT_EQ(read(R"({"a": [1, {"b": null}], "c": "x"})"),
            (Json{{"a", Json::array({1, Json{{"b", nullptr}}})}, {"c", "x"}}));
}

TEST(Yaml, EveryValueHasItsLine) {
  Document document =
      parse_yaml("# a comment\nname: x\npods:\n  - id: 1\n\n  - id: 2\n    a/b: 3\n", "x").value();
  EXPECT_EQ(document.line_of("/name"), 2);
  EXPECT_EQ(document.line_of("/pods"), 3);
  EXPECT_EQ(document.line_of("/pods/0/id"), 4);
  EXPECT_EQ(document.line_of("/pods/1"), 6);
  EXPECT_EQ(document.line_of("/pods/1/a~1b"), 7);
  EXPECT_EQ(document.line_of("/pods/1/missing/deeper"), 6);
}

TEST(Yaml, ErrorsNameFileAndLine) {
  EXPECT_THAT(yaml_error("a: 1\nb: 2\na: 3\n"),
              AllOf(HasSubstr("x.yaml:3: "), HasSubstr("'a'"), HasSubstr("twice")));
  EXPECT_THAT(yaml_error("a: 1\nb: 1e999\n"), AllOf(HasSubstr("x.yaml:2: "), HasSubstr("1e999")));
  EXPECT_THAT(yaml_error("a: 99999999999999999999\n"),
              AllOf(HasSubstr("x.yaml:1: "), HasSubstr("99999999999999999999")));
  EXPECT_THAT(yaml_error("a: 1\nb: !!binary xx\n"),
              AllOf(HasSubstr("x.yaml:2: "), HasSubstr("tag:yaml.org,2002:binary")));
  EXPECT_THAT(yaml_error("? [1]\n: 2\n"), AllOf(HasSubstr("x.yaml:1: "), HasSubstr("name")));
  EXPECT_THAT(yaml_error("a: 1\n---\nb: 2\n"),
              AllOf(HasSubstr("x.yaml:2: "), HasSubstr("second document")));
  for (const char* stray : {"a: 1\n]", "[1]]", "]", "}", "{a: 1}}", "a: 1\n- b"})
    EXPECT_EQ(yaml_error(stray).substr(0, 7), "x.yaml:") << stray;
  EXPECT_EQ(yaml_error("a: [1\nb: 2\n").substr(0, 7), "x.yaml:");
  EXPECT_EQ(yaml_error("a: \"x").substr(0, 7), "x.yaml:");
  EXPECT_EQ(yaml_error("a:\n\t- b\n").substr(0, 9), "x.yaml:2:");
}

TEST(Yaml, AnAliasStandsForItsValueAndExpansionIsBounded) {
  EXPECT_EQ(read("a: &x {k: 1}\nb: *x\n"), read("a: {k: 1}\nb: {k: 1}\n"));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    std::string alias = format("*a{}", i - 1);
    laughs += format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, alias);
  }
  EXPECT_NE(yaml_error(laughs).find("the aliases stand for too much"), std::string::npos);
  EXPECT_NE(yaml_error("a: &x [*x]\n"), "no error");
  EXPECT_NE(yaml_error("a: *nothing\n"), "no error");
}

TEST(Yaml, SizeAndDepthAreBounded) {
  EXPECT_THAT(yaml_error("a: 1", {.size = 3_B}), AllOf(HasSubstr("x.yaml: "), HasSubstr("3 B")));
  EXPECT_EQ(yaml_error("[[[1]]]", {.depth = 3}), "no error");
  EXPECT_THAT(yaml_error("[[[1]]]", {.depth = 2}),
              AllOf(HasSubstr("x.yaml:1: "), HasSubstr("2 deep")));
  EXPECT_NE(yaml_error(std::string(100'000, '[')), "no error");
  EXPECT_NE(yaml_error("[1, 2, 3]", {.values = 3}), "no error");
  std::string lists, fields;
  for (int i = 0; i < 10'000; ++i) lists += "- ";
  for (int i = 0; i < 500; ++i) fields += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  std::string flow;
  for (int i = 0; i < 10'000; ++i) flow += "{a: ";
  for (const std::string& deep : {lists + "x", fields, flow})
    EXPECT_EQ(yaml_error(deep).substr(0, 7), "x.yaml:");
}

TEST(Yaml, AnEmptyFileIsNull) {
  EXPECT_TRUE(read("").is_null());
  EXPECT_TRUE(read("# nothing\n").is_null());
}

TEST(Yaml, WhatIsWrittenReadsBack) {
  Json value = {{"name", "a b"},
                {"quoted", Json::array({"", "12", "true", "yes", "- x", "a: b", "#", "\n", "ü",
                                        "\x01", "1e5", "~", " x", "null", "\"", "'", "*", "..."})},
                {"numbers", Json::array({1, -1, 1.5, 1e300, true})},
                {"key: odd", Json::object()},
                {"empty", Json::array()},
                {"deep", Json::array({Json{{"a", Json::array({Json::array({1}), Json::array()})}},
                                      Json{{"b", Json{{"c", Json::array({Json::object()})}}}}})},
                {"long", std::string(200, 'x')}};
  EXPECT_EQ(read(dump_yaml(value)), value) << dump_yaml(value);
}

TEST(Yaml, IsWrittenAsPeopleWouldWriteIt) {
  Json value = {
      {"name", "lab"},
      {"link", Json{{"bandwidth", "10 Gbit/s"}, {"latency", nullptr}}},
      {"hosts", Json::array({Json{{"id", "a"}, {"list", Json::array({Json{{"x", 1}}})}}})}};
  EXPECT_EQ(
      dump_yaml(value),
      "name: lab\nlink: {bandwidth: 10 Gbit/s}\nhosts:\n  - id: a\n    list:\n      - {x: 1}\n");
}

}  // namespace
}  // namespace lockstep
