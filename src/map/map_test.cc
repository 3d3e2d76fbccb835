#include "map/map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map/grid.h"
#include "map/join_maps.h"
#include "map/map_file.h"
#include "map/query.h"
#include "map/tree.h"

namespace lockstep::map {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Host host(std::string id, LinkSpeed to_leaf = {}) {
  Host result;
  result.id = std::move(id);
  result.to_leaf = to_leaf;
  result.between_islands = {20_Gbit, Duration(3)};
  for (int island = 0; island < 2; ++island)
    result.islands.push_back({{40_Gbit, Duration(1)},
                              {{DeviceKind::gpu, 2 * island, 80_GiB, false},
                               {DeviceKind::gpu, 2 * island + 1, 80_GiB, false}}});
  return result;
}

// east: leaf 0 has a and b, leaf 1 has c; west: leaf 0 has d, whose link to its leaf is unknown.
ClusterMap two_pods() {
  LinkSpeed fast{10_Gbit, Duration(20)}, slow{1_Gbit, Duration(50)};
  Pod east{"east",
           {5_Gbit, Duration(7)},
           {{"e0", {host("a", fast), host("b", slow)}}, {"e1", {host("c", fast)}}}};
  Pod west{"west", {}, {{"w0", {host("d")}}}};
  return ClusterMap{"lab", {2_Gbit, Duration(100)}, {east, west}};
}

// A machine with this many cores and GPUs.
ClusterMap machine(int cores, int gpus) {
  Host result;
  result.id = "box-1234";
  result.name = "box";
  result.address = "127.0.0.1";
  result.cores = cores;
  Island& island = result.islands.emplace_back();
  for (int i = 0; i < (gpus > 0 ? gpus : cores); ++i)
    island.devices.push_back(
        {gpus > 0 ? DeviceKind::gpu : DeviceKind::core, i, std::nullopt, false});
  return ClusterMap{"box", {}, {Pod{"pod-0", {}, {Leaf{"leaf-0", {result}}}}}};
}

std::string id_list(const std::vector<const Host*>& all) {
  std::string ids;
  for (const Host* one : all) ids += one->id + " ";
  return ids;
}

TEST(JoinMaps, HasThePodsOfAllWithTheirEnginesAndKeepsThemInItsFile) {
  ClusterMap here{"here", {}, {Pod{"pod-0", {}, {{"leaf-0", {host("z")}}}}}};
  here.pods[0].leaves[0].hosts[0].labels = {{"engine", "mine"}};
  EXPECT_FALSE(has_several_engines(two_pods()));
  const auto all = join_maps({{"local", here}, {"slurm", two_pods()}});
  ASSERT_TRUE(all);
  EXPECT_EQ(engine_of(*all, "z"), "local");
  EXPECT_EQ(engine_of(*all, "d"), "slurm");
  EXPECT_EQ(engine_of(*all, "nowhere"), "");
  EXPECT_TRUE(has_several_engines(*all));
  EXPECT_EQ(find_host(*all, "d")->labels.at("engine"), "slurm");
  EXPECT_EQ(find_host(*all, "z")->labels.at("engine"), "mine");
  EXPECT_EQ(parse_map(dump_map(*all), "map.yaml").value(), *all);
  EXPECT_THAT(text(*all, TreeStyle::ascii), HasSubstr("engine slurm"));
}

TEST(JoinMaps, RefusesAHostThatTwoEnginesHave) {
  const auto all = join_maps({{"local", two_pods()}, {"slurm", two_pods()}});
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message, HasSubstr("the engines local and slurm both have a host 'a'"));
}

TEST(Query, HostsComeInOrderAndAreFoundById) {
  ClusterMap map = two_pods();
  EXPECT_EQ(id_list(hosts(map)), "a b c d ");
  EXPECT_EQ(id_list(hosts(map.pods[0])), "a b c ");
  EXPECT_EQ(find_host(map, "c"), &map.pods[0].leaves[1].hosts[0]);
  EXPECT_EQ(find_host(map, "x"), nullptr);
  EXPECT_EQ(device_count(map), 16u);
  EXPECT_EQ(devices(*find_host(map, "a"))[3]->number, 3);
}

TEST(Query, HostsHaveTheSameDevicesIfEachIndexNamesTheSame) {
  const Host before = host("a");
  Host after = before;
  after.address = "10.0.0.1";
  EXPECT_TRUE(has_same_devices(before, after));
  after.islands.back().devices.pop_back();
  EXPECT_FALSE(has_same_devices(before, after));
  after = before;
  after.islands.back().devices.back().number = 7;
  EXPECT_FALSE(has_same_devices(before, after));
}

TEST(Query, DevicesKeepTheirNumbersWhenTheirIndicesChange) {
  Host changed = host("a");
  const auto first = changed.islands.front().devices.begin();
  EXPECT_EQ(current_indices(changed, {0, 2}, {0, 2}), (std::vector{0, 2}));
  changed.islands.front().devices.erase(first);
  EXPECT_EQ(current_indices(changed, {0, 2}, {0, 2}), std::vector{1}) << "device 0 is gone";
  EXPECT_EQ(current_indices(changed, {0, 2}, {}), (std::vector{0, 2})) << "nothing else is known";
}

TEST(Query, AHostWithoutNameOrAddressGoesByItsId) {
  Host plain = host("a");
  EXPECT_EQ(name_of(plain), "a");
  EXPECT_EQ(address_of(plain), "a");
  plain.address = "10.0.0.1";
  EXPECT_EQ(address_of(plain), "10.0.0.1");
}

TEST(Query, TheCommonLevelIsTheSmallestThingThatHoldsBoth) {
  ClusterMap map = two_pods();
  auto level = [&](DeviceRef x, DeviceRef y) { return common_level(map, x, y).value(); };
  EXPECT_EQ(level({"a", 0}, {"a", 0}), Level::device);
  EXPECT_EQ(level({"a", 0}, {"a", 1}), Level::island);
  EXPECT_EQ(level({"a", 1}, {"a", 2}), Level::host);
  EXPECT_EQ(level({"a", 0}, {"b", 0}), Level::leaf);
  EXPECT_EQ(level({"a", 0}, {"c", 0}), Level::pod);
  EXPECT_EQ(level({"c", 0}, {"d", 0}), Level::cluster);
}

TEST(Query, AWayIsAsFastAsItsSlowestLinkAndAsLongAsAllOfThem) {
  ClusterMap map = two_pods();
  EXPECT_EQ(link_between(map, {"a", 0}, {"c", 0}).value(), (LinkSpeed{5_Gbit, Duration(47)}));
  EXPECT_EQ(link_between(map, {"a", 0}, {"a", 1}).value(), (LinkSpeed{40_Gbit, Duration(1)}));
  EXPECT_EQ(link_between(map, {"a", 0}, {"a", 3}).value(), (LinkSpeed{20_Gbit, Duration(3)}));
  EXPECT_EQ(link_between(map, {"a", 0}, {"b", 3}).value(), (LinkSpeed{1_Gbit, Duration(70)}));
  EXPECT_EQ(link_between(map, {"a", 0}, {"a", 0}).value(), (LinkSpeed{std::nullopt, Duration(0)}));
}

TEST(Query, AWayWithAnUnknownLinkIsUnknown) {
  EXPECT_EQ(link_between(two_pods(), {"a", 0}, {"d", 0}).value(), LinkSpeed{});
  EXPECT_EQ(link_between(two_pods(), {"d", 0}, {"a", 0}).value(), LinkSpeed{});
}

TEST(Query, WhatTheMapLacksIsNamed) {
  ClusterMap map = two_pods();
  const auto no_host = link_between(map, {"a", 0}, {"x", 0});
  EXPECT_EQ(no_host.error().code, Code::not_found);
  EXPECT_THAT(no_host.error().message, HasSubstr("'x'"));
  const auto no_device = common_level(map, {"a", 0}, {"a", 4});
  EXPECT_EQ(no_device.error().code, Code::not_found);
  EXPECT_THAT(no_device.error().message,
              AllOf(HasSubstr("'a'"), HasSubstr("device 4"), HasSubstr("has 4")));
  EXPECT_EQ(common_level(map, {"a", -1}, {"a", 0}).error().code, Code::not_found);
}

TEST(File, UuidsComeBackAndTheyStayWithTheirDevicesInAGrid) {
  ClusterMap map = machine(8, 4);
  auto& devices_there = map.pods[0].leaves[0].hosts[0].islands[0].devices;
  devices_there[0].uuid = "GPU-a0";
  devices_there[1].uuid = "GPU-a1";
  EXPECT_EQ(parse_map(dump_map(map), "x").value(), map) << dump_map(map);
  EXPECT_EQ(map_from_json(map_to_json(map)).value(), map);
  const ClusterMap grid = split_host(map, {2, 1}).value();
  EXPECT_EQ(devices(*hosts(grid)[1])[0]->uuid, "GPU-a1");
}

TEST(File, AMapComesBackFromYamlAndJson) {
  ClusterMap map = two_pods();
  EXPECT_EQ(parse_map(dump_map(map), "x").value(), map) << dump_map(map);
  EXPECT_EQ(map_from_json(map_to_json(map)).value(), map);
  EXPECT_EQ(parse_map(dump_json(map_to_json(map)), "x").value(), map);
}

TEST(File, NumbersThatAreLeftOpenGoOn) {
  ClusterMap map =
      parse_map(
          "pods: [{leaves: [{hosts: [{id: a, islands: [{devices: [{kind: gpu, count: 2}, "
          "{kind: core}]}, {devices: [{kind: gpu, count: 2}]}]}]}]}]",
          "x")
          .value();
  std::string numbers;
  for (const Device* device : devices(*find_host(map, "a")))
    numbers += format("{}{} ", lockstep::name_of(device->kind), device->number);
  EXPECT_EQ(numbers, "gpu0 gpu1 core0 gpu2 gpu3 ");
}

TEST(File, ErrorsInJsonNameThePath) {
  Json json = map_to_json(two_pods());
  json["pods"][1]["leaves"][0]["hosts"][0]["id"] = "a";
  const auto twice = map_from_json(json);
  EXPECT_EQ(twice.error().code, Code::invalid);
  EXPECT_THAT(twice.error().message,
              AllOf(HasSubstr("pods[1].leaves[0].hosts[0].id: "), HasSubstr("'a'"),
                    HasSubstr("pods[0].leaves[0].hosts[0]")));
  const auto empty = check(ClusterMap{});
  EXPECT_EQ(empty.error().code, Code::invalid);
  EXPECT_THAT(empty.error().message, AllOf(HasSubstr("pods: "), HasSubstr("empty")));
}

TEST(Grid, IsReadFromItsShortForm) {
  EXPECT_EQ(parse_host_grid("2x3").value(), (HostGrid{2, 3}));
  const auto no_grid = parse_host_grid("2by2");
  EXPECT_EQ(no_grid.error().code, Code::invalid);
  EXPECT_THAT(no_grid.error().message, AllOf(HasSubstr("'2by2'"), HasSubstr("HOSTSxDEVICES"),
                                             HasSubstr("2x2"), HasSubstr("1 to 1024")));
  for (const char* wrong : {"", "x", "2", "2x", "x2", "0x2", "2x0", "-1x2", "2x2x2", " 2x2", "2x2 ",
                            "1025x1", "99999999999x1", "1e1x2", "2X2", "1000x1000"})
    EXPECT_FALSE(parse_host_grid(wrong)) << wrong;
  EXPECT_EQ(parse_host_grid("2048x3", {.each = 2048, .devices = 6144}).value(),
            (HostGrid{2048, 3}));
  const auto too_large = parse_host_grid("65536x65536", {.each = 65536, .devices = 6144});
  EXPECT_EQ(too_large.error().code, Code::invalid);
  EXPECT_THAT(too_large.error().message,
              AllOf(HasSubstr("'65536x65536'"), HasSubstr("4294967296"), HasSubstr("6144")));
}

TEST(Grid, HostsHaveTheirOwnIdsOnOneLeafAndCoresOfTheirOwnWhileTheseLast) {
  ClusterMap map = split_host(machine(4, 0), {2, 2}).value();
  EXPECT_TRUE(check(map));
  EXPECT_EQ(id_list(hosts(map)), "box-0 box-1 ");
  EXPECT_EQ(common_level(map, {"box-0", 0}, {"box-1", 0}).value(), Level::leaf);
  int core = 0;
  for (const Host* one : hosts(map)) {
    EXPECT_EQ(one->address, "127.0.0.1");
    for (const Device* device : devices(*one))
      EXPECT_EQ(*device, (Device{DeviceKind::core, core++, std::nullopt, false}));
  }
}

TEST(Grid, HostsShareTheMachinesCoresAndMemoryInEqualParts) {
  ClusterMap one = machine(5, 0);
  one.pods[0].leaves[0].hosts[0].memory = 24_GiB;
  const ClusterMap two = split_host(one, {2, 2}).value();
  for (const Host* host : hosts(two)) {
    EXPECT_EQ(host->cores, 2);
    EXPECT_EQ(host->memory, 12_GiB);
  }
  const ClusterMap eight = split_host(one, {8, 1}).value();
  for (const Host* host : hosts(eight)) EXPECT_EQ(host->cores, 1);
}

TEST(Grid, CoresAreDealtAgainAndMarkedWhenThereAreTooFew) {
  ClusterMap map = split_host(machine(3, 0), {2, 2}).value();
  EXPECT_TRUE(check(map));
  std::string dealt;
  for (const Host* one : hosts(map))
    for (const Device* device : devices(*one))
      dealt += format("{}{} ", device->number, device->shared ? "s" : "");
  EXPECT_EQ(dealt, "0s 1 2 0s ");
  EXPECT_EQ(device_count(split_host(machine(1, 0), {1, 8}).value()), 8u);
  EXPECT_TRUE(check(split_host(machine(1, 0), {1, 8}).value()));
}

TEST(Grid, GpusAreDealtOnlyIfThereIsOneForEach) {
  auto kind = [](const ClusterMap& map) { return devices(*hosts(map).front()).front()->kind; };
  EXPECT_EQ(kind(split_host(machine(8, 4), {2, 2}).value()), DeviceKind::gpu);
  EXPECT_EQ(kind(split_host(machine(8, 1), {2, 2}).value()), DeviceKind::core);
}

TEST(Grid, OnlyOneHostCanBePresentedAsSeveral) {
  const auto refused = split_host(two_pods(), {2, 2});
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("one host"), HasSubstr("has 4")));
}

constexpr std::string_view kCommented =
    "# the lab\n"
    "measured:\n"
    "  fabric: tcp over eth0\n"
    "\n"
    "pods:  # one\n"
    "  - leaves:\n"
    "      - hosts: [{id: a, islands: [{devices: [{kind: core}]}]}]\n";

TEST(Measured, IsWrittenInPlaceOfWhatWasThereAndCommentsStay) {
  Measured measured;
  measured.fabric = "tcp over eth1";
  measured.between_hosts = {12.5, 3, 9.41};
  auto rewritten = rewrite_measured(kCommented, "lab.yaml", measured).value();
  EXPECT_TRUE(rewritten.kept_comments);
  EXPECT_TRUE(rewritten.text.starts_with("# the lab\npods:  # one\n")) << rewritten.text;
  EXPECT_EQ(parse_map(rewritten.text, "lab.yaml").value().measured, measured);
  measured.reduction_gbyte_per_second = 8;
  rewritten = rewrite_measured(rewritten.text, "lab.yaml", measured).value();
  EXPECT_EQ(parse_map(rewritten.text, "lab.yaml").value().measured, measured);
}

TEST(Measured, OfAFileInBracesItIsWrittenAnew) {
  Measured measured;
  measured.within_host = {0.5, 0.25, 80};
  const auto rewritten = rewrite_measured(
      "{pods: [{leaves: [{hosts: [{id: a, islands: [{devices: [{kind: core}]}]}]}]}]} # all",
      "lab.yaml", measured);
  EXPECT_FALSE(rewritten->kept_comments);
  EXPECT_EQ(parse_map(rewritten->text, "lab.yaml").value().measured, measured);
}

TEST(Measured, AFileThatIsNoMapIsRefused) {
  EXPECT_FALSE(rewrite_measured("name: lab\n", "lab.yaml", {}));
}

TEST(Tree, OneHostIsShownWithoutLinksToNobody) {
  EXPECT_EQ(text(machine(2, 0), TreeStyle::ascii),
            "cluster box                   1 host: 2 cores; memory unknown\n"
            "`- pod pod-0                  1 host: 2 cores; memory unknown\n"
            "   `- leaf leaf-0             1 host: 2 cores; memory unknown\n"
            "      `- host box (box-1234)  2 cores; memory unknown\n"
            "         `- island 0          2 cores                          between devices "
            "unknown\n");
}

TEST(Tree, AClusterWithoutHostsSaysSo) {
  EXPECT_EQ(text(ClusterMap{.name = "lab", .between_pods = {}, .pods = {}}),
            "cluster lab  no hosts\n");
}

}  // namespace
}  // namespace lockstep::map
