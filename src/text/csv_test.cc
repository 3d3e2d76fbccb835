#include "text/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CsvLine {
  int line;
  std::vector<std::string> fields;
};
struct CsvWhole {
  std::vector<std::string> header;
  std::vector<CsvLine> rows;
};

Result<CsvWhole> read_csv(std::string_view words) {
  CsvReader reader = TRY(CsvReader::open(words, "jobs.csv"));
  CsvWhole table{reader.header(), {}};
  while (const CsvRow* row = TRY(reader.next()))
    table.rows.push_back({row->line, {row->fields.begin(), row->fields.end()}});
  return table;
}

std::string csv_error(std::string_view words) {
  const auto refused = read_csv(words);
  EXPECT_EQ(refused.error().code, Code::invalid);
  return refused.error().message;
}

TEST(Csv, ARowHasItsFieldsAndItsLine) {
  const CsvWhole csv = read_csv("a,b\n1,2\n\n3,\n").value();
  EXPECT_THAT(csv.header, ElementsAre("a", "b"));
  ASSERT_EQ(csv.rows.size(), 2u);
  EXPECT_THAT(csv.rows[0].fields, ElementsAre("1", "2"));
  EXPECT_EQ(csv.rows[0].line, 2);
  EXPECT_THAT(csv.rows[1].fields, ElementsAre("3", ""));
  EXPECT_EQ(csv.rows[1].line, 4);
}

TEST(Csv, QuotesHoldCommasLineEndsAndQuotes) {
  const CsvWhole csv = read_csv("a,b\n\"x, \"\"y\"\"\",\"1\n2\"\n3,4").value();
  ASSERT_EQ(csv.rows.size(), 2u);
  EXPECT_THAT(csv.rows[0].fields, ElementsAre("x, \"y\"", "1\n2"));
  EXPECT_EQ(csv.rows[1].line, 4);
}

TEST(Csv, IsReadAsWindowsWritesIt) {
  const CsvWhole csv = read_csv(
                           "\xef\xbb\xbf"
                           "a,b\r\n1,2\r\n")
                           .value();
  EXPECT_THAT(csv.header, ElementsAre("a", "b"));
  EXPECT_THAT(csv.rows.at(0).fields, ElementsAre("1", "2"));
}

TEST(Csv, ARowIsNotThereTwice) {
  CsvReader reader = CsvReader::open("a\n1", "jobs.csv").value();
  EXPECT_NE(reader.next().value(), nullptr);
  EXPECT_EQ(reader.next().value(), nullptr);
  EXPECT_EQ(reader.next().value(), nullptr);
}

TEST(Csv, WhatIsNoTableIsRefusedWithItsLine) {
  EXPECT_THAT(csv_error("\n"), AllOf(HasSubstr("jobs.csv:1: "), HasSubstr("no header")));
  EXPECT_THAT(csv_error("a,b\n1,2\n1,2,3\n"),
              AllOf(HasSubstr("jobs.csv:3: "), HasSubstr("3 fields"), HasSubstr("has 2")));
  EXPECT_THAT(csv_error("a,b\n1,\"2\n3,4\n"), AllOf(HasSubstr("jobs.csv:2: "), HasSubstr("quote")));
  EXPECT_THAT(csv_error("a,b\n\"1\"2,3\n"), AllOf(HasSubstr("jobs.csv:2: "), HasSubstr("'2'"),
                                                  HasSubstr("comma"), HasSubstr("quotes")));
}

}  // namespace
}  // namespace lockstep
