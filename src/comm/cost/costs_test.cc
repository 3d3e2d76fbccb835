#include "comm/cost/costs.h"

#include <gtest/gtest.h>

#include "map/map_file.h"

namespace lockstep::comm {
namespace {

map::ClusterMap map_of(const std::string& before_pods, const std::string& to_leaf = "{}") {
  return map::parse_map(before_pods + R"(
pods:
  - leaves:
      - hosts:
          - {id: a, to_leaf: )" +
                            to_leaf + R"(, islands: [{devices: [{kind: core}]}]}
          - {id: b, to_leaf: )" +
                            to_leaf + R"(, islands: [{devices: [{kind: core}]}]}
)",
                        "lab.yaml")
      .value();
}

TEST(Costs, AreDefaultsWhereNothingIsKnown) { EXPECT_EQ(costs_of(map_of("")), Costs{}); }

TEST(Costs, ComeFromWhatWasMeasured) {
  const auto costs = costs_of(map_of(R"(
measured:
  within_host: {latency_us: 0.5, overhead_us: 0.25, gbit_per_second: 80}
  between_hosts: {latency_us: 20, overhead_us: 5, gbit_per_second: 0.8}
  reduction_gbyte_per_second: 10)",
                                     "{bandwidth: 100 Gbit/s, latency: 1us}"));
  EXPECT_DOUBLE_EQ(costs.within_host.latency, 0.5e-6);
  EXPECT_DOUBLE_EQ(costs.within_host.overhead, 0.25e-6);
  EXPECT_DOUBLE_EQ(costs.within_host.per_byte, 1e-10);
  EXPECT_DOUBLE_EQ(costs.between_hosts.latency, 20e-6);
  EXPECT_DOUBLE_EQ(costs.between_hosts.per_byte, 1e-8);
  EXPECT_DOUBLE_EQ(costs.reduction, 1e-10);
}

TEST(Costs, ComeFromDeclaredLinksWhereNothingWasMeasured) {
  const auto costs = costs_of(map_of("", "{bandwidth: 8 Gbit/s, latency: 10us}"));
  EXPECT_DOUBLE_EQ(costs.between_hosts.per_byte, 1e-9);
  EXPECT_DOUBLE_EQ(costs.between_hosts.latency, 20e-6 + 2 * Costs{}.between_hosts.overhead);
  EXPECT_EQ(costs.within_host, Costs{}.within_host);
}

TEST(Costs, AreAssumedByTheInterfacesSpeedWhereItIsKnown) {
  EXPECT_EQ(assumed_costs(std::nullopt), Costs{});
  const auto usual = assumed_costs(10_Gbit), slow = assumed_costs(1_Gbit);
  EXPECT_NEAR(usual.between_hosts.per_byte / Costs{}.between_hosts.per_byte, 1, 1e-9);
  EXPECT_NEAR(slow.between_hosts.per_byte / usual.between_hosts.per_byte, 10, 1e-9);
  EXPECT_EQ(slow.between_hosts.latency, Costs{}.between_hosts.latency);
}

TEST(Costs, AreTheSameAfterAWayThroughWords) {
  Costs costs;
  costs.between_hosts = {1.0 / 3, 1e-17, 8.0e-10 / 7};
  EXPECT_EQ(parse_costs(encode_costs(costs)).value(), costs);
  EXPECT_EQ(parse_costs(encode_costs(Costs{})).value(), Costs{});
}

TEST(Costs, TakeWhatWasTunedAlong) {
  const auto costs = costs_of(map_of(R"(
measured:
  tuned:
    - {operation: all_reduce, hosts: 4, ranks: 8, up_to: 16 KiB, plan: recursive_doubling}
    - {operation: all_reduce, hosts: 4, ranks: 8, up_to: 64 MiB, plan: "ring,hierarchical"})"));
  ASSERT_EQ(costs.tuned.size(), 2u);
  EXPECT_EQ(costs.tuned[1], (map::TunedRange{"all_reduce", 4, 8, 64_MiB, "ring,hierarchical"}));
  EXPECT_TRUE(
      encode_costs(costs).ends_with("; all_reduce 4 8 16384 recursive_doubling"
                                    "; all_reduce 4 8 67108864 ring,hierarchical"))
      << encode_costs(costs);
  EXPECT_EQ(parse_costs(encode_costs(costs)).value(), costs);
}

TEST(Costs, WordsOfATuningThatSayTooLittleOrTooMuchAreRefused) {
  const auto times = encode_costs(Costs{});
  EXPECT_TRUE(parse_costs(times + "; all_reduce 4 8 1 ring"));
  for (const char* wrong :
       {";", "; ", "; all_reduce", "; all_reduce 4 8 1", "; all_reduce 4 8 1 ring ring",
        "; all_reduce four 8 1 ring", "; all_reduce 4 8 1.5 ring", "; all_reduce 4 8 1 ring;",
        "; all_reduce 4 99999999999 1 ring"})
    EXPECT_EQ(parse_costs(times + wrong).error().code, Code::invalid) << wrong;
}

TEST(Costs, WordsThatAreNoTimesAreRefused) {
  for (const char* wrong :
       {"", "1", "1 2 3 4 5 6", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 x", "1 2 3 4 5 6 -1",
        "1 2 3 4 5 6 nan", "1 2 3 4 5 6 inf", "1 2 3 4 5 6 1e9", "1,2,3,4,5,6,7"})
    EXPECT_EQ(parse_costs(wrong).error().code, Code::invalid) << wrong;
}

TEST(Costs, AreThoseOfTheEnvironment) {
  Costs costs;
  costs.reduction = 1e-9;
  EXPECT_EQ(costs_from_environment({{"LOCKSTEP_COSTS", encode_costs(costs)}}).value(), costs);
  EXPECT_EQ(costs_from_environment({}).value(), std::nullopt);
  EXPECT_TRUE(costs_from_environment({{"LOCKSTEP_COSTS", "fast"}})
                  .error()
                  .message.starts_with("LOCKSTEP_COSTS: 'fast' are not the costs"));
}

}  // namespace
}  // namespace lockstep::comm
