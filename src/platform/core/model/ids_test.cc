#include "platform/core/model/ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Ids, AreReadAsTheyAreWritten) {
  const NodeId node{{{"demo", 42}, 2}, 0};
  EXPECT_EQ(text(node), "demo/42.2/0");
  EXPECT_EQ(parse_node_id(text(node)).value(), node);
  EXPECT_EQ(parse_attempt_id("demo/42.2").value(), node.attempt);
  EXPECT_EQ(parse_run_id("demo/42").value(), node.attempt.run);
}

TEST(Ids, WithAGenerationAreReadAsTheyAreWritten) {
  const NodeId node{{{"demo", 42}, 2}, 0};
  const NodeName name{"3f9c0a5e7d21b864", node};
  EXPECT_EQ(text(name), "3f9c0a5e7d21b864:demo/42.2/0");
  EXPECT_EQ(text(name.attempt()), "3f9c0a5e7d21b864:demo/42.2");
  EXPECT_EQ(parse_node_name(text(name)).value(), name);
  EXPECT_EQ(text(NodeName{"", node}), "demo/42.2/0");
  EXPECT_EQ(parse_node_name("demo/42.2/0").value(), (NodeName{"", node}));
  for (auto words : {":demo/42.2/0", "3f9c:demo/42.2/0", "../3f9c0a5e7d21b:demo/42.2/0",
                     "3F9C0A5E7D21B864:demo/42.2/0", "3f9c0a5e7d21b864:demo/42.2"})
    EXPECT_FALSE(parse_node_name(words)) << words;
}

TEST(Ids, OfProjectsWithDotsAndDashesAreRead) {
  EXPECT_EQ(parse_node_id("a.b-c_d.1/7.3/12").value(), (NodeId{{{"a.b-c_d.1", 7}, 3}, 12}));
}

TEST(Ids, HaveOneSpellingEach) {
  for (auto words :
       {"", "demo", "demo/", "/1", "demo/0", "demo/01", "demo/+1", "demo/-1", "demo/1 ", "demo/1.2",
        "../1", "demo/99999999999999999999", "de mo/1", "a/b/1"})
    EXPECT_FALSE(parse_run_id(words)) << words;
  for (auto words : {"demo/1", "demo/1.", "demo/1.0", "demo/1.2/0", "demo.1"})
    EXPECT_FALSE(parse_attempt_id(words)) << words;
  for (auto words : {"demo/1.2", "demo/1.2/", "demo/1.2/-1", "demo/1.2/00", "demo/1.2/4294967296"})
    EXPECT_FALSE(parse_node_id(words)) << words;
}

TEST(Ids, ThatAreNoneAreNamedWithAnExample) {
  const auto refused = parse_run_id("oops");
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("'oops'"), HasSubstr("demo/42")));
}

TEST(Names, AreSafeInPathsAndShells) {
  EXPECT_TRUE(check_name("project", "demo-1.x_Y"));
  EXPECT_TRUE(check_name("project", std::string(64, 'a')));
  for (auto name : {"", ".hidden", "-x", "a/b", "a b", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(check_name("project", name)) << name;
  EXPECT_FALSE(check_name("project", std::string(65, 'a')));
}

}  // namespace
}  // namespace lockstep::model
