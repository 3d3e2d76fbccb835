#include "map/grown_map.h"

#include <gtest/gtest.h>

#include "map/query.h"

namespace lockstep::map {
namespace {

Host host_of(const std::string& id, int cores) {
  Host host;
  host.id = id;
  host.islands.emplace_back();
  for (int number = 0; number < cores; ++number)
    host.islands.back().devices.push_back(
        {.kind = DeviceKind::core, .number = number, .memory = std::nullopt});
  return host;
}

ClusterMap map_of(std::vector<Host> hosts) {
  ClusterMap map;
  map.name = "slurm";
  map.pods.push_back({"spine", {}, {{"leaf1", std::move(hosts)}}});
  return map;
}

TEST(GrownMap, NewHostsAreAdded) {
  const auto grown =
      grown_map(map_of({host_of("n1", 4)}), map_of({host_of("n1", 4), host_of("n2", 4)}));
  EXPECT_EQ(hosts(grown).size(), 2u);
  EXPECT_TRUE(check(grown));
}

TEST(GrownMap, AHostThatIsNoLongerSeenStays) {
  const auto grown =
      grown_map(map_of({host_of("n1", 4), host_of("n2", 4)}), map_of({host_of("n1", 4)}));
  EXPECT_NE(find_host(grown, "n2"), nullptr);
  ASSERT_EQ(grown.pods.size(), 1u);
  EXPECT_EQ(grown.pods[0].leaves.size(), 1u);
}

TEST(GrownMap, AHostThatIsNoLongerSeenStaysWithItsEngine) {
  ClusterMap before = map_of({host_of("n1", 4)});
  before.pods.push_back(map_of({host_of("here", 4)}).pods[0]);
  before.pods[0].engine = "slurm";
  before.pods[1].engine = "local";
  ClusterMap seen = before;
  seen.pods.erase(seen.pods.begin());
  const auto grown = grown_map(before, seen);
  EXPECT_EQ(engine_of(grown, "n1"), "slurm");
  EXPECT_EQ(engine_of(grown, "here"), "local");
}

TEST(GrownMap, AHostKeepsItsDevicesAndTakesNewLabels) {
  ClusterMap seen = map_of({host_of("n1", 8)});
  seen.pods[0].leaves[0].hosts[0].labels["feature/ib"] = "yes";
  const auto grown = grown_map(map_of({host_of("n1", 4)}), seen);
  EXPECT_EQ(device_count(*find_host(grown, "n1")), 4u);
  EXPECT_EQ(find_host(grown, "n1")->labels.size(), 1u);
}

TEST(GrownMap, TheSameHostsMakeTheSameMap) {
  const ClusterMap map = map_of({host_of("n1", 4), host_of("n2", 4)});
  EXPECT_EQ(grown_map(map, map), map);
}

}  // namespace
}  // namespace lockstep::map
