#include "platform/core/model/pod_request.h"

#include <gtest/gtest.h>

#include "platform/core/model/run.h"

namespace lockstep::model {
namespace {

TEST(PodRequest, WordsOfAnotherFormAreRefusedWithTheirField) {
  EXPECT_TRUE(check(PodRequest{.volumes = {"pvc:data:/data"}, .resources = {{"rdma/hca", 1}}}));
  const auto refused = [](const PodRequest& request, const std::string& field) {
    const auto checked = check(request);
    EXPECT_FALSE(checked) << field;
    if (!checked) {
      EXPECT_TRUE(checked.error().message.starts_with(field)) << checked.error().message;
    }
  };
  refused({.service_account = "Not A Name"}, "service_account");
  refused({.shared_memory = "much"}, "shared_memory");
  refused({.volumes = {"data"}}, "volumes");
  refused({.tolerations = {"spot:Never"}}, "tolerations");
  refused({.image_pull_secrets = {""}}, "image_pull_secrets");
  refused({.node_selector = {{"pool", "a b"}}}, "node_selector");
  refused({.resources = {{"rdma/hca", -1}}}, "resources");
}

TEST(PodRequest, ARunIsCheckedWithItAndOtherEnginesIgnoreIt) {
  RunSpec spec;
  spec.command = {"true"};
  spec.kubernetes = {.volumes = {"data"}};
  const auto checked = check(spec);
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().message.starts_with("kubernetes")) << checked.error().message;
  EXPECT_EQ(ignored_sections(spec, "local"), std::vector<std::string>{"kubernetes"});
  EXPECT_TRUE(ignored_sections(spec, kPodEngine).empty());
}

}  // namespace
}  // namespace lockstep::model
