#include "comm/flight/torch_dump/pickle.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/flight/torch_dump/pickle_for_test.h"

namespace lockstep::comm::torch_dump {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

Json read(const std::string& pickle) {
  const auto value = parse_pickle(pickle);
  EXPECT_TRUE(value) << value.error().message;
  return value ? *value : Json("refused");
}

std::string refusal(const std::string& pickle, const PickleLimits& limits = {}) {
  const auto value = parse_pickle(pickle, limits);
  return value ? "accepted" : value.error().message;
}

TEST(Pickle, HoldsThePlainValuesThatPythonWrites) {
  // pickle.dumps([None, True, False, 7, 300, -2, 2**40, -(2**40), 1.5, "a", ("b",), ()], 2)
  const std::string pickle =
      "\x80\x02]q\x00(N\x88\x89K\x07M\x2c\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01"
      "\x8a\x06\x00\x00\x00\x00\x00\xff"
      "G\x3f\xf8\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00"
      "aq\x01X\x01\x00\x00\x00"
      "bq\x02\x85q\x03)e."s;
  EXPECT_EQ(read(pickle), Json::parse(R"([null, true, false, 7, 300, -2, 1099511627776,
                                          -1099511627776, 1.5, "a", ["b"], []])"));
}

TEST(Pickle, RepeatsTextFromItsMemo) {
  const Json value = Json::parse(R"({"name": "name", "list": ["name", {"name": 2}]})");
  EXPECT_EQ(read(testing_pickle::PickleWriter::pickled(value)), value);
}

TEST(Pickle, RepeatsContainersThatWereComplete) {
  EXPECT_EQ(read("](K\x01Neq\x00h\x00\x86."s), Json::parse("[[1, null], [1, null]]"));
}

TEST(Pickle, IsRefusedWithThePositionIfItCallsAFunction) {
  EXPECT_EQ(refusal("\x80\x02"
                    "cos\nsystem\nq\x00X\x02\x00\x00\x00id\x85R."s),
            "byte 2: operation 0x63 builds no plain value, so it is not executed");
}

TEST(Pickle, IsRefusedIfItEndsEarlyOrHasNothing) {
  const auto whole = testing_pickle::PickleWriter::pickled(Json::parse(R"({"a": [1, "b"]})"));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
  EXPECT_THAT(refusal("\x80\x02."s), HasSubstr("0 values"));
  EXPECT_THAT(refusal("\x80\x04N."s), HasSubstr("protocol 4"));
}

TEST(Pickle, IsRefusedIfAValueIsMissingOrOfTheWrongKind) {
  for (const auto& [pickle, reason] :
       {std::pair("e."s, "a mark is missing"), std::pair("a."s, "a value is missing"),
        std::pair("(\x85."s, "a value is missing"), std::pair("NNa."s, "a list is missing"),
        std::pair("}(Nu."s, "a dictionary or a value"), std::pair("}NNs."s, "a key is no text"),
        std::pair("h\x00."s, "repeats a value"), std::pair("]q\x00Nah\x00."s, "not complete"),
        std::pair("Nq\x05."s, "skips a place"),
        std::pair("\x8a\x09"s + std::string(9, '1'), "9 bytes")})
    EXPECT_THAT(refusal(pickle), HasSubstr(reason)) << pickle;
}

TEST(Pickle, IsRefusedIfItGrowsBeyondTheLimits) {
  std::string repeats = "](X\xe8\x03\x00\x00"s + std::string(1000, 'a') + "q";
  repeats += '\0';
  for (int i = 0; i < 100; ++i) repeats += "h\0"s;
  EXPECT_THAT(refusal(repeats + "e.", {.built = 50_KiB}), HasSubstr("more than 50.0 KiB"));
  EXPECT_THAT(refusal("N" + std::string(40, '\x85') + "."), HasSubstr("nested more than 32 deep"));
  EXPECT_THAT(refusal("}(X\1\0\0\0aNX\1\0\0\0bNu."s, {.members = 1}),
              HasSubstr("more than 1 members"));
}

}  // namespace
}  // namespace lockstep::comm::torch_dump
