// Which network NCCL gets.
#include "platform/agent/ranks/nccl_network.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/environment.h"
#include "base/temporary_folder_for_test.h"
#include "platform/agent/ranks/rank_environment.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// The kernel's devices, and a plugin.
class NcclNetworkChoice : public testing::Test {
 protected:
  void add_device(const std::string& name, const std::string& driver) {
    const auto folder = classes_ / "infiniband" / name / "device";
    fs::create_directories(folder);
    fs::create_symlink("/sys/bus/pci/drivers/" + driver, folder / "driver");
  }
  void add_library() { std::ofstream(library_) << "library"; }
  NcclNetwork chosen(const Environment& user = {}) const {
    return choose_nccl_network(user, library_, classes_);
  }

  const TemporaryFolder folder_;
  const fs::path classes_ = fs::path(folder_.path()) / "class";
  const fs::path library_ = fs::path(folder_.path()) / "libnccl-net-lockstep.so";
};

TEST_F(NcclNetworkChoice, EfaGoesThroughThePlugin) {
  add_library();
  add_device("rdmap0s6", "efa");
  EXPECT_EQ(chosen().plugin, library_.string());
  EXPECT_EQ(chosen().provider, "efa");
  EXPECT_THAT(chosen().reason, HasSubstr("efa"));
}

TEST_F(NcclNetworkChoice, SlingshotGoesThroughThePlugin) {
  add_library();
  fs::create_directories(classes_ / "cxi" / "cxi0");
  EXPECT_EQ(chosen().plugin, library_.string());
  EXPECT_EQ(chosen().provider, "cxi");
}

TEST_F(NcclNetworkChoice, InfinibandAndRoceStayNcclsOwnEvenBesideEfa) {
  add_library();
  add_device("mlx5_0", "mlx5_core");
  EXPECT_EQ(chosen().plugin, "");
  EXPECT_THAT(chosen().reason, HasSubstr("mlx5_core"));
  add_device("rdmap0s6", "efa");
  EXPECT_EQ(chosen().plugin, "");
}

TEST_F(NcclNetworkChoice, AHostWithoutSuchANetworkKeepsNcclsOwn) {
  add_library();
  EXPECT_EQ(chosen().plugin, "");
  EXPECT_THAT(chosen().reason, HasSubstr("none that NCCL lacks"));
}

TEST_F(NcclNetworkChoice, AMissingPluginIsNamedInTheReason) {
  add_device("rdmap0s6", "efa");
  EXPECT_EQ(chosen().plugin, "");
  EXPECT_THAT(chosen().reason, HasSubstr(library_.string() + " is missing"));
}

Environment environment_with(const NcclNetwork& network, const Environment& user) {
  host::LaunchSpec launch;
  launch.daemon_file = "/home/ann/.lockstep/daemon.json";
  launch.devices = {0};
  RankLaunchInfo info;
  info.nccl_network = network;
  return rank_environment(launch, {{{"demo", 1}, 1}, 0}, 0, info, user);
}

TEST_F(NcclNetworkChoice, AChoiceOfTheUserOrOfTheNodeWins) {
  add_library();
  add_device("rdmap0s6", "efa");
  EXPECT_EQ(chosen({{"NCCL_NET_PLUGIN", "aws-ofi"}}).plugin, "");
  EXPECT_THAT(chosen({{"NCCL_NET_PLUGIN", "aws-ofi"}}).reason,
              HasSubstr("sets NCCL_NET_PLUGIN=aws-ofi"));
  EXPECT_THAT(chosen({{"NCCL_NET", "Socket"}}).reason, HasSubstr("sets NCCL_NET=Socket"));
}

TEST(NcclPluginOfRanks, IsSetWithWhatItsProviderNeeds) {
  const NcclNetwork efa{"/opt/lib/libnccl-net-lockstep.so", "efa", ""};
  const auto set = environment_with(efa, {});
  EXPECT_EQ(set.at("NCCL_NET_PLUGIN"), "/opt/lib/libnccl-net-lockstep.so");
  EXPECT_EQ(set.at("FI_EFA_FORK_SAFE"), "1");
  EXPECT_EQ(environment_with(efa, {{"FI_EFA_FORK_SAFE", "0"}}).at("FI_EFA_FORK_SAFE"), "0");
  EXPECT_FALSE(environment_with({}, {}).contains("NCCL_NET_PLUGIN"));
}

}  // namespace
}  // namespace lockstep::agent
