#include "apps/run_daemon.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include "apps/announcement.h"
#include "apps/exit_codes.h"
#include "apps/own_daemon.h"
#include "base/clock.h"
#include "base/file_limit.h"
#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "base/steady_clock.h"
#include "net/loop.h"
#include "platform/client/client.h"
#include "platform/controller/controller.h"
#include "platform/engine/local/local_engine.h"
#include "platform/host/keys.h"
#include "platform/host/own_log.h"
#include "platform/host/place.h"
#include "platform/insight/insight.h"
#include "platform/janitor/janitor.h"
#include "platform/server/server.h"
#include "platform/store/history_keeper.h"
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
  MachineClock steady{};
  SqlStore store{*database};
  HistoryFile history;
  HomePlace place;
  insight::Insight insight{*database};
};

// The daemon of a copy's original, though that is nowhere to be found.
bool original_answers(const Home& home) {
  const auto file = read_daemon_file(home.daemon_file());
  auto token = read_file(home.token_file(), 4096);
  if (!file || !token) return false;
  while (token->ends_with('\n')) token->pop_back();
  return Client(file->url, *std::move(token)).version().has_value();
}

// A copy has the names and keys of the original: its daemon would take the original's nodes for its
// own.
Result<HomePlace> check_place(const Home& home) {
  const HomePlace place = TRY(place_of(home));
  if (place == HomePlace::same) return place;
  const auto copy_of = [&](const std::string& original) {
    return Error{Code::denied,
                 format("{} is a copy of {}, to which the runs belong; set LOCKSTEP_HOME to that, "
                        "or end its daemon and remove it if the copy is to take its place",
                        home.folder.string(), original)};
  };
  if (const auto original = TRY(original_of(home))) return copy_of(original->string());
  if (original_answers(home)) return copy_of("a folder whose daemon runs");
  return place;
}

// The database first, since it locks the folder: of two daemons that start at once one makes the
// keys.
Result<Ground> take(const Home& home, const Served& served) {
  auto database = TRY(Database::open(home.store()));
  const HomePlace place = TRY(check_place(home));
  ::unlink(home.daemon_file().c_str());  // of one that was killed; its process id may be another's
  Keys keys = TRY(Keys::open(home.folder));
  Map map = TRY(wanted_map(served));
  LocalEngine engine = TRY(LocalEngine::open(TRY(own_program()), home.folder));
  return Ground{.database = std::move(database),
                .keys = std::move(keys),
                .map = std::move(map),
                .engine = std::move(engine),
                .history = HistoryFile(home.stores_file()),
                .place = place};
}

ControllerSetup controller_setup(Ground& ground, const Home& home) {
  return {.store = ground.store,
          .history = ground.history,
          .engine = ground.engine,
          .clock = ground.clock,
          .steady = ground.steady,
          .keys = ground.keys,
          .map = ground.map,
          .home = home.folder,
          .home_is_copy = ground.place == HomePlace::copied};
}

JanitorSetup janitor_setup(Ground& ground, const Controller& controller, const Home& home,
                           const Served& served) {
  return {.state = controller.state(),
          .insight = ground.insight,
          .database = *ground.database,
          .clock = ground.clock,
          .steady = ground.steady,
          .home = home.folder,
          .token_of = [&ground](const NodeName& node) { return ground.engine.token(node); },
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
            if (auto placed = ground.database->check_place(); !placed)
              all.push_back(placed.error().message);
            return all;
          }};
}

// What the daemon does again and again: time passes for its runs, then a little tidying.
struct Ticking {
  Loop& loop;
  Controller& controller;
  Janitor& janitor;
  const Database& database;
  Announcement& announcement;
  std::filesystem::path log;
  std::function<void()> end;
  bool misplaced = false;
  Timer timer{}, acting{};
};

// What is decided for a large gang takes a while: others have their turns in between.
void act_in_turns(Ticking& ticking) {
  if (ticking.controller.act())
    ticking.acting = ticking.loop.after(Duration(0), [&] { act_in_turns(ticking); });
}

// Another database has the name of ours: a daemon that takes it up writes the same files.
bool is_displaced(const Ticking& ticking) {
  return ticking.database.place() == Database::Place::taken;
}

// Said at once, though nothing may be stored for a long time.
void tell_of_place(Ticking& ticking) {
  const auto placed = ticking.database.check_place();
  if (!placed && !ticking.misplaced) LS_LOG(error, "{}", placed.error().message);
  if (placed && ticking.misplaced) LS_LOG(info, "the database is back in its place");
  ticking.misplaced = !placed;
}

void tick_for_ever(Ticking& ticking) {
  if (is_displaced(ticking)) return ticking.end();
  // First, so that an exception, which the loop logs, does not end time-outs for good.
  ticking.timer = ticking.loop.after(kTick, [&] { tick_for_ever(ticking); });
  tell_of_place(ticking);
  ticking.announcement.keep();
  ticking.controller.tick();
  act_in_turns(ticking);
  ticking.janitor.slice();
  if (auto bounded = bound_own_log(ticking.log, kDaemonLogMax); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

}  // namespace

Result<int> run_daemon(const Home& home, const Served& served) {
  set_log_name("daemon");
  if (auto raised = raise_file_limit(); !raised) {
    if (raised.error().code == Code::exhausted) return std::move(raised).error();
    LS_LOG(warning, "{}", raised.error().message);
  }

  Ground ground = TRY(take(home, served));
  const auto controller = TRY(Controller::open(controller_setup(ground, home)));
  TRY(note_place(home));  // a copy's store has another generation by now
  Janitor janitor(janitor_setup(ground, *controller, home, served));
  controller->subscribe([&](const RunId& run, std::int64_t) { janitor.look_at(run); });

  Loop loop;
  const auto started =
      Server::start(loop, server_setup(ground, *controller, janitor, home, served));
  if (!started) return not_listening(started.error(), served);
  Server& server = **started;
  Announcement announcement = TRY(Announcement::make(home, served, server.port()));
  if (auto warning = warning_about(served)) LS_LOG(warning, "{}", *warning);

  const auto end = [&] { server.stop([&] { loop.stop(); }); };
  Ticking ticking{.loop = loop,
                  .controller = *controller,
                  .janitor = janitor,
                  .database = *ground.database,
                  .announcement = announcement,
                  .log = home.log_file(),
                  .end = end};
  tick_for_ever(ticking);
  loop.on_signals({SIGTERM, SIGINT}, [&](int) { end(); });
  loop.run();

  if (is_displaced(ticking))
    return Error{Code::internal,
                 format("{} was replaced by another file: the daemon ends, agents and ranks go on; "
                        "the next command starts a daemon that takes up what is there now",
                        home.store().string())};
  announcement.withdraw();
  LS_LOG(info, "stopped; agents and ranks go on");
  return kDone;
}

}  // namespace lockstep
