#include "map/map.h"

#include <memory>

#include "apps/own_daemon.h"
#include "apps/subcommand.h"
#include "base/files.h"
#include "map/file.h"
#include "map/tree.h"
#include "text/json.h"

namespace lockstep {
namespace {

struct MapFlags {
  std::string file;
  bool json = false;
};

Result<Map> wanted_map(const MapFlags& flags) {
  if (!flags.file.empty()) return parse_map(TRY(read_file(flags.file)), flags.file);
  Client client = TRY(connect());
  return map_from_json(TRY(client.map()));
}

std::string lines_of(const Map& map) {
  std::string lines = text(map);
  while (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

}  // namespace

// `lockstep map [--file cluster.yaml]`: the cluster as a tree; with a file, checks it without a
// daemon.
void add_map(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("map", "Print the map of the cluster as a tree");
  auto flags = std::make_shared<MapFlags>();
  command
      ->add_option("--file", flags->file, "print and check this file instead of the daemon's map")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  lockstep map --file cluster.yaml");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      Map map = TRY(wanted_map(*flags));
      if (flags->json)
        print(dump_json(map_to_json(map), Indent::two));
      else
        print(lines_of(map));
      return kDone;
    };
  });
}

}  // namespace lockstep
