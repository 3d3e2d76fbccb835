#include "apps/run_daemon.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "apps/exit_codes.h"
#include "apps/own_daemon.h"
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "net/loop.h"
#include "platform/controller/controller.h"
#include "platform/engine/local/local_engine.h"
#include "platform/host/keys.h"
#include "platform/host/own_log.h"
#include "platform/insight/insight.h"
#include "platform/janitor/janitor.h"
#include "platform/server/server.h"
#include "platform/store/sql_store.h"

namespace lockstep {
namespace {

constexpr auto kTick = std::chrono::milliseconds(200);

// What the parts stand on: the folder's store and keys, the cluster, and what starts agents there.
struct Ground {
  std::unique_ptr<Database> database;
  Keys keys;
  Map map;
  LocalEngine engine;
  SystemClock clock{};
  SqlStore store{*database};
  insight::Insight insight{*database};
};

// The database first, since it locks the folder: of two daemons that start at once one makes the
// keys.
Result<Ground> take(const Home& home, const Served& served) {
  auto database = TRY(Database::open(home.store()));
  ::unlink(home.daemon_file().c_str());  // of one that was killed; its process id may be another's
  Keys keys = TRY(Keys::open(home.folder));
  Map map = TRY(wanted_map(served));
  LocalEngine engine = TRY(LocalEngine::open(TRY(own_program()), home.folder));
  return Ground{.database = std::move(database),
                .keys = std::move(keys),
                .map = std::move(map),
                .engine = std::move(engine)};
}

ControllerSetup controller_setup(Ground& ground, const Home& home) {
  return {.store = ground.store,
          .engine = ground.engine,
          .clock = ground.clock,
          .keys = ground.keys,
          .map = ground.map,
          .home = home.folder};
}

JanitorSetup janitor_setup(Ground& ground, const Controller& controller, const Home& home,
                           const Served& served) {
  return {.state = controller.state(),
          .insight = ground.insight,
          .database = *ground.database,
          .clock = ground.clock,
          .home = home.folder,
          .token_of = [&ground](const NodeId& node) { return ground.engine.token(node); },
          .keep_logs = served.keep_logs};
}

ServerSetup server_setup(Ground& ground, Controller& controller, const Janitor& janitor,
                         const Home& home, const Served& served) {
  return {.controller = controller,
          .insight = ground.insight,
          .keys = ground.keys,
          .clock = ground.clock,
          .home = home,
          .version = LOCKSTEP_VERSION,
          .host = served.listen,
          .host_names = served.names,
          .port = served.port,
          .troubles = [&] {
            auto all = controller.troubles();
            std::ranges::move(janitor.troubles(), std::back_inserter(all));
            return all;
          }};
}

// From here on commands and agents find it.
Result<void> announce(const Server& server, const Home& home, const Served& served) {
  TRY(keep_served(home, served));
  TRY(write_daemon_file(home.daemon_file(),
                        {.url = server.url(), .pid = ::getpid(), .version = LOCKSTEP_VERSION}));
  LS_LOG(info, "serving {} at {}", home.folder.string(), server.url());
  if (auto warning = warning_about(served)) LS_LOG(warning, "{}", *warning);
  return {};
}

// What the daemon does again and again: time passes for its runs, then a little tidying.
struct Ticking {
  Loop& loop;
  Controller& controller;
  Janitor& janitor;
  std::filesystem::path log;
  Timer timer{}, acting{};
};

// What is decided for a large gang takes a while: others have their turns in between.
void act_in_turns(Ticking& ticking) {
  if (ticking.controller.act())
    ticking.acting = ticking.loop.after(Duration(0), [&] { act_in_turns(ticking); });
}

void tick_for_ever(Ticking& ticking) {
  // First, so that an exception, which the loop logs, does not end time-outs for good.
  ticking.timer = ticking.loop.after(kTick, [&] { tick_for_ever(ticking); });
  ticking.controller.tick();
  act_in_turns(ticking);
  ticking.janitor.slice();
  if (auto bounded = bound_own_log(ticking.log, kDaemonLogMax); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

}  // namespace

Result<int> run_daemon(const Home& home, const Served& served) {
  set_log_name("daemon");
  if (auto raised = raise_file_limit(); !raised) LS_LOG(warning, "{}", raised.error().message);

  Ground ground = TRY(take(home, served));
  const auto controller = TRY(Controller::open(controller_setup(ground, home)));
  Janitor janitor(janitor_setup(ground, *controller, home, served));
  controller->subscribe([&](const RunId& run, std::int64_t) { janitor.look_at(run); });

  Loop loop;
  const auto started =
      Server::start(loop, server_setup(ground, *controller, janitor, home, served));
  if (!started) return not_listening(started.error(), served);
  Server& server = **started;
  TRY(announce(server, home, served));

  Ticking ticking{
      .loop = loop, .controller = *controller, .janitor = janitor, .log = home.log_file()};
  tick_for_ever(ticking);
  loop.on_signals({SIGTERM, SIGINT}, [&](int) { server.stop([&] { loop.stop(); }); });
  loop.run();

  ::unlink(home.daemon_file().c_str());
  LS_LOG(info, "stopped; agents and ranks go on");
  return kDone;
}

}  // namespace lockstep
