#include "platform/engine/k8s/pod_observation.h"

#include <gtest/gtest.h>

#include "platform/engine/k8s/pod_for_test.h"

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;

model::Observation seen_of(const Json& pod) { return view_of_pod(pod).value().seen; }

void expect(const Json& pod, NodePhase phase, const std::string& reason,
            EndBlame blame = EndBlame::unknown) {
  const model::Observation seen = seen_of(pod);
  EXPECT_EQ(seen.phase, phase) << pod.dump();
  EXPECT_EQ(seen.blame, blame) << pod.dump();
  if (reason.empty())
    EXPECT_EQ(seen.reason, "");
  else
    EXPECT_NE(seen.reason.find(reason), std::string::npos) << seen.reason;
}

TEST(PodObservation, APodThatDoesNotFitIsPendingWithTheWordsOfTheScheduler) {
  Json pod = pod_with_status("Pending");
  pod["spec"].erase("nodeName");
  pod["status"]["conditions"] = Json::array({{{"type", "PodScheduled"},
                                              {"status", "False"},
                                              {"reason", "Unschedulable"},
                                              {"message", "0/3 nodes are available"}}});
  expect(pod, NodePhase::pending, "Unschedulable: 0/3 nodes are available");
}

TEST(PodObservation, APodThatTheSchedulerHasNotSeenIsPending) {
  Json pod = pod_with_status("Pending");
  pod["spec"].erase("nodeName");
  expect(pod, NodePhase::pending, "kube-scheduler");
}

void expect_unscheduled(const std::string& message, bool is_stuck, EndBlame blame) {
  Json pod = pod_with_status("Pending");
  pod["spec"].erase("nodeName");
  pod["status"]["conditions"] = Json::array({{{"type", "PodScheduled"},
                                              {"status", "False"},
                                              {"reason", "Unschedulable"},
                                              {"message", message}}});
  expect(pod, NodePhase::pending, message);
  EXPECT_EQ(view_of_pod(pod)->is_stuck, is_stuck) << message;
  EXPECT_EQ(view_of_pod(pod)->stuck_blame, blame) << message;
}

TEST(PodObservation, APodWhoseClaimIsMissingIsStuckAndOneThatWaitsForDevicesIsNot) {
  expect_unscheduled("persistentvolumeclaim \"data\" not found", true, EndBlame::refusal);
  expect_unscheduled("0/3 nodes are available: persistentvolumeclaim \"data\" not found.", true,
                     EndBlame::refusal);
  expect_unscheduled("pod has unbound immediate PersistentVolumeClaims", true, EndBlame::engine);
  expect_unscheduled("1 node(s) had volume node affinity conflict", true, EndBlame::host);
  expect_unscheduled("Insufficient nvidia.com/gpu", false, EndBlame::unknown);
}

TEST(PodObservation, AnImageThatCannotBePulledIsPendingAndStuck) {
  const Json pod = with_container(
      pod_with_status("Pending"),
      {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "Back-off pulling image"}}}});
  expect(pod, NodePhase::pending, "image any cannot be pulled (ImagePullBackOff): Back-off");
  EXPECT_TRUE(view_of_pod(pod)->is_stuck);
}

TEST(PodObservation, AContainerThatIsBeingCreatedIsStarting) {
  const Json pod =
      with_container(pod_with_status("Pending"), {{"waiting", {{"reason", "ContainerCreating"}}}});
  expect(pod, NodePhase::starting, "");
  EXPECT_FALSE(view_of_pod(pod)->is_stuck);
}

TEST(PodObservation, ARunningPodIsPresentAlsoWhileItIsDeleted) {
  Json pod = pod_with_status("Running");
  expect(pod, NodePhase::present, "");
  pod["metadata"]["deletionTimestamp"] = "2026-11-26T22:00:00Z";
  expect(pod, NodePhase::present, "");
}

TEST(PodObservation, APodWhoseAgentEndedWellIsGoneWithoutBlame) {
  expect(with_container(pod_with_status("Succeeded"), terminated(0, "Completed")), NodePhase::gone,
         "");
  EXPECT_TRUE(view_of_pod(pod_with_status("Succeeded"))->has_ended);
}

TEST(PodObservation, AFailedAgentIsGoneWithItsExitCode) {
  expect(with_container(pod_with_status("Failed"), terminated(3, "Error")), NodePhase::gone,
         "exit code 3");
}

TEST(PodObservation, TheLastLineOfTheLogOfAnAgentSaysWhyItFailed) {
  const Json pod = with_container(pod_with_status("Failed"),
                                  terminated(1, "Error", "info: pid 7\nerror: the disk is full\n"));
  expect(pod, NodePhase::gone, "exit code 1: error: the disk is full");
}

TEST(PodObservation, TooMuchMemoryIsTheFaultOfTheRun) {
  const Json pod = with_container(pod_with_status("Failed"), terminated(137, "OOMKilled"));
  expect(pod, NodePhase::gone, "OOMKilled");
  EXPECT_TRUE(seen_of(pod).out_of_memory);
}

TEST(PodObservation, AnAgentThatCannotStartIsTheFaultOfTheEngine) {
  expect(with_container(pod_with_status("Failed"), terminated(128, "StartError", "no such file")),
         NodePhase::gone, "StartError): no such file", EndBlame::engine);
  Json pod = pod_with_status("Failed");
  pod["status"]["initContainerStatuses"] = Json::array(
      {{{"name", "agent"}, {"image", "lockstep:1"}, {"state", terminated(1, "Error")}}});
  expect(pod, NodePhase::gone, "image lockstep:1 could not copy", EndBlame::engine);
}

TEST(PodObservation, AnEvictedPodWasTakenBack) {
  Json pod = pod_with_status("Failed");
  pod["status"]["reason"] = "Evicted";
  pod["status"]["message"] = "The node was low on resource: memory.";
  expect(pod, NodePhase::gone, "low on resource", EndBlame::preemption);
  Json drained = pod_with_status("Failed");
  drained["status"]["conditions"] =
      Json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}});
  expect(drained, NodePhase::gone, "to empty its Node", EndBlame::preemption);
}

TEST(PodObservation, APodThatTheKubeletRefusedIsTheFaultOfTheHost) {
  for (const char* reason : {"OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError"}) {
    Json pod = pod_with_status("Failed");
    pod["status"]["reason"] = reason;
    expect(pod, NodePhase::gone, reason, EndBlame::host);
  }
}

TEST(PodObservation, APodOverItsDeadlineIsTheFaultOfTheRun) {
  Json pod = pod_with_status("Failed");
  pod["status"]["reason"] = "DeadlineExceeded";
  expect(pod, NodePhase::gone, "DeadlineExceeded");
}

TEST(PodObservation, FieldsOfOtherTypesAreTakenForMissingOnes) {
  Json pod = pod_with_status("Failed");
  pod["status"]["conditions"] = "none";
  pod["status"]["containerStatuses"] = Json::array({7});
  expect(pod, NodePhase::gone, "");
  EXPECT_FALSE(view_of_pod(Json("text")));
}

}  // namespace
}  // namespace lockstep::engine
