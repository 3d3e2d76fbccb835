#include "comm/torch/launcher_environment.h"

#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/os/environment.h"
#include "comm/collective/start/launched_rank.h"
#include "comm/collective/start/meeting_exchange.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/address/port_range.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

struct MetRanks {
  Mutex mutex;  // guards what follows
  std::optional<net::Secret> secret LS_GUARDED_BY(mutex);
  std::optional<MeetingExchange> exchange LS_GUARDED_BY(mutex);  // of rank 0, while they connect
};

MetRanks& met_ranks() {
  static auto* const met = new MetRanks;  // never destroyed: threads may outlive statics
  return *met;
}

bool is_set_by_script(const Environment& environment) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    if (value_of(environment, name)) return true;
  return false;
}

// A port on which rank 0's store will listen in a moment.
Result<std::uint16_t> free_port(const std::string& host, const PortRange& ports) {
  const auto listener = TRY(on_free_port(
      host, ports, [&](std::uint16_t port) { return net::Listener::tcp(host, port); }));
  return listener.port();
}

}  // namespace

Result<std::map<std::string, std::string>> meet_by_launcher(Duration timeout) {
  const Environment environment = own_environment();
  std::map<std::string, std::string> variables;
  if (is_set_by_script(environment)) return variables;
  const auto launch = own_launched_rank();
  if (!launch && launch.error().code == Code::not_found) return variables;
  TRY(launch);
  const Deadline deadline = Deadline::after(timeout);
  auto exchange = TRY(MeetingExchange::open(environment, *launch, deadline));
  const auto meet = [&]() -> Result<MeetingPlace> {
    if (launch->rank != 0) return exchange.receive(deadline);
    const auto network = TRY(network_options_from_environment(environment));
    const auto host = TRY(meeting_address(*launch, network));
    MeetingPlace place{text(net::HostPort{host, TRY(free_port(host, network.ports))}),
                       net::Secret::random()};
    TRY(exchange.publish(place, deadline));
    return place;
  };
  const MeetingPlace place = TRY(meet());
  const net::HostPort master = TRY(net::parse_host_port(place.address));
  MetRanks& met = met_ranks();
  const Lock lock(met.mutex);
  met.secret = place.secret;
  if (launch->rank == 0) met.exchange = std::move(exchange);
  variables = {{"RANK", format("{}", launch->rank)},
               {"WORLD_SIZE", format("{}", launch->size)},
               {"MASTER_ADDR", master.host},
               {"MASTER_PORT", format("{}", master.port)},
               {kMeetingPlace, format("{}:{}", master.host, master.port)}};
  if (launch->local_rank) variables["LOCAL_RANK"] = format("{}", *launch->local_rank);
  if (launch->local_size) variables["LOCAL_WORLD_SIZE"] = format("{}", *launch->local_size);
  return variables;
}

void end_launcher_meeting() {
  MetRanks& met = met_ranks();
  const Lock lock(met.mutex);
  if (met.exchange) met.exchange->remove();
  met.exchange.reset();
}

std::optional<net::Secret> launcher_secret() {
  MetRanks& met = met_ranks();
  const Lock lock(met.mutex);
  return met.secret;
}

}  // namespace lockstep::comm
