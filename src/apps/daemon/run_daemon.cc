#include "apps/daemon/run_daemon.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/daemon/discovery_files.h"
#include "apps/daemon/k8s_cluster.h"
#include "apps/daemon/notice_config.h"
#include "apps/daemon/oidc_config.h"
#include "apps/daemon/remembered_map.h"
#include "apps/daemon/unix_users.h"
#include "apps/page/embedded_page.h"
#include "apps/run/origin.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/file_limit.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "net/crypto.h"
#include "net/loop.h"
#include "platform/client/client.h"
#include "platform/controller/controller.h"
#include "platform/core/model/settings/settings.h"
#include "platform/core/model/slurm_request.h"
#include "platform/engine/composite_engine.h"
#include "platform/engine/hosts/hosts_engine.h"
#include "platform/engine/k8s/k8s_engine.h"
#include "platform/engine/local/local_engine.h"
#include "platform/engine/slurm/shared_program.h"
#include "platform/engine/slurm/slurm_engine.h"
#include "platform/engine/slurm/slurm_map.h"
#include "platform/host/home_identity.h"
#include "platform/host/keys.h"
#include "platform/host/log_rotation.h"
#include "platform/host/server_certificate.h"
#include "platform/host/shared_folder.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"
#include "platform/server/certificate_renewal.h"
#include "platform/server/janitor/janitor.h"
#include "platform/server/people/secret_calls.h"
#include "platform/server/server.h"
#include "platform/server/uploads/upload_store.h"
#include "platform/store/budget_store.h"
#include "platform/store/cleanup_tables.h"
#include "platform/store/history_store.h"
#include "platform/store/identity_store.h"
#include "platform/store/notice_store.h"
#include "platform/store/sql_store.h"

namespace lockstep::cli {
namespace {

constexpr int kSessionBytes = 8;
constexpr auto kTick = std::chrono::milliseconds(200);

// The resources of the daemon: the store and keys of its folder, the cluster, and the engine that
// starts agents.
struct DaemonContext {
  std::unique_ptr<store::Database> database;
  std::unique_ptr<insight::SeriesStore> series;
  host::Keys keys;
  map::ClusterMap map;
  std::unique_ptr<engine::LocalEngine> local_engine;
  SystemClock clock{};
  MonotonicClock steady{};
  store::SqlStore store{*database};
  store::SqlIdentityStore identities{*database};
  store::SqlBudgetStore budgets{*database};
  store::NoticeStore notices{*database};
  notifier::NotifierSetup notifier{};
  std::optional<server::OidcSetup> oidc{};
  store::HistoryFile history;
  host::HomeIdentity home_place;
  insight::Insight insight{*database, *series};
  // Those besides the local one, as far as they are used, and the hosts that they see:
  std::unique_ptr<engine::HostsEngine> hosts_engine{};
  std::unique_ptr<engine::SlurmEngine> slurm_engine{};
  std::unique_ptr<engine::K8sEngine> k8s_engine{};
  map::ClusterMap slurm_hosts{}, k8s_nodes{};
  std::unique_ptr<engine::CompositeEngine> several_engines{};  // if several are used
  std::filesystem::path node_home{};                           // with the folders of nodes
  std::unique_ptr<server::UploadStore> uploads{};

  engine::Engine& engine() const {
    if (several_engines) return *several_engines;
    if (hosts_engine) return *hosts_engine;
    if (slurm_engine) return *slurm_engine;
    if (k8s_engine) return *k8s_engine;
    return *local_engine;
  }
};

// True if the daemon of the original home answers, although its folder cannot be found.
bool original_answers(const host::Home& home) {
  const auto file = host::read_daemon_file(home.daemon_file());
  auto token = read_file(home.token_file(), 4096);
  if (!file || !token) return false;
  while (token->ends_with('\n')) token->pop_back();
  return client::Client(file->url, *std::move(token)).call(api::kVersion).has_value();
}

// A copy has the names and keys of the original: its daemon would take over the original's nodes.
Result<host::HomeIdentity> check_home_is_original(const host::Home& home) {
  const host::HomeIdentity identity = TRY(host::home_identity_of(home));
  if (identity == host::HomeIdentity::same) return identity;
  const auto copy_of = [&](const std::string& original) {
    return Error{Code::denied,
                 format("{} is a copy of {}, to which the runs belong; set LOCKSTEP_HOME to that, "
                        "or end its daemon and remove it if the copy is to take its place",
                        home.folder.string(), original)};
  };
  if (const auto original = TRY(host::original_home_of(home))) return copy_of(original->string());
  if (original_answers(home)) return copy_of("a folder whose daemon runs");
  return identity;
}

// Opens the database first, since it locks the folder: if two daemons start at once, one of them
// makes the keys.
Result<DaemonContext> open_context(const host::Home& home, const ServeConfig& served) {
  auto database = TRY(store::Database::open(home.store()));
  const host::HomeIdentity identity = TRY(check_home_is_original(home));
  ::unlink(home.daemon_file().c_str());  // of a killed daemon; its process id may be in use again
  host::Keys keys = TRY(host::Keys::open(home.folder));
  map::ClusterMap map = uses_this_machine(served) ? TRY(cluster_map(served)) : map::ClusterMap();
  if (uses_this_machine(served)) TRY(check_users_reach(home));
  std::unique_ptr<engine::LocalEngine> engine = TRY(
      engine::LocalEngine::open(TRY(engine::AgentProgram::own()), home.folder, local_accounts()));
  auto series = TRY(insight::open_folder_series(home.series(), {.wait = Duration(0)}));
  return DaemonContext{.database = std::move(database),
                       .series = std::move(series),
                       .keys = std::move(keys),
                       .map = std::move(map),
                       .local_engine = std::move(engine),
                       .history = store::HistoryFile(home.stores_file()),
                       .home_place = identity,
                       .node_home = home.folder};
}

Result<void> open_slurm(DaemonContext& ground, const host::Home& home, const ServeConfig& served) {
  const auto slurm = std::make_shared<engine::InstalledSlurm>();
  const std::string& installation = ground.local_engine->installation();
  TRY(host::make_shared_marker(*served.shared));
  ground.node_home = host::shared_checkpoints(*served.shared) / installation;
  engine::SlurmJobOptions options{
      .installation = installation,
      .partitions = TRY(engine::parse_slurm_partitions(served.slurm_partition.value_or(""))),
      .account = served.slurm_account.value_or(""),
      .more = served.slurm_options.value_or(std::vector<std::string>()),
      .program = TRY(engine::share_own_program(ground.node_home))};
  const auto chosen_by =
      shares_slurm(served) ? engine::HostsChosenBy::slurm : engine::HostsChosenBy::lockstep;
  ground.slurm_hosts =
      TRY(remembered_map(engine::discover_slurm(*slurm, options.partitions, chosen_by),
                         home.folder / "slurm-map.yaml", "Slurm"));
  ground.slurm_engine = std::make_unique<engine::SlurmEngine>(
      engine::SlurmEngine::Setup{.slurm = slurm,
                                 .clock = ground.clock,
                                 .options = std::move(options),
                                 .chosen_by = chosen_by,
                                 .account_of = slurm_accounts(),
                                 .home = ground.node_home});
  // Then all folders of nodes are in the shared one.
  if (uses_this_machine(served))
    ground.local_engine = TRY(engine::LocalEngine::open(
        TRY(engine::AgentProgram::own()), home.folder, local_accounts(), ground.node_home));
  return {};
}

// Its clocks are those of the context, which does not move any more.
Result<std::unique_ptr<engine::HostsEngine>> make_hosts_engine(const DaemonContext& ground,
                                                               const ServeConfig& served,
                                                               const model::Settings& settings) {
  engine::HostsEngine::Setup setup{.steady = ground.steady,
                                   .clock = ground.clock,
                                   .session = net::random_hex(kSessionBytes),
                                   .silent_after = settings.host_silent_after};
  if (served.shared)
    setup.shared = {.path = *served.shared,
                    .marker = TRY(host::make_shared_marker(*served.shared))};
  return std::make_unique<engine::HostsEngine>(std::move(setup));
}

Result<void> open_pods(DaemonContext& ground, const host::Home& home, const ServeConfig& served,
                       const model::Settings& settings) {
  K8sCluster cluster = TRY(open_k8s({.installation = ground.local_engine->installation(),
                                     .home = home,
                                     .keys = ground.keys,
                                     .served = served,
                                     .settings = settings,
                                     .clock = ground.clock}));
  ground.k8s_nodes = std::move(cluster.map);
  ground.k8s_engine = std::move(cluster.engine);
  return {};
}

// In the order in which the operator names them. Hosts that join are on no map of their engine.
std::vector<engine::CompositeEngine::Part> parts_of(DaemonContext& ground,
                                                    const ServeConfig& served) {
  std::vector<engine::CompositeEngine::Part> parts;
  for (const std::string& name : engine_names(served)) {
    if (name == ground.local_engine->name())
      parts.push_back({*ground.local_engine, std::move(ground.map)});
    else if (ground.slurm_engine && name == ground.slurm_engine->name())
      parts.push_back({*ground.slurm_engine, std::move(ground.slurm_hosts)});
    else if (ground.k8s_engine && name == ground.k8s_engine->name())
      parts.push_back({*ground.k8s_engine, std::move(ground.k8s_nodes)});
    else if (ground.hosts_engine)
      parts.push_back({*ground.hosts_engine, {}, /*hosts_join=*/true});
  }
  return parts;
}

// Those besides the local one, which is open.
Result<void> open_engines(DaemonContext& ground, const host::Home& home, const ServeConfig& served,
                          const model::Settings& settings) {
  if (hosts_join(served)) ground.hosts_engine = TRY(make_hosts_engine(ground, served, settings));
  if (uses_slurm(served)) TRY(open_slurm(ground, home, served));
  if (uses_k8s(served)) TRY(open_pods(ground, home, served, settings));
  if (engine_names(served).size() > 1) {
    ground.several_engines = TRY(engine::CompositeEngine::create(parts_of(ground, served)));
    ground.map = ground.several_engines->map();
  } else if (ground.slurm_engine) {
    ground.map = std::move(ground.slurm_hosts);
  } else if (ground.k8s_engine) {
    ground.map = std::move(ground.k8s_nodes);
  }
  return {};
}

// Where checkpoints of runs that name no folder are, on all hosts alike. Empty: below the home of
// each node. With Slurm the daemon's own files of runs are there, too.
std::filesystem::path shared_folder_of_runs(const DaemonContext& ground,
                                            const ServeConfig& served) {
  if (!served.shared || (!hosts_join(served) && !uses_k8s(served))) return {};
  return ground.slurm_engine ? ground.node_home : host::shared_checkpoints(*served.shared);
}

controller::ControllerSetup controller_setup(DaemonContext& ground, const ServeConfig& served,
                                             const model::Settings& settings) {
  return {.store = ground.store,
          .history = ground.history,
          .engine = ground.engine(),
          .clock = ground.clock,
          .steady = ground.steady,
          .keys = ground.keys,
          .map = ground.map,
          .home = ground.node_home,
          .policy = step::step_policy(settings),
          .settings = settings,
          .home_is_copy = ground.home_place == host::HomeIdentity::copied,
          .hosts_make_map = ground.hosts_engine != nullptr,
          .placing_engine = shares_slurm(served) ? std::string(model::kSlurmEngine) : "",
          .shared = shared_folder_of_runs(ground, served),
          .secret_value = [&ground](const std::string& project, const std::string& secret) {
            return server::secret_value(ground.identities, ground.keys, project, secret);
          }};
}

server::JanitorSetup janitor_setup(DaemonContext& ground, const controller::Controller& controller,
                                   const ServeConfig& served) {
  return {.state = controller.state(),
          .insight = ground.insight,
          .database = *ground.database,
          .clock = ground.clock,
          .steady = ground.steady,
          .home = ground.node_home,
          .token_of =
              [&ground](const model::NodeName& node) { return ground.local_engine->token(node); },
          .keep_logs = served.keep_logs,
          .keep_metrics = served.keep_metrics.value_or(server::kKeepMetrics),
          .keep_ranks = served.keep_ranks.value_or(server::kKeepRanks),
          .keep_around = served.keep_around.value_or(server::kKeepAround),
          .keep_telemetry = served.keep_telemetry.value_or(server::kKeepTelemetry),
          .store_max = served.store_max.value_or(server::kStoreMax),
          .metrics_max = served.metrics_max.value_or(server::kMetricsMax),
          .uploads = ground.uploads.get()};
}

// None: the daemon speaks plain HTTP.
Result<std::optional<host::ServerCertificate>> open_certificate(const host::Home& home,
                                                                const ServeConfig& served,
                                                                const Clock& clock) {
  if (!uses_tls(served)) return std::optional<host::ServerCertificate>();
  host::CertificateSource source{.folder = home.folder};
  if (served.tls_cert) source.certificate_file = *served.tls_cert;
  if (served.tls_key) source.key_file = *served.tls_key;
  auto opened = host::ServerCertificate::open(std::move(source), certificate_names(served), clock);
  if (!opened) return Error{Code::invalid, opened.error().message};
  return std::optional(*std::move(opened));
}

server::ServerSetup server_setup(DaemonContext& ground, controller::Controller& controller,
                                 const server::Janitor& janitor, const host::Home& home,
                                 const ServeConfig& served,
                                 const std::optional<host::ServerCertificate>& certificate) {
  return {.controller = controller,
          .insight = ground.insight,
          .keys = ground.keys,
          .clock = ground.clock,
          .identities = ground.identities,
          .budgets = ground.budgets,
          .notices = ground.notices,
          .database = *ground.database,
          .home = home,
          .version = LOCKSTEP_VERSION,
          .user = user_name(),
          .host = served.listen,
          .host_names = served.names,
          .port = served.port,
          .tls = certificate ? std::optional(certificate->identity()) : std::nullopt,
          .hosts_engine = ground.hosts_engine.get(),
          .has_expired = [&](const model::RunId& run, Time ended) -> Result<bool> {
            return TRY(store::cleanup_level_of(*ground.database, run, ended)) >=
                   store::CleanupLevel::lines;
          },
          .problems =
              [&] {
                auto all = controller.problems();
                std::ranges::move(janitor.problems(), std::back_inserter(all));
                std::ranges::move(ground.insight.problems(), std::back_inserter(all));
                if (auto placed = ground.database->check_file_status(); !placed)
                  all.push_back(placed.error().message);
                if (auto line = certificate ? certificate->problem() : std::nullopt)
                  all.push_back(*std::move(line));
                if (auto space = ground.insight.check_space(); !space)
                  all.push_back(space.error().message);
                return all;
              },
          .uploads = ground.uploads.get(),
          .oidc = ground.oidc,
          .notifier = ground.notifier,
          .node_home = ground.node_home,
          .page = embedded_page()};
}

// The periodic work of the daemon: a tick for its runs, then a small part of the cleanup.
struct MaintenanceLoop {
  net::Loop& loop;
  controller::Controller& controller;
  server::Janitor& janitor;
  const store::Database& database;
  DiscoveryFiles& announcement;
  std::filesystem::path log;
  std::function<void()> stop;
  bool misplaced = false;
  net::Timer tick_timer{}, act_timer{};
};

// The effects for a large gang take a while: the loop serves other events in between.
void act_in_slices(MaintenanceLoop& ticking) {
  if (ticking.controller.execute_effects())
    ticking.act_timer = ticking.loop.after(Duration(0), [&] { act_in_slices(ticking); });
}

// Another database has the name of ours: a daemon that opens it writes the same files.
bool database_was_replaced(const MaintenanceLoop& ticking) {
  return ticking.database.file_status() == store::Database::FileStatus::replaced;
}

// Logs this at once, since no commit may come for a long time.
void log_database_place(MaintenanceLoop& ticking) {
  const auto placed = ticking.database.check_file_status();
  if (!placed && !ticking.misplaced) LS_LOG(error, "{}", placed.error().message);
  if (placed && ticking.misplaced) LS_LOG(info, "the database is back in its place");
  ticking.misplaced = !placed;
}

void run_ticks(MaintenanceLoop& ticking) {
  if (database_was_replaced(ticking)) return ticking.stop();
  // First, so that an exception, which the loop logs, does not stop the ticks.
  ticking.tick_timer = ticking.loop.after(kTick, [&] { run_ticks(ticking); });
  log_database_place(ticking);
  ticking.announcement.restore();
  ticking.controller.tick();
  act_in_slices(ticking);
  ticking.janitor.run_slice();
  if (auto bounded = host::rotate_own_log(ticking.log, host::kDaemonLogMax); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

Result<void> allow_many_files() {
  auto raised = raise_file_limit();
  if (raised || raised.error().code == Code::exhausted) return raised;
  LS_LOG(warning, "{}", raised.error().message);
  return {};
}

// Where agents and users find the daemon; in the daemon's folder, by the path of `where`.
Result<DiscoveryFiles> announce(const DaemonContext& ground, const host::Home& home,
                                const host::Home& where, const ServeConfig& served, int port,
                                const std::string& fingerprint) {
  if (ground.k8s_engine)
    ground.k8s_engine->announce(DiscoveryFiles::text_for_nodes(home, served, port, fingerprint));
  if (ground.slurm_engine)
    TRY(DiscoveryFiles::write_for_nodes(ground.node_home, home, served, port, fingerprint));
  return DiscoveryFiles::write(where, served, port, fingerprint);
}

Error replaced_store(const host::Home& home) {
  return {Code::internal,
          format("{} was replaced by another file: the daemon ends, agents and ranks go on; the "
                 "next command starts a daemon that takes up what is there now",
                 home.store().string())};
}

}  // namespace

Result<int> run_daemon(const host::Home& home, const ServeConfig& served) {
  set_log_name("daemon");
  TRY(allow_many_files());
  const model::Settings settings =
      TRY(model::settings_from(served.settings.value_or(std::vector<std::string>())));
  DaemonContext ground = TRY(open_context(home, served));
  TRY(open_engines(ground, home, served, settings));
  ground.oidc = TRY(oidc_setup(served));
  ground.notifier = TRY(notifier_setup(served));
  ground.uploads = std::make_unique<server::UploadStore>(home.folder, ground.clock);
  const auto controller =
      TRY(controller::Controller::open(controller_setup(ground, served, settings)));
  TRY(host::record_home_identity(home));  // by now, a copy's store has another generation
  server::Janitor janitor(janitor_setup(ground, *controller, served));
  controller->subscribe(
      [&](const model::RunId& run, std::int64_t) { janitor.queue_ended_nodes(run); });

  net::Loop loop;
  std::optional<host::ServerCertificate> certificate =
      TRY(open_certificate(home, served, ground.clock));
  const auto started = server::Server::start(
      loop, server_setup(ground, *controller, janitor, home, served, certificate));
  if (!started) return listen_error(started.error(), served);
  server::Server& server = **started;
  const auto announce_at = [&](const host::Home& where) {
    return announce(ground, home, where, served, server.port(),
                    certificate ? certificate->fingerprint() : "");
  };
  DiscoveryFiles announcement = TRY(announce_at(home));
  std::optional<server::CertificateRenewal> renewal;
  if (certificate)
    renewal.emplace(server::CertificateRenewal::Setup{
        .loop = loop,
        .certificate = *certificate,
        .names = [&] { return certificate_names(served); },
        .start_use = [&](const net::TlsIdentity& used) { return server.set_identity(used); },
        // Not the pointer: it is on a file system that may hang.
        .announce =
            [&] {
              if (auto written = announce_at({.folder = home.folder}))
                announcement = *std::move(written);
            }});
  if (auto warning = listen_warning(served)) LS_LOG(warning, "{}", *warning);
  if (auto line = login_line(announcement.network_url())) LS_LOG(info, "{}", *line);

  const auto end = [&] { server.stop([&] { loop.stop(); }); };
  MaintenanceLoop ticking{.loop = loop,
                          .controller = *controller,
                          .janitor = janitor,
                          .database = *ground.database,
                          .announcement = announcement,
                          .log = home.log_file(),
                          .stop = end};
  run_ticks(ticking);
  loop.on_signals({SIGTERM, SIGINT}, [&](int) { end(); });
  loop.run();

  if (database_was_replaced(ticking)) return replaced_store(home);
  announcement.remove();
  LS_LOG(info, "stopped; agents and ranks go on");
  return kDone;
}

}  // namespace lockstep::cli
