// Which GPUs, and which interface for NCCL, ranks get.
#include "platform/agent/ranks/rank_environment.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/fabric/address/choose_address.h"
#include "platform/agent/ranks/node_address.h"
#include "platform/agent/ranks/socket_interface.h"
#include "platform/agent/ranks/stand_in.h"

namespace lockstep::agent {
namespace {

host::LaunchSpec gpu_launch() {
  host::LaunchSpec launch;
  launch.address = "10.0.0.1";
  launch.daemon_file = "/home/ann/.lockstep/daemon.json";
  launch.devices = {2, 3};
  launch.gpus = true;
  return launch;
}

Environment environment(const host::LaunchSpec& launch, const RankLaunchInfo& info = {},
                        Environment base = {}) {
  return rank_environment(launch, {{{"demo", 1}, 1}, 0}, 0, info,
                          user_environment(launch, std::move(base)));
}

TEST(RankEnvironment, GpusAreNamedByUuidWhereAllAreKnown) {
  auto launch = gpu_launch();
  EXPECT_EQ(environment(launch).at("CUDA_VISIBLE_DEVICES"), "2,3");
  EXPECT_EQ(environment(launch).at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  launch.device_uuids = {"GPU-a1", "GPU-a2"};
  EXPECT_EQ(environment(launch).at("CUDA_VISIBLE_DEVICES"), "GPU-a1,GPU-a2");
}

TEST(RankEnvironment, ARunMayHideTheGpusButNotNameOthers) {
  auto launch = gpu_launch();
  launch.env["CUDA_VISIBLE_DEVICES"] = "7";
  EXPECT_EQ(environment(launch).at("CUDA_VISIBLE_DEVICES"), "2,3");
  launch.env["CUDA_VISIBLE_DEVICES"] = "";
  EXPECT_EQ(environment(launch).at("CUDA_VISIBLE_DEVICES"), "");
}

TEST(RankEnvironment, RanksOnCoresKeepTheVariablesOfTheNodeAndTheRun) {
  auto launch = gpu_launch();
  launch.gpus = false;
  const auto ranks = environment(launch, {}, {{"CUDA_VISIBLE_DEVICES", "1"}});
  EXPECT_EQ(ranks.at("CUDA_VISIBLE_DEVICES"), "1");
  EXPECT_FALSE(ranks.contains("CUDA_DEVICE_ORDER"));
  launch.env["CUDA_VISIBLE_DEVICES"] = "5";
  EXPECT_EQ(environment(launch).at("CUDA_VISIBLE_DEVICES"), "5");
}

TEST(RankEnvironment, RanksLogToTheDaemonUnlessTheRunChoosesAServer) {
  RankLaunchInfo info;
  info.tracking_url = "https://127.0.0.1:7070";
  info.tracking_token = "lsr_token";
  info.tracking_authorities = "/home/ann/.lockstep/tls/ca.pem";
  auto launch = gpu_launch();
  const Environment told = environment(launch, info);
  EXPECT_EQ(told.at("MLFLOW_TRACKING_URI"), "https://127.0.0.1:7070");
  EXPECT_EQ(told.at("MLFLOW_TRACKING_TOKEN"), "lsr_token");
  EXPECT_EQ(told.at("MLFLOW_TRACKING_SERVER_CERT_PATH"), "/home/ann/.lockstep/tls/ca.pem");
  EXPECT_FALSE(environment(launch).contains("MLFLOW_TRACKING_URI"));
  launch.env["MLFLOW_TRACKING_URI"] = "http://other";
  EXPECT_EQ(environment(launch, info).at("MLFLOW_TRACKING_URI"), "http://other");
  EXPECT_FALSE(environment(launch, info).contains("MLFLOW_TRACKING_TOKEN"))
      << "the token is not for another server";
}

TEST(RankEnvironment, StandInsPrecedeThePythonFoldersOfTheRun) {
  auto launch = gpu_launch();
  EXPECT_FALSE(environment(launch).contains("PYTHONPATH"));
  RankLaunchInfo info;
  info.stand_ins = "/node/stand-ins";
  EXPECT_EQ(environment(launch, info).at("PYTHONPATH"), "/node/stand-ins");
  launch.env["PYTHONPATH"] = "/home/ann/lib";
  EXPECT_EQ(environment(launch, info).at("PYTHONPATH"), "/node/stand-ins:/home/ann/lib");
}

TEST(RankEnvironment, OnlyARunThatAsksForThemGetsStandIns) {
  auto launch = gpu_launch();
  EXPECT_FALSE(wants_stand_in(launch));
  launch.env["LOCKSTEP_WANDB"] = "0";
  EXPECT_FALSE(wants_stand_in(launch));
  launch.env["LOCKSTEP_WANDB"] = "1";
  EXPECT_TRUE(wants_stand_in(launch));
  launch.env = {{"LOCKSTEP_HOROVOD", "1"}};
  EXPECT_TRUE(wants_stand_in(launch));
}

TEST(RankEnvironment, NcclUsesTheInterfaceOfTheNodeUnlessTheNodeOrTheRunHasItsOwn) {
  auto launch = gpu_launch();
  RankLaunchInfo info;
  info.socket_interface = "eth1";
  EXPECT_FALSE(environment(launch).contains("NCCL_SOCKET_IFNAME"));
  EXPECT_EQ(environment(launch, info).at("NCCL_SOCKET_IFNAME"), "=eth1");
  const Environment node = {{"NCCL_SOCKET_IFNAME", "ib0"}, {"NCCL_IB_HCA", "mlx5"}};
  EXPECT_EQ(environment(launch, info, node).at("NCCL_SOCKET_IFNAME"), "ib0");
  launch.env["NCCL_SOCKET_IFNAME"] = "eth2";
  EXPECT_EQ(environment(launch, info, node).at("NCCL_SOCKET_IFNAME"), "eth2");
  EXPECT_EQ(environment(launch, info, node).at("NCCL_IB_HCA"), "mlx5");
}

class Machine : public comm::HostNetwork {
 public:
  std::vector<comm::InterfaceAddress> local_addresses() const override {
    return {{"127.0.0.1", "lo", true, true},
            {"192.168.9.2", "ens0", false, false},
            {"10.0.0.1", "eth0", false, true},
            {"10.9.0.1", "eth1", false, true}};
  }
  std::optional<std::string> resolve(const std::string& host) const override {
    if (host == "node-1") return "10.9.0.1";
    if (host == "this-host") return "127.0.1.1";
    return host.starts_with("1") ? std::optional(host) : std::nullopt;
  }
  std::optional<std::string> source_address_for(const std::string&) const override { return {}; }
};

TEST(RankEnvironment, OtherNodesReachANodeUnderANumericAddress) {
  EXPECT_EQ(node_address("10.0.0.1", Machine()).value(), "10.0.0.1");
  EXPECT_EQ(node_address("node-1", Machine()).value(), "10.9.0.1");
  EXPECT_EQ(node_address("127.0.0.7", Machine()).value(), "127.0.0.7");
  EXPECT_EQ(node_address("this-host", Machine()).value(), "10.0.0.1")
      << "its own name, which Debian maps to lo";
  EXPECT_THAT(node_address("unknown", Machine()).error().message,
              testing::HasSubstr("the host's address in the map"));
}

TEST(RankEnvironment, TheInterfaceIsThatOfTheNodesAddress) {
  EXPECT_EQ(interface_of("10.0.0.1", Machine()), "eth0");
  EXPECT_EQ(interface_of("node-1", Machine()), "eth1");
  EXPECT_EQ(interface_of("127.0.0.1", Machine()), "lo");
  EXPECT_EQ(interface_of("127.0.0.7", Machine()), "lo");
  EXPECT_EQ(interface_of("this-host", Machine()), "") << "its own name, which Debian maps to lo";
  EXPECT_EQ(interface_of("192.168.9.2", Machine()), "") << "the interface is down";
  EXPECT_EQ(interface_of("unknown", Machine()), "");
}

}  // namespace
}  // namespace lockstep::agent
