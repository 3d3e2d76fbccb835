#include "daemon.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/file_limit.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "net/loop.h"
#include "platform/controller/controller.h"
#include "platform/engine/engine.h"
#include "platform/host/home.h"
#include "platform/host/keys.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"
#include "platform/server/server.h"
#include "platform/store/budget_store.h"
#include "platform/store/database.h"
#include "platform/store/history_store.h"
#include "platform/store/identity_store.h"
#include "platform/store/sql_store.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::bench {
namespace {

constexpr auto kTick = std::chrono::milliseconds(200);

// Its nodes are simulated by the process that reads `launches`.
class SimulatedEngine : public engine::Engine {
 public:
  SimulatedEngine(std::filesystem::path home, Fd launches, Fd ended)
      : home_(std::move(home)), launches_(std::move(launches)), ended_(std::move(ended)) {}

  std::string_view name() const override { return "simulated"; }
  void submit(engine::Gang gang) override {
    gang.program.attempt.reset();  // names all nodes of the attempt
    for (const engine::NodePlacement& node : gang.nodes)
      if (nodes_.insert(engine::node_name(gang, node)).second)
        LS_CHECK(write_all(launches_.get(),
                           dump_json(to_json(engine::launch_spec(gang, node, home_))) + "\n"));
  }
  void kill(const model::NodeName& node) override { nodes_.erase(node); }
  Result<engine::EngineList> list() override {
    remove_ended();
    engine::EngineList listed;
    for (const model::NodeName& node : nodes_) listed.nodes.push_back({.node = node});
    return listed;
  }

 private:
  void remove_ended() {
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(ended_.get(), bytes, sizeof bytes)) > 0;)
      input_.append(bytes, static_cast<std::size_t>(n));
    for (std::size_t end = 0; (end = input_.find('\n')) != std::string::npos;
         input_.erase(0, end + 1))
      nodes_.erase(model::parse_node_name(input_.substr(0, end)).value());
  }

  const std::filesystem::path home_;
  Fd launches_, ended_;
  std::string input_;
  std::set<model::NodeName> nodes_;
};

map::ClusterMap map_of(int hosts) {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (int i = 0; i < hosts; ++i) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = format("host-{}", i);
    host.address = "127.0.0.1";
    host.islands.emplace_back().devices.push_back({map::DeviceKind::core, i, {}, false});
  }
  return map;
}

struct Ticks {
  net::Loop& loop;
  controller::Controller& controller;
  net::Timer tick{}, effects{};

  void run() {
    tick = loop.after(kTick, [this] { run(); });
    controller.tick();
    execute();
  }
  void execute() {
    if (controller.execute_effects()) effects = loop.after(Duration(0), [this] { execute(); });
  }
};

Result<void> serve(const host::Home& home, int hosts) {
  const auto database = TRY(store::Database::open(home.store()));
  store::SqlStore store(*database);
  store::SqlIdentityStore identities(*database);
  store::SqlBudgetStore budgets(*database);
  store::NoticeStore notices(*database);
  store::HistoryFile history(home.stores_file());
  const auto series = TRY(insight::open_folder_series(home.series(), {.wait = Duration(0)}));
  insight::Insight insight(*database, *series);
  SimulatedEngine engine(home.folder,
                         TRY(open_file(home.folder / kLaunches, O_WRONLY | O_CREAT | O_APPEND)),
                         TRY(open_file(home.folder / kEnded, O_RDONLY | O_CREAT)));
  const SystemClock clock;
  const MonotonicClock steady;
  const host::Keys keys = TRY(host::Keys::open(home.folder));
  const auto controller = TRY(controller::Controller::open({.store = store,
                                                            .history = history,
                                                            .engine = engine,
                                                            .clock = clock,
                                                            .steady = steady,
                                                            .keys = keys,
                                                            .map = map_of(hosts),
                                                            .home = home.folder}));
  net::Loop loop;
  const auto server = TRY(server::Server::start(loop, {.controller = *controller,
                                                       .insight = insight,
                                                       .keys = keys,
                                                       .clock = clock,
                                                       .identities = identities,
                                                       .budgets = budgets,
                                                       .notices = notices,
                                                       .database = *database,
                                                       .home = home,
                                                       .version = "bench"}));
  TRY(write_file(
      home.daemon_file(),
      host::daemon_file_text({.url = server->url(), .pid = ::getpid(), .version = "bench"})));
  Ticks ticks{loop, *controller};
  ticks.run();
  loop.on_signals({SIGTERM}, [&](int) { server->stop([&] { loop.stop(); }); });
  loop.run();
  return {};
}

}  // namespace

int run_daemon(const std::filesystem::path& folder, int hosts) {
  set_log_name("daemon");
  (void)raise_file_limit();
  const auto served = serve({.folder = folder}, hosts);
  if (!served) std::fprintf(stderr, "the daemon: %s\n", served.error().message.c_str());
  return served ? 0 : 1;
}

}  // namespace lockstep::bench
