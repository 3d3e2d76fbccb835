#include "platform/k8s/gang.h"

#include <gtest/gtest.h>

#include "platform/k8s/manifests.h"

namespace lockstep::k8s {
namespace {

Workload workload_of_four() {
  Workload workload;
  workload.name = "train";
  workload.in_namespace = "ml";
  workload.nodes = 4;
  workload.image = "pytorch";
  return workload;
}

TEST(Gang, IsReadFromOneWord) {
  EXPECT_EQ(parse_gang_scheduling("kueue=team-a")->queue, "team-a");
  EXPECT_EQ(parse_gang_scheduling("volcano")->system, GangSystem::volcano);
  EXPECT_EQ(parse_gang_scheduling("volcano=research")->queue, "research");
  EXPECT_EQ(parse_gang_scheduling("scheduler-plugins")->system, GangSystem::scheduler_plugins);
}

TEST(Gang, OfAnUnknownSystemIsRefused) {
  for (const char* words :
       {"", "kueue", "kueue=", "kueue=A b", "scheduler-plugins=q", "yunikorn", "volcano="})
    EXPECT_FALSE(parse_gang_scheduling(words)) << words;
}

TEST(Gang, OfKueueLetsAJobWaitForItsQueue) {
  const auto objects = with_gang_scheduling(job_manifests(workload_of_four()),
                                            {GangSystem::kueue, "team-a"}, "train", 4);
  ASSERT_EQ(objects.size(), 2);
  EXPECT_EQ(objects[1]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "team-a");
  EXPECT_EQ(objects[1]["spec"]["suspend"], true);
  EXPECT_FALSE(objects[0]["metadata"]["labels"].contains("kueue.x-k8s.io/queue-name"))
      << "a Service waits for nothing";
}

TEST(Gang, OfKueueMakesAGroupOfPods) {
  const auto objects = with_gang_scheduling(pod_manifests(workload_of_four()),
                                            {GangSystem::kueue, "team-a"}, "train", 4);
  ASSERT_EQ(objects.size(), 5);
  for (std::size_t i = 1; i < objects.size(); ++i) {
    EXPECT_EQ(objects[i]["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"], "train");
    EXPECT_EQ(objects[i]["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"], "4");
    EXPECT_FALSE(objects[i]["spec"].contains("suspend")) << "Kueue sets a gate";
  }
}

TEST(Gang, OfOtherSchedulersIsAPodGroupThatEachPodNames) {
  const auto volcano = with_gang_scheduling(job_manifests(workload_of_four()),
                                            {GangSystem::volcano, "research"}, "train", 4);
  ASSERT_EQ(volcano.size(), 3);
  EXPECT_EQ(volcano[0]["kind"], "PodGroup");
  EXPECT_EQ(volcano[0]["metadata"]["namespace"], "ml");
  EXPECT_EQ(volcano[0]["spec"], Json({{"minMember", 4}, {"queue", "research"}}));
  const Json& pod = volcano[2]["spec"]["template"];
  EXPECT_EQ(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "train");
  EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");

  const auto jobset = with_gang_scheduling(jobset_manifests(workload_of_four()),
                                           {GangSystem::scheduler_plugins, ""}, "train", 4);
  const Json& inner =
      jobset[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]["labels"];
  EXPECT_EQ(inner["scheduling.x-k8s.io/pod-group"], "train");
}

}  // namespace
}  // namespace lockstep::k8s
