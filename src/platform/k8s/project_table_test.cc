#include "platform/k8s/project_table.h"

#include <gtest/gtest.h>

namespace lockstep::k8s {
namespace {

std::string table_problem(std::string_view text) {
  const auto table = parse_project_table(text, "projects.yaml");
  return table ? "" : table.error().message;
}

TEST(ProjectTable, AProjectHasANamespaceAnAccountAndAUser) {
  const auto table = parse_project_table(
      "projects:\n"
      "  vision: {namespace: ml-vision, service_account: trainer, run_as_user: 2001}\n"
      "  speech: {namespace: ml-speech}\n"
      "  own: {run_as_user: 2002}\n"
      "namespaces: [ml-old]\n",
      "projects.yaml");
  ASSERT_TRUE(table) << table.error().message;
  const auto vision = pods_of_project(*table, "vision");
  ASSERT_TRUE(vision);
  EXPECT_EQ(vision->in_namespace, "ml-vision");
  EXPECT_EQ(vision->run_as_user, 2001);
  EXPECT_EQ(*pods_of_project(*table, "another"), ProjectPods());
  EXPECT_EQ(further_namespaces(*table, "ml-speech"),
            (std::vector<std::string>{"ml-old", "ml-vision"}));
  EXPECT_EQ(projects_in(*table, "ml-vision"), std::vector<std::string>{"vision"});
}

TEST(ProjectTable, OthersAreRefusedIfItSaysSo) {
  const auto table = parse_project_table("projects: {a: {}}\nrefuse_others: true\n", "p.yaml");
  ASSERT_TRUE(table);
  EXPECT_TRUE(pods_of_project(*table, "a"));
  EXPECT_NE(pods_of_project(*table, "b").error().message.find("the project b has no namespace"),
            std::string::npos);
}

TEST(ProjectTable, RootAndWrongNamesAreRefusedWithTheProject) {
  EXPECT_EQ(table_problem("projects: {a: {run_as_user: 0}}"),
            "projects.yaml: projects: a: run_as_user must be 1 or higher, got 0; 0 is root");
  EXPECT_NE(table_problem("projects: {a: {run_as_user: 5, run_as_group: 0}}"), "");
  EXPECT_NE(table_problem("projects: {a: {run_as_group: 7}}"), "");
  EXPECT_NE(table_problem("projects: {a: {namespace: A_b}}").find("projects: a: namespace"),
            std::string::npos);
  EXPECT_NE(table_problem("namespaces: [A_b]"), "");
  EXPECT_NE(table_problem("project: {}"), "");
}

}  // namespace
}  // namespace lockstep::k8s
