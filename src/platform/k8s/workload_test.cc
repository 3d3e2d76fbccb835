// Words of users, and what is wrong in a whole workload. tests/golden/kubernetes has the manifests.
#include "platform/k8s/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/k8s/pod_spec.h"

namespace lockstep::k8s {
namespace {

using testing::HasSubstr;

Workload train() {
  Workload workload;
  workload.name = "train";
  workload.image = "pytorch";
  return workload;
}

TEST(Literal, DoublesOnlyTheSignsThatKubernetesWouldExpand) {
  EXPECT_EQ(literal("$HOME costs $5"), "$HOME costs $5");
  EXPECT_EQ(literal("$(hostname)"), "$$(hostname)");
  EXPECT_EQ(literal("kill $$"), "kill $$$");
  EXPECT_EQ(literal("$$(a)"), "$$$$(a)");
}

TEST(Parameters, ReplaceEachPlaceAndAreNotReplacedAgain) {
  EXPECT_EQ(with_parameters("a {x} {x} {y}", {{"x", "{x}"}, {"y", "2"}}).value(), "a {x} {x} 2");
}

TEST(Parameters, WithoutAPlaceAreAMistake) {
  EXPECT_THAT(with_parameters("train", {{"lr", "1"}}).error().message,
              HasSubstr("the command has no {lr}"));
}

TEST(Volumes, HaveAKindASourceAndAPath) {
  EXPECT_EQ(parse_volume("pvc:data:/data").value(),
            (Volume{VolumeKind::claim, "data", "/data", false}));
  EXPECT_EQ(parse_volume("host:/a/b:/c:ro").value(),
            (Volume{VolumeKind::host_path, "/a/b", "/c", true}));
  EXPECT_EQ(parse_volume("empty:/scratch").value(), (Volume{VolumeKind::empty, "", "/scratch"}));
}

TEST(Volumes, OfAnotherFormAreRefused) {
  for (const char* bad : {"", "data:/data", "pvc:data", "pvc:data:data", "pvc:Data:/data",
                          "host:a:/b", "empty:x:/a", "pvc:data:/", "ro", "pvc:a:/b:rw"})
    EXPECT_FALSE(parse_volume(bad)) << bad;
}

TEST(Tolerations, AreWrittenAsTaints) {
  EXPECT_EQ(dump_json(toleration_json(parse_toleration("gpu").value())),
            R"({"key":"gpu","operator":"Exists"})");
  EXPECT_EQ(dump_json(toleration_json(parse_toleration("example.com/team=ml:NoSchedule").value())),
            R"({"key":"example.com/team","operator":"Equal","value":"ml","effect":"NoSchedule"})");
  EXPECT_THAT(parse_toleration("gpu:Never").error().message, HasSubstr("NoSchedule"));
}

TEST(Workload, WhoseHostNamesWouldBeTooLongIsRefused) {
  Workload workload = train();
  workload.nodes = 1000;
  workload.name = std::string(51, 'a');  // and "-node-0-999" is 62
  EXPECT_TRUE(check(workload));
  workload.name += "aa";
  EXPECT_THAT(check(workload).error().message, HasSubstr("at most 52"));
}

TEST(Workload, MaySetNoVariableOfItsRanks) {
  for (const char* name : {"RANK", "MASTER_ADDR", "PET_NNODES"}) {
    Workload workload = train();
    workload.env = {{name, "1"}};
    EXPECT_THAT(check(workload).error().message, HasSubstr("itself")) << name;
  }
}

TEST(Workload, GivesNothingTwice) {
  std::vector<Workload> wrong(5, train());
  wrong[0].env = {{"A", "1"}, {"A", "2"}};
  wrong[1].ports = {80, 80};
  wrong[2].ports = {29500};
  wrong[3].labels = {{"a", ""}, {"a", "b"}};
  wrong[4].volumes = {parse_volume("empty:/dev/shm").value()};
  for (const Workload& each : wrong) EXPECT_THAT(check(each).error().message, HasSubstr("twice"));
}

TEST(Workload, OfOneRankANodeNeedsNoLauncher) {
  Workload workload = train();
  workload.devices = 1;
  EXPECT_THAT(dump_json(pod_spec(workload, {.master = "train-0.train"})),
              HasSubstr(R"({"name":"RANK",)"));
  workload.devices = 8;
  EXPECT_THAT(dump_json(pod_spec(workload, {.master = "train-0.train"})),
              Not(HasSubstr(R"({"name":"RANK",)")));
}

}  // namespace
}  // namespace lockstep::k8s
