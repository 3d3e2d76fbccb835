#include "platform/engine/slurm/slurm_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/engine/slurm/slurm_job_size.h"
#include "platform/engine/slurm/slurm_nodes.h"

namespace lockstep::engine {
namespace {

using ::testing::HasSubstr;

std::vector<SlurmHost> hosts_with(const std::string& gres) {
  return parts_by_gpu_type(parse_slurm_hosts("g3|idle|" + gres +
                                             "|64|8000|g3|all|(null)|none\n"
                                             "g4|idle|gpu:h100:8|64|8000|g4|all|(null)|none\n"));
}

TEST(SlurmParts, EachTypeOfAHostIsAPartWithItsShareOfCoresAndMemory) {
  const auto hosts = hosts_with("gpu:a100:2(S:0),gpu:h100:6(S:1)");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].name, "g3.gpu-a100");
  EXPECT_EQ(hosts[0].cores, 16);
  EXPECT_EQ(hosts[1].name, "g3.gpu-h100");
  EXPECT_EQ(hosts[1].gpus, 6);
  EXPECT_EQ(hosts[1].memory_mib, 6000);
  EXPECT_EQ(name_for_slurm(hosts[1]), "g3");
  EXPECT_EQ(name_for_slurm(hosts[2]), "g4");
}

TEST(SlurmParts, AHostOfOneTypeOrWithGpusOfNoTypeStaysWhole) {
  for (const char* gres :
       {"gpu:a100:4", "gpu:8", "gpu:a100:4,gpu:2", "gpu:a:1,gpu:b/c:1", "(null)"})
    EXPECT_EQ(hosts_with(gres)[0].name, "g3") << gres;
}

Gang gang_on_parts(const std::vector<std::string>& hosts) {
  Gang gang;
  gang.devices_per_node = 2;
  for (const std::string& host : hosts) {
    NodePlacement& node = gang.nodes.emplace_back();
    node.host = host;
    node.gpus = true;
  }
  return gang;
}

TEST(SlurmParts, AJobOnAPartAsksForItsType) {
  const auto hosts = hosts_with("gpu:a100:2,gpu:h100:6");
  const auto size = slurm_job_size(gang_on_parts({"g3.gpu-h100", "g4"}), hosts).value();
  EXPECT_EQ(size.gpu_type, "h100");
  EXPECT_EQ(slurm_job_size(gang_on_parts({"g4"}), hosts)->gpu_type, "")
      << "any GPU of a whole host";
  const auto refused = slurm_job_size(gang_on_parts({"g3.gpu-a100", "g4"}), hosts);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--slurm-gpu-type"));
}

TEST(SlurmParts, AnEndOfTheHostIsThatOfItsParts) {
  const auto hosts = parts_by_gpu_type(
      parse_slurm_hosts("g3|down*|gpu:a100:2,gpu:h100:6|64|8000|g3|all|(null)|Not responding\n"));
  const SlurmJob job{
      .id = 7, .state = "NODE_FAIL", .reason = "", .hosts = {"g3"}, .host_count = 1, .comment = ""};
  const auto seen =
      observe_slurm_node(job, nullptr, {.host = "g3.gpu-h100", .has_started = true}, hosts);
  EXPECT_EQ(seen.phase, model::NodePhase::gone);
  EXPECT_EQ(seen.blame, model::EndBlame::host);
  const SlurmJob completes{.id = 7,
                           .state = "COMPLETING",
                           .reason = "",
                           .hosts = {"g3"},
                           .host_count = 1,
                           .comment = ""};
  const auto still =
      observe_slurm_node(completes, nullptr, {.host = "g3.gpu-h100", .has_started = true},
                         hosts_with("gpu:a100:2,gpu:h100:6"));
  EXPECT_EQ(still.phase, model::NodePhase::present);
}

}  // namespace
}  // namespace lockstep::engine
