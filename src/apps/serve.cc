#include <memory>

#include <signal.h>
#include <unistd.h>

#include "apps/command.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "map/discover/discover.h"
#include "map/file.h"
#include "map/grid.h"
#include "net/loop.h"
#include "net/url.h"
#include "platform/controller/controller.h"
#include "platform/engine/keys.h"
#include "platform/engine/local/local_engine.h"
#include "platform/insight/insight.h"
#include "platform/janitor/daemon_log.h"
#include "platform/janitor/janitor.h"
#include "platform/server/server.h"
#include "platform/store/sql_store.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep {
namespace {

constexpr auto kTick = std::chrono::milliseconds(200);
constexpr std::int64_t kPortMost = 65535;
constexpr auto kStopPatience = std::chrono::seconds(15);

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

struct ServeFlags {
  Served served;
  std::string keep_logs;
  bool again = false;
  bool detach = false;
  bool stop = false;
};

std::filesystem::path served_file(const Home& home) { return home.folder / "served.json"; }

// As the last daemon of this home, if there was one.
Result<Served> served_before(const Home& home) {
  auto content = read_file(served_file(home));
  if (!content && content.error().code == Code::not_found) return Served{};
  auto read = [&]() -> Result<Served> { return from_json<Served>(TRY(parse_json(TRY(content)))); };
  auto served = read();
  if (!served) return std::move(served).error().within(served_file(home).string());
  return served;
}

Result<void> keep(const Home& home, const Served& served) {
  return write_file(served_file(home), dump_json(to_json(served)) + "\n");
}

// Said before a detached start, where the user reads it; the daemon's own store refuses too.
Result<void> check_free(const Home& home) {
  if (!is_served(home)) return {};
  auto daemon = read_daemon_file(home.daemon_file());
  return Error{Code::already_exists,
               format("a daemon already serves {}{}; end it with `lockstep serve --stop`, or "
                      "choose another folder by "
                      "LOCKSTEP_HOME",
                      home.folder.string(), daemon ? " at " + daemon->url : "")};
}

Result<Map> wanted_map(const Served& served) {
  if (!served.map_file.empty()) return parse_map(TRY(read_file(served.map_file)), served.map_file);
  Map machine = TRY(discover_local());
  if (served.hosts.empty()) return machine;
  return present_as(machine, TRY(parse_host_grid(served.hosts)));
}

// What the background daemon would only tell its log.
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

// Where others on the network can listen, the user is told.
std::optional<std::string> warning_about(const Served& served) {
  if (is_loopback(served.listen)) return std::nullopt;
  return format(
      "{} can be reached from other machines, and HTTP is not encrypted: whoever is on the way can "
      "read the tokens; use a network that you trust",
      served.listen);
}

// What the daemon does again and again: time passes for its runs, then a little tidying.
struct Ticking {
  Loop& loop;
  Controller& controller;
  Janitor& janitor;
  std::filesystem::path log;
  Timer timer{};
};

void tick_for_ever(Ticking& ticking) {
  // First, so that an exception, which the loop logs, does not end time-outs for good.
  ticking.timer = ticking.loop.after(kTick, [&] { tick_for_ever(ticking); });
  ticking.controller.tick();
  ticking.janitor.slice();
  if (auto bounded = bound_daemon_log(ticking.log); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

Result<int> serve(const ServeFlags& flags) {
  Home home = TRY(find_home());
  TRY(prepare(home));
  TRY(check_free(home));
  set_log_name("daemon");
  if (auto raised = raise_file_limit(); !raised) LS_LOG(warning, "{}", raised.error().message);
  const Served served = flags.again ? TRY(served_before(home)) : flags.served;

  // First of all, since it locks the folder: of two daemons that start at once one makes the keys.
  auto database = TRY(Database::open(home.store()));
  ::unlink(home.daemon_file().c_str());  // of one that was killed; its process id may be another's
  SystemClock clock;
  Keys keys = TRY(Keys::open(home.folder));
  Map map = TRY(wanted_map(served));
  SqlStore store(*database);
  insight::Insight insight(*database);
  LocalEngine engine = TRY(LocalEngine::open(TRY(own_program()), home.folder));
  auto controller = TRY(Controller::open({.store = store,
                                          .engine = engine,
                                          .clock = clock,
                                          .keys = keys,
                                          .map = map,
                                          .home = home.folder}));
  Janitor janitor({.state = controller->state(),
                   .insight = insight,
                   .database = *database,
                   .clock = clock,
                   .home = home.folder,
                   .token_of = [&](const NodeId& node) { return engine.token(node); },
                   .keep_logs = served.keep_logs});
  controller->subscribe([&](const RunId& run, std::int64_t) { janitor.look_at(run); });
  Loop loop;
  auto started = Server::start(loop, {.controller = *controller,
                                      .insight = insight,
                                      .keys = keys,
                                      .clock = clock,
                                      .home = home,
                                      .version = LOCKSTEP_VERSION,
                                      .host = served.listen,
                                      .host_names = served.names,
                                      .port = served.port});
  if (!started) return not_listening(started.error(), served);
  auto server = *std::move(started);
  TRY(keep(home, served));
  TRY(write_daemon_file(home.daemon_file(),
                        {.url = server->url(), .pid = ::getpid(), .version = LOCKSTEP_VERSION}));
  LS_LOG(info, "serving {} at {}", home.folder.string(), server->url());
  if (auto warning = warning_about(served)) LS_LOG(warning, "{}", *warning);

  Ticking ticking{
      .loop = loop, .controller = *controller, .janitor = janitor, .log = home.log_file()};
  tick_for_ever(ticking);
  loop.on_signals({SIGTERM, SIGINT}, [&](int) { server->stop([&] { loop.stop(); }); });
  loop.run();

  ::unlink(home.daemon_file().c_str());
  LS_LOG(info, "stopped; agents and ranks go on");
  return kDone;
}

Result<int> serve_detached(const ServeFlags& flags) {
  Home home = TRY(find_home());
  TRY(prepare(home));
  TRY(check_free(home));
  const Served& served = flags.served;
  TRY(check_map(served));
  std::vector<std::string> words = {"--listen", served.listen, "--port", format("{}", served.port)};
  words.insert(words.end(), {"--keep-logs", exact_text(served.keep_logs)});
  if (!served.hosts.empty()) words.insert(words.end(), {"--hosts", served.hosts});
  if (!served.map_file.empty()) words.insert(words.end(), {"--map", served.map_file});
  for (const std::string& name : served.names) words.insert(words.end(), {"--name", name});
  if (flags.again) words = {"--again"};
  Client client = TRY(start_daemon(home, words));
  if (auto warning = warning_about(served)) say("lockstep: " + *warning);
  print(format("the daemon serves at {}; its folder is {}; `lockstep serve --stop` ends it",
               client.url(), home.folder.string()));
  return kDone;
}

Result<Duration> keep_logs_of(const ServeFlags& flags) {
  auto kept = parse_duration(flags.keep_logs);
  if (!kept) return std::move(kept).error().within("--keep-logs");
  return kept;
}

// Ends the daemon, not the runs: their agents go on and wait for the next one.
Result<int> stop_daemon() {
  Home home = TRY(find_home());
  auto daemon = read_daemon_file(home.daemon_file());
  // The file alone says little: a daemon that was killed leaves it behind.
  if (!daemon || !is_served(home))
    return Error{Code::not_found, "no daemon is running with the home " + home.folder.string()};
  if (::kill(static_cast<pid_t>(daemon->pid), SIGTERM) != 0 && errno != ESRCH)
    return os_error(format("stopping the daemon (process {})", daemon->pid), errno);
  WaitingLine waiting;
  for (Deadline deadline = Deadline::after(kStopPatience); is_served(home); ::usleep(20'000)) {
    if (deadline.passed())
      return Error{Code::timeout,
                   format("the daemon (process {}) did not end within {}; see {}", daemon->pid,
                          text(Duration(kStopPatience)), home.log_file().string())};
    waiting.show("waiting for the daemon to end");
  }
  print(format("stopped the daemon (process {})", daemon->pid));
  return kDone;
}

}  // namespace

// `lockstep serve [--hosts 2x2 | --map FILE | --again] [--detach | --stop]`: the daemon.
void add_serve(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("serve", "Run the daemon, or start or stop it in the background");
  auto flags = std::make_shared<ServeFlags>();
  auto* hosts = command
                    ->add_option("--hosts", flags->served.hosts,
                                 "present this machine as H hosts of D devices each, such as 2x2")
                    ->type_name("HxD");
  auto* map = command
                  ->add_option("--map", flags->served.map_file,
                               "the cluster as a file (default: this machine, discovered)")
                  ->type_name(kFileValue)
                  ->excludes(hosts);
  auto* listen = command->add_option("--listen", flags->served.listen, "address to listen on")
                     ->type_name("ADDRESS")
                     ->capture_default_str();
  auto* names = command
                    ->add_option("--name", flags->served.names,
                                 "a name by which callers reach that address; may be repeated")
                    ->type_name("NAME");
  auto* port = command->add_option("--port", flags->served.port, "port; 0: any free one")
                   ->capture_default_str()
                   ->check(whole_number(0, kPortMost));
  auto* keep_logs =
      command
          ->add_option(
              "--keep-logs", flags->keep_logs,
              "keep a run's lines and its ranks' files so long after its end (default: 30d)")
          ->type_name("DURATION");
  command
      ->add_flag("--again", flags->again,
                 "with the hosts, the address and the port of this folder's last daemon")
      ->excludes(hosts, map, listen, names, port, keep_logs);
  auto* detach =
      command->add_flag("-d,--detach", flags->detach, "start it in the background and return");
  command->add_flag("--stop", flags->stop, "end the daemon in the background; runs go on")
      ->excludes(detach);
  command->footer(
      "Without a daemon the first command that needs one starts it.\n\n"
      "Examples:\n"
      "  lockstep serve --hosts 2x2 --detach\n"
      "  lockstep serve --stop");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      if (flags->stop) return stop_daemon();
      if (!flags->keep_logs.empty()) flags->served.keep_logs = TRY(keep_logs_of(*flags));
      // The daemon may be started again from another folder.
      auto& file = flags->served.map_file;
      if (!file.empty()) file = std::filesystem::absolute(file);
      return flags->detach ? serve_detached(*flags) : serve(*flags);
    };
  });
}

}  // namespace lockstep
