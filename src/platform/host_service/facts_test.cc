#include "platform/host_service/facts.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host_service {
namespace {

class TwoInterfaces : public comm::HostNetwork {
 public:
  std::vector<comm::InterfaceAddress> local_addresses() const override {
    return {{"127.0.0.1", "lo", true, true},
            {"10.0.0.1", "eth0", false, true},
            {"10.9.0.1", "eth1", false, true}};
  }
  std::optional<std::string> resolve(const std::string& host) const override {
    return host == "fast" ? std::optional<std::string>("10.9.0.1") : std::nullopt;
  }
  std::optional<std::string> source_address_for(const std::string&) const override { return {}; }
};

TEST(HostFacts, TheLinkHasTheSpeedOfTheInterfaceWithTheAddress) {
  const TemporaryFolder interfaces;
  for (const auto& [name, speed] :
       {std::pair("lo", "9"), {"eth0", "1000\n"}, {"eth1", "25000\n"}}) {
    ASSERT_TRUE(make_folders(interfaces.path() / name));
    ASSERT_TRUE(write_file(interfaces.path() / name / "speed", speed));
  }
  const TwoInterfaces network;
  const auto speed = [&](const std::string& address) {
    return speed_of_address(network, address, interfaces.path());
  };
  EXPECT_EQ(speed("10.0.0.1"), Bandwidth(125'000'000));
  EXPECT_EQ(speed("fast"), Bandwidth(3'125'000'000));
  EXPECT_EQ(speed("127.0.0.1"), std::nullopt);
  EXPECT_EQ(speed("10.1.1.1"), std::nullopt) << "behind a translation of addresses";
}

}  // namespace
}  // namespace lockstep::host_service
