// Served: what a daemon serves and where, as `lockstep serve` is told it and as the home keeps it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "map/map.h"
#include "platform/host/home.h"
#include "platform/janitor/janitor.h"
#include "text/record.h"

namespace lockstep {

// What is served and where. The home keeps it, so that a daemon that a command starts after a crash
// serves the cluster that its runs are on.
struct Served {
  std::string hosts, map_file;
  std::string listen = "127.0.0.1";
  std::vector<std::string> names;
  int port = 0;
  Duration keep_logs = kKeepLogs;

  static constexpr auto fields() {
    return record<Served>(field("hosts", &Served::hosts, "the grid that this machine presents"),
                          field("map", &Served::map_file, "the cluster's file"),
                          field("listen", &Served::listen, "address to listen on"),
                          field("names", &Served::names, "further names of that address"),
                          field("port", &Served::port, "port; 0: any free one"),
                          field("keep_logs", &Served::keep_logs, "lines, after a run's end"));
  }
};

// As the last daemon of this home, if there was one.
Result<Served> served_before(const Home& home);
// The file that keeps it for the next one.
std::string served_text(const Served& served);

// The cluster: the file's, or this machine, as it is or as the grid presents it.
Result<Map> wanted_map(const Served& served);
// What the background daemon would only tell its log.
Result<void> check_map(const Served& served);

// Why nothing listens, and what to do.
Error not_listening(const Error& error, const Served& served);
// Where this machine's own commands reach it, and where other machines do: a name that was given,
// or an address. The second is empty when it listens to this machine alone, or has no address for
// them.
std::string own_host(const Served& served);
std::string network_host(const Served& served);
// Where others on the network can listen, the user is told.
std::optional<std::string> warning_about(const Served& served);

}  // namespace lockstep
