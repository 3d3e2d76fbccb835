#include "comm/fabric/address/choose_address.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/fabric/address/kernel_network.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
// A host like a cloud machine with containers, and two networks.
class Machine : public HostNetwork {
 public:
  std::vector<InterfaceAddress> addresses{
      {"127.0.0.1", "lo", true, true},       {"172.17.0.1", "docker0", false, true},
      {"10.1.0.5", "veth12ab", false, true}, {"192.168.9.2", "ens0", false, false},
      {"10.0.0.1", "eth0", false, true},     {"10.9.0.1", "eth1", false, true},
      {"fe80::1%eth0", "eth0", false, true}};
  std::map<std::string, std::string> names{
      {"localhost", "127.0.0.1"}, {"this-host", "127.0.1.1"}, {"head", "10.9.0.7"}};
  std::map<std::string, std::string> routes{{"10.9.0.7", "10.9.0.1"},
                                            {"10.0.0.1", "10.0.0.1"},
                                            {"127.0.0.1", "127.0.0.1"},
                                            {"127.0.1.1", "127.0.0.1"}};

  std::vector<InterfaceAddress> local_addresses() const override { return addresses; }
  std::optional<std::string> resolve(const std::string& host) const override {
    if (const auto known = names.find(host); known != names.end()) return known->second;
    const bool is_numeric = host.find_first_not_of("0123456789.:") == std::string::npos;
    return is_numeric ? std::optional(host) : std::nullopt;
  }
  std::optional<std::string> source_address_for(const std::string& address) const override {
    const auto route = routes.find(address);
    return route == routes.end() ? std::nullopt : std::optional(route->second);
  }
};

std::string choice(const NetworkOptions& options, const Machine& machine = {}) {
  const auto chosen = choose_address(options, machine);
  return chosen ? text(*chosen) : chosen.error().message;
}

TEST(InterfaceAddress, IsThatOfTheInterfaceThatIsSet) {
  EXPECT_EQ(choice({.interface = "eth1"}), "eth1 (10.9.0.1)");
  EXPECT_EQ(choice({.interface = "docker0"}), "docker0 (172.17.0.1)");
}

TEST(InterfaceAddress, AnInterfaceThatIsMissingOrDownIsNamedWithThoseThatThereAre) {
  EXPECT_THAT(choice({.interface = "ib0"}),
              AllOf(HasSubstr("LOCKSTEP_INTERFACE: "), HasSubstr("'ib0'"),
                    HasSubstr("lo (127.0.0.1)"), HasSubstr("docker0 (172.17.0.1)"),
                    HasSubstr("veth12ab (10.1.0.5)"), HasSubstr("eth0 (10.0.0.1)"),
                    HasSubstr("eth1 (10.9.0.1)"), HasSubstr("eth0 (fe80::1%eth0)")));
  EXPECT_TRUE(choice({.interface = "ens0"}).starts_with("LOCKSTEP_INTERFACE: 'ens0' is down"));
}

TEST(InterfaceAddress, IsTheOneThatIsSetIfThisHostHasIt) {
  EXPECT_EQ(choice({.address = "10.9.0.1"}), "eth1 (10.9.0.1)");
  EXPECT_EQ(choice({.address = "127.0.0.3"}), "lo (127.0.0.3)");
  EXPECT_TRUE(choice({.address = "10.9.0.2"})
                  .starts_with("LOCKSTEP_ADDRESS: 10.9.0.2 is no address of this host"));
  EXPECT_TRUE(choice({.address = "nobody"})
                  .starts_with("LOCKSTEP_ADDRESS: the name 'nobody' is not known on this host"));
}

TEST(InterfaceAddress, IsTheOneFromWhichTheMeetingPlaceIsReached) {
  EXPECT_EQ(choice({.rendezvous_host = "head"}), "eth1 (10.9.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "10.9.0.7"}), "eth1 (10.9.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "10.0.0.1"}), "eth0 (10.0.0.1)")
      << "the meeting is held here";
}

TEST(InterfaceAddress, IsNoneThatOnlyThisHostReachesUnlessTheMeetingPlaceIsSuch) {
  EXPECT_EQ(choice({.rendezvous_host = "this-host"}), "eth0 (10.0.0.1)") << "Debian's 127.0.1.1";
  EXPECT_EQ(choice({.address = "this-host"}), "eth0 (10.0.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "127.0.0.1"}), "lo (127.0.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "localhost"}), "lo (127.0.0.1)");
}

TEST(InterfaceAddress, IsGuessedPastBridgesOfContainersAndWhatIsDown) {
  EXPECT_EQ(choice({}), "eth0 (10.0.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "unknown"}), "eth0 (10.0.0.1)");
  EXPECT_EQ(choice({.rendezvous_host = "10.77.0.1"}), "eth0 (10.0.0.1)") << "no route leads there";
}

TEST(InterfaceAddress, IsLoopbackWhereThereIsNothingElse) {
  Machine alone;
  alone.addresses.resize(2);
  EXPECT_EQ(choice({}, alone), "lo (127.0.0.1)");
}

TEST(InterfaceAddress, TheKernelKnowsOurOwn) {
  const KernelNetwork network;
  EXPECT_EQ(network.resolve("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(network.source_address_for("127.0.0.1"), "127.0.0.1");
  EXPECT_FALSE(network.resolve("no.such.name.invalid"));
}

TEST(NetworkOptions, ComeFromTheEnvironment) {
  const auto options = network_options_from_environment({{"LOCKSTEP_FABRIC_PROVIDER", "efa"},
                                                         {"LOCKSTEP_INTERFACE", "eth1"},
                                                         {"LOCKSTEP_PORT_RANGE", "20000-20999"},
                                                         {"LOCKSTEP_CONNECTION_TIMEOUT", "1m"},
                                                         {"LOCKSTEP_RENDEZVOUS", "head:1234"},
                                                         {"MASTER_ADDR", "other"}})
                           .value();
  EXPECT_EQ(options.provider, "efa");
  EXPECT_EQ(options.interface, "eth1");
  EXPECT_EQ(options.ports, (PortRange{20000, 20999}));
  EXPECT_EQ(options.connection_timeout, std::chrono::minutes(1));
  EXPECT_EQ(options.rendezvous_host, "head");
  EXPECT_EQ(network_options_from_environment({{"MASTER_ADDR", "other"}})->rendezvous_host, "other");
  EXPECT_EQ(network_options_from_environment({{"LOCKSTEP_FABRIC_PROVIDER", ""}})->provider, "tcp");
}

TEST(NetworkOptions, RefuseWhatCannotBeByItsName) {
  const auto both =
      network_options_from_environment({{"LOCKSTEP_INTERFACE", "a"}, {"LOCKSTEP_ADDRESS", "1"}});
  EXPECT_EQ(both.error().code, Code::invalid);
  EXPECT_THAT(both.error().message,
              AllOf(HasSubstr("LOCKSTEP_INTERFACE is a"), HasSubstr("LOCKSTEP_ADDRESS is 1"),
                    HasSubstr("one of them")));
  for (const char* bad : {"x", "0", "5-4", "1-", "-2", "1-70000", "1 - 2"}) {
    const auto refused = network_options_from_environment({{"LOCKSTEP_PORT_RANGE", bad}});
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr(format("LOCKSTEP_PORT_RANGE: '{}'", bad)),
                                               HasSubstr("20000-20999"), HasSubstr("1 to 65535")));
  }
  EXPECT_EQ(parse_port_range("80").value(), (PortRange{80, 80}));
}

TEST(PortRange, TheFirstFreePortIsTakenAndAnExhaustedRangeSaysWhatToDo) {
  const PortRange range{100, 102};
  const auto taken_up_to = [](std::uint16_t free) {
    return [free](std::uint16_t port) -> Result<int> {
      if (port < free) return Error{Code::already_exists, "taken"};
      return port;
    };
  };
  EXPECT_EQ(on_free_port("10.0.0.1", range, taken_up_to(102)).value(), 102);
  const auto none = on_free_port("10.0.0.1", range, taken_up_to(103));
  EXPECT_EQ(none.error().code, Code::exhausted);
  EXPECT_TRUE(none.error().message.starts_with("no port of 100-102 is free on 10.0.0.1: "));
  const auto failed = on_free_port("10.0.0.1", range, [](std::uint16_t) -> Result<int> {
    return Error{Code::denied, "not ours"};
  });
  EXPECT_EQ(failed.error().message, "not ours");
  EXPECT_EQ(on_free_port("10.0.0.1", {}, taken_up_to(0)).value(), 0) << "any";
}

}  // namespace
}  // namespace lockstep::comm
