#include "map/map.h"

#include <charconv>
#include <iostream>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/measure/map_measurements.h"
#include "base/os/files.h"
#include "map/discover/discover.h"
#include "map/discover/nccl_topology.h"
#include "map/map_file.h"
#include "map/query.h"
#include "map/tree.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep::cli {
namespace {

struct MapFlags {
  std::string file;
  std::vector<std::string> between;
  std::string measured;  // a file; "-": standard input
  bool json = false;
  bool yaml = false;
  bool nccl_topo = false;
};

constexpr std::size_t kProbeMax = 1 << 20;

Result<std::string> probe_output(const std::string& file) {
  if (file != "-") return read_file(file, kProbeMax);
  std::string words;
  for (char c = 0; words.size() < kProbeMax && std::cin.get(c);) words += c;
  return words;
}

// The map of the daemon with what was measured.
Result<map::ClusterMap> keep_measured(const std::string& file) {
  const map::Measured found = TRY(read_probe(TRY(probe_output(file))));
  client::Client client = TRY(connect_to_daemon());
  map::Measured measured = TRY(client.call(api::kMap)).measured.value_or(map::Measured{});
  add_measured(found, measured);
  return client.call(api::kSetMeasured, {.request = std::move(measured)});
}

Result<map::ClusterMap> cluster_map(const MapFlags& flags) {
  if (!flags.measured.empty()) return keep_measured(flags.measured);
  if (!flags.file.empty()) return map::parse_map(TRY(read_file(flags.file)), flags.file);
  client::Client client = TRY(connect_to_daemon());
  map::ClusterMap map = TRY(client.call(api::kMap));
  if (!map.pods.empty()) TRY(map::check(map));  // empty: no host has joined yet
  return map;
}

std::string without_end(std::string lines) {
  while (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

// HOST:DEVICE; a host alone means its first device.
Result<map::DeviceRef> device_argument(const std::string& words) {
  const std::size_t colon = words.find(':');
  map::DeviceRef device{words.substr(0, colon)};
  if (colon == std::string::npos) return device;
  const char* end = words.data() + words.size();
  const auto read = std::from_chars(words.data() + colon + 1, end, device.index);
  if (read.ec == std::errc() && read.ptr == end) return device;
  return Error{Code::invalid,
               format("--between {}: write HOST or HOST:DEVICE, such as node-1:0", words)};
}

Result<std::string> way_between(const map::ClusterMap& map, const std::vector<std::string>& ends) {
  const map::DeviceRef from = TRY(device_argument(ends.at(0))),
                       to = TRY(device_argument(ends.at(1)));
  const map::Level level = TRY(map::common_level(map, from, to));
  return format("nearest in common: {}\nlink: {}", name_of(level),
                text(TRY(map::link_between(map, from, to))));
}

// The link of this machine in the map of a file or of the daemon; unknown where there is none.
map::LinkSpeed own_link(const MapFlags& flags) {
  const auto map = cluster_map(flags);
  const auto self = map::discover_local();
  if (!map || !self) return {};
  const map::Host& own = *map::hosts(*self).front();
  for (const map::Host* host : map::hosts(*map))
    if (host->id == own.id || host->id == own.name) return host->to_leaf;
  return {};
}

Result<std::string> shown(const map::ClusterMap& map, const MapFlags& flags) {
  if (!flags.between.empty()) return way_between(map, flags.between);
  if (flags.json) return dump_json(map::map_to_json(map), Indent::two);
  return without_end(flags.yaml ? map::dump_map(map) : text(map));
}

Result<std::string> output_of(const MapFlags& flags) {
  if (flags.nccl_topo) return map::nccl_topology(own_link(flags));
  return shown(TRY(cluster_map(flags)), flags);
}

}  // namespace

// `lockstep map [--file cluster.yaml]`: the cluster as a tree; with a file, checks it without a
// daemon.
void add_map(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("map", "Print the map of the cluster as a tree");
  auto flags = std::make_shared<MapFlags>();
  auto* file = command
                   ->add_option("--file", flags->file,
                                "print and check this file instead of the daemon's map")
                   ->type_name(kFileValue);
  auto* json = command->add_flag("--json", flags->json, "print JSON");
  auto* yaml =
      command->add_flag("--yaml", flags->yaml, "print a file that --file reads, to begin from")
          ->excludes(json);
  auto* between =
      command
          ->add_option("--between", flags->between, "print the link between two hosts or devices")
          ->type_name("HOST[:DEVICE]")
          ->expected(2)
          ->excludes(json, yaml);
  auto* measured =
      command
          ->add_option(
              "--measured", flags->measured,
              "keep what `lockstep probe --json` printed, in the map of a cluster whose hosts "
              "join; -: standard input")
          ->type_name(kFileValue)
          ->excludes(file);
  command
      ->add_flag("--nccl-topo", flags->nccl_topo,
                 "print the topology of this machine for NCCL_TOPO_FILE")
      ->excludes(json, yaml, between, measured);
  command->footer(
      "Examples:\n"
      "  lockstep map --nccl-topo > topology.xml\n"
      "  lockstep map --yaml > cluster.yaml\n"
      "  lockstep map --file cluster.yaml --between node-1 node-2:3\n"
      "  lockstep run -n 2 -- lockstep probe --json | lockstep map --measured -");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      print(TRY(output_of(*flags)));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
