#include "apps/served.h"

#include "base/files.h"
#include "base/format.h"
#include "map/discover/discover.h"
#include "map/file.h"
#include "map/grid.h"
#include "net/url.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep {

Result<Served> served_before(const Home& home) {
  auto content = read_file(home.served_file());
  if (!content && content.error().code == Code::not_found) return Served{};
  auto read = [&]() -> Result<Served> { return from_json<Served>(TRY(parse_json(TRY(content)))); };
  auto served = read();
  if (!served) return std::move(served).error().within(home.served_file().string());
  return served;
}

Result<void> keep_served(const Home& home, const Served& served) {
  return write_file(home.served_file(), dump_json(to_json(served)) + "\n");
}

Result<Map> wanted_map(const Served& served) {
  if (!served.map_file.empty()) return parse_map(TRY(read_file(served.map_file)), served.map_file);
  Map machine = TRY(discover_local());
  if (served.hosts.empty()) return machine;
  return present_as(machine, TRY(parse_host_grid(served.hosts)));
}

Result<void> check_map(const Served& served) {
  if (!served.map_file.empty()) TRY(parse_map(TRY(read_file(served.map_file)), served.map_file));
  if (!served.hosts.empty()) TRY(parse_host_grid(served.hosts));
  return {};
}

Error not_listening(const Error& error, const Served& served) {
  const bool taken = served.port != 0 && error.code == Code::already_exists;
  return {error.code, format("{}; choose another {}", error.message,
                             taken ? "by --port, or 0 for any that is free" : "by --listen")};
}

std::optional<std::string> warning_about(const Served& served) {
  if (is_loopback(served.listen)) return std::nullopt;
  return format(
      "{} can be reached from other machines, and HTTP is not encrypted: whoever is on the way can "
      "read the tokens; use a network that you trust",
      served.listen);
}

}  // namespace lockstep
