#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/notice_config.h"
#include "apps/daemon/oidc_config.h"
#include "apps/daemon/own_daemon.h"
#include "apps/daemon/run_daemon.h"
#include "apps/daemon/serve_config.h"
#include "apps/page/embedded_page.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/units.h"
#include "platform/client/chosen_daemon.h"
#include "platform/core/model/settings/settings.h"
#include "text/exact.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kPortMax = 65535;
// Hosts and Pods keep the daemon's address, so that it must be the same after a restart.
constexpr int kHostsPort = 7070;
constexpr auto kStopTimeout = std::chrono::seconds(15);
constexpr auto kSignTimeout = std::chrono::seconds(2);

struct ServeFlags {
  ServeConfig config;
  std::string keep_logs, keep_metrics, keep_ranks, keep_around, keep_telemetry, store_max,
      metrics_max;
  std::string tls_cert, tls_key;
  std::vector<std::string> engines;
  std::string shared;
  std::string slurm_partition, slurm_account;
  std::vector<std::string> slurm_options;
  bool slurm_shared = false;
  std::string kubeconfig, context, in_namespace, project_namespaces;
  std::string agent_image, image, device_resource;
  std::vector<std::string> pod_volumes;
  OidcFlags oidc;
  NotifierFlags notices;
  bool insecure = false;
  std::vector<std::string> settings;
  bool again = false;
  bool listen_given = false, port_given = false;
  bool detach = false;
  bool stop = false;
};

// Checked before a detached start, so that the user sees the error; the daemon's own store checks
// it too.
Result<void> check_free(const host::Home& home) {
  if (!host::is_served(home)) return {};
  auto daemon = host::read_daemon_file(home.daemon_file());
  return Error{
      Code::already_exists,
      format("a daemon already serves {}{}; end it with `lockstep serve --stop`, or "
             "choose another folder by LOCKSTEP_HOME",
             home.folder.string(), daemon ? " at " + host::without_fingerprint(daemon->url) : "")};
}

Result<ServeConfig> serve_config_of(const ServeFlags& flags, const host::Home& home) {
  if (!flags.again) return flags.config;
  ServeConfig served = TRY(last_serve_config(home));
  if (flags.listen_given) served.listen = flags.config.listen;
  return served;
}

Result<int> serve(const ServeFlags& flags) {
  host::Home home = TRY(find_home());
  TRY(prepare_home(home));
  TRY(check_free(home));
  return run_daemon(home, TRY(serve_config_of(flags, home)));
}

std::string start_message(const host::Home& home, const client::Client& client) {
  const auto file = host::read_daemon_file(home.daemon_file());
  const std::string network = file ? host::without_fingerprint(file->network_url) : "";
  const bool for_others = !network.empty() && network != client.url();
  return format("the daemon serves at {}{}; its folder is {}; `lockstep serve --stop` ends it",
                client.url(), for_others ? ", for other machines at " + network : "",
                home.folder.string());
}

// None: this program was built without the page.
std::optional<std::string> page_line(const std::string& url) {
  if (embedded_page().empty()) return std::nullopt;
  return format("its page is at {}/; `lockstep open` opens it and logs you in", url);
}

void add_k8s_words(const ServeConfig& served, std::vector<std::string>& words) {
  const auto add = [&](const char* option, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {option, *value});
  };
  add("--kubeconfig", served.kubeconfig);
  add("--context", served.context);
  add("--namespace", served.in_namespace);
  add("--project-namespaces", served.project_namespaces);
  add("--agent-image", served.agent_image);
  add("--image", served.image);
  add("--device-resource", served.device_resource);
  for (const std::string& volume : served.pod_volumes.value_or(std::vector<std::string>()))
    words.insert(words.end(), {"--pod-volume", volume});
}

Result<int> serve_detached(const ServeFlags& flags) {
  host::Home home = TRY(find_home());
  TRY(prepare_home(home));
  TRY(check_free(home));
  const ServeConfig served = TRY(serve_config_of(flags, home));
  TRY(check_map(served));
  std::vector<std::string> words = {"--listen", served.listen, "--port", format("{}", served.port)};
  words.insert(words.end(), {"--keep-logs", exact_text(served.keep_logs)});
  if (served.keep_metrics)
    words.insert(words.end(), {"--keep-metrics", exact_text(*served.keep_metrics)});
  if (served.keep_ranks)
    words.insert(words.end(), {"--keep-ranks", exact_text(*served.keep_ranks)});
  if (served.keep_around)
    words.insert(words.end(), {"--keep-around", exact_text(*served.keep_around)});
  if (served.keep_telemetry)
    words.insert(words.end(), {"--keep-telemetry", exact_text(*served.keep_telemetry)});
  if (served.store_max) words.insert(words.end(), {"--store-max", exact_text(*served.store_max)});
  if (served.metrics_max)
    words.insert(words.end(), {"--metrics-max", exact_text(*served.metrics_max)});
  if (served.shared) words.insert(words.end(), {"--shared", *served.shared});
  if (served.engine) words.insert(words.end(), {"--engine", *served.engine});
  if (served.slurm_partition)
    words.insert(words.end(), {"--slurm-partition", *served.slurm_partition});
  if (served.slurm_account) words.insert(words.end(), {"--slurm-account", *served.slurm_account});
  if (served.slurm_options)
    for (const std::string& option : *served.slurm_options)
      words.push_back("--slurm-option=" + option);
  if (served.slurm_shared) words.emplace_back("--slurm-shared");
  add_k8s_words(served, words);
  add_oidc_words(served, words);
  add_notice_words(served, words);
  if (!served.hosts.empty()) words.insert(words.end(), {"--hosts", served.hosts});
  if (!served.map_file.empty()) words.insert(words.end(), {"--map", served.map_file});
  if (served.tls_cert) words.insert(words.end(), {"--tls-cert", *served.tls_cert});
  if (served.tls_key) words.insert(words.end(), {"--tls-key", *served.tls_key});
  if (served.insecure) words.emplace_back("--insecure");
  for (const std::string& name : served.names) words.insert(words.end(), {"--name", name});
  if (served.settings)
    for (const std::string& change : *served.settings) words.insert(words.end(), {"--set", change});
  client::Client client = TRY(start_daemon(home, words));
  if (auto warning = listen_warning(served)) print_to_stderr("lockstep: " + *warning);
  print(start_message(home, client));
  if (auto line = page_line(client.url())) print(*line);
  if (const auto file = host::read_daemon_file(home.daemon_file()))
    if (auto line = login_line(file->network_url)) print(*line);
  if (const auto remote = TRY(client::chosen_remote(own_environment())))
    print_to_stderr(
        format("lockstep: commands still call another daemon, that of {}", remote->source));
  print_notices(TRY(client.call(api::kVersion)).notices);
  if (hosts_join(served) && TRY(client.call(api::kHosts)).hosts.empty())
    print("it has no host yet: `lockstep host add USER@HOST` adds a machine");
  return kDone;
}

// `otherwise`: without the option.
Result<std::optional<Bytes>> size_if_any(std::string_view option, const std::string& words,
                                         std::optional<Bytes> otherwise) {
  if (words.empty()) return otherwise;
  auto size = parse_bytes(words);
  if (!size) return std::move(size).error().with_context(std::string(option));
  return std::optional(*size);
}

Result<void> read_retention(ServeFlags& flags) {
  ServeConfig& config = flags.config;
  if (!flags.keep_logs.empty())
    config.keep_logs = TRY(duration_option("--keep-logs", flags.keep_logs));
  if (!flags.keep_metrics.empty())
    config.keep_metrics = TRY(duration_option("--keep-metrics", flags.keep_metrics));
  if (!flags.keep_ranks.empty())
    config.keep_ranks = TRY(duration_option("--keep-ranks", flags.keep_ranks));
  if (!flags.keep_around.empty())
    config.keep_around = TRY(duration_option("--keep-around", flags.keep_around));
  if (!flags.keep_telemetry.empty())
    config.keep_telemetry = TRY(duration_option("--keep-telemetry", flags.keep_telemetry));
  config.store_max = TRY(size_if_any("--store-max", flags.store_max, config.store_max));
  config.metrics_max = TRY(size_if_any("--metrics-max", flags.metrics_max, config.metrics_max));
  return {};
}

// The process that holds the folder's locks, whatever the daemon's file says. A daemon that has
// just started writes its id there in a moment.
Result<std::int64_t> daemon_process(const host::Home& home) {
  for (Deadline deadline = Deadline::after(kSignTimeout); host::is_served(home); ::usleep(20'000)) {
    if (const auto pid = host::daemon_pid_of(home)) return *pid;
    if (deadline.passed())
      return Error{Code::unavailable,
                   format("a daemon holds {}, but is no process of this machine; end it where it "
                          "runs",
                          home.folder.string())};
  }
  if (const auto there = host::daemon_elsewhere(home))
    return host::daemon_elsewhere_error(home, *there);
  return Error{Code::not_found, "no daemon is running with the home " + home.folder.string()};
}

// Tells other machines that no daemon runs, and where its state is.
void mark_daemon_stopped(const host::Home& home) {
  if (!home.pointer) return;
  auto file = host::read_daemon_file(*home.pointer);
  if (!file) return;
  file->pid = 0;
  file->network_url.clear();
  file->token.clear();
  if (auto written = host::write_pointer(home, *file); !written)
    print_to_stderr("lockstep: the file that tells other machines of the daemon was not removed: " +
                    written.error().message);
}

// Stops the daemon, not the runs: their agents go on and wait for the next daemon.
Result<int> stop_daemon() {
  host::Home home = TRY(find_home());
  const std::int64_t daemon = TRY(daemon_process(home));
  if (::kill(static_cast<pid_t>(daemon), SIGTERM) != 0 && errno != ESRCH)
    return os_error(format("stopping the daemon (process {})", daemon), errno);
  WaitingLine waiting;
  for (Deadline deadline = Deadline::after(kStopTimeout); host::daemon_pid_of(home) == daemon;
       ::usleep(20'000)) {
    if (deadline.passed())
      return Error{Code::timeout,
                   format("the daemon (process {}) did not end within {}; see {}", daemon,
                          text(Duration(kStopTimeout)), home.log_file().string())};
    waiting.show("waiting for the daemon to end");
  }
  mark_daemon_stopped(home);
  print(format("stopped the daemon (process {})", daemon));
  return kDone;
}

Result<void> read_settings(ServeFlags& flags) {
  auto set = model::settings_from(flags.settings);
  if (!set) return std::move(set).error().with_context("--set");
  if (auto changes = model::changes_of(*set); !changes.empty())
    flags.config.settings = std::move(changes);
  return {};
}

// The daemon may be started again from another folder.
Result<void> read_tls(ServeFlags& flags) {
  ServeConfig& config = flags.config;
  if (!flags.tls_cert.empty()) config.tls_cert = std::filesystem::absolute(flags.tls_cert);
  if (!flags.tls_key.empty()) config.tls_key = std::filesystem::absolute(flags.tls_key);
  if (flags.insecure) config.insecure = true;
  return check_tls(config);
}

void read_slurm(ServeFlags& flags) {
  ServeConfig& config = flags.config;
  if (!flags.slurm_partition.empty()) config.slurm_partition = flags.slurm_partition;
  if (!flags.slurm_account.empty()) config.slurm_account = flags.slurm_account;
  if (!flags.slurm_options.empty()) config.slurm_options = flags.slurm_options;
  if (flags.slurm_shared) config.slurm_shared = true;
}

// The daemon may be started again from another folder.
void read_k8s(ServeFlags& flags) {
  ServeConfig& config = flags.config;
  const auto read = [](const std::string& value, std::optional<std::string>& into) {
    if (!value.empty()) into = value;
  };
  if (!flags.kubeconfig.empty()) config.kubeconfig = std::filesystem::absolute(flags.kubeconfig);
  if (!flags.project_namespaces.empty())
    config.project_namespaces = std::filesystem::absolute(flags.project_namespaces);
  read(flags.context, config.context);
  read(flags.in_namespace, config.in_namespace);
  read(flags.agent_image, config.agent_image);
  read(flags.image, config.image);
  read(flags.device_resource, config.device_resource);
  if (!flags.pod_volumes.empty()) config.pod_volumes = flags.pod_volumes;
}

Result<int> run_serve(ServeFlags& flags) {
  if (flags.stop) return stop_daemon();
  TRY(read_retention(flags));
  TRY(read_settings(flags));
  // The daemon may be started again from another folder.
  auto& file = flags.config.map_file;
  if (!file.empty()) file = std::filesystem::absolute(file);
  TRY(read_tls(flags));
  TRY(read_oidc(flags.oidc, flags.config));
  TRY(read_notices(flags.notices, flags.config));
  if (!flags.engines.empty()) flags.config.engine = joined(flags.engines, ",");
  if (!flags.shared.empty()) flags.config.shared = std::filesystem::absolute(flags.shared);
  read_slurm(flags);
  read_k8s(flags);
  TRY(check_engines(flags.config));
  const bool keep_address = hosts_join(flags.config) || uses_k8s(flags.config);
  if (keep_address && !flags.port_given) flags.config.port = kHostsPort;
  return flags.detach ? serve_detached(flags) : serve(flags);
}

using ServeOptions = std::vector<CLI::Option*>;

// Returns those that --again takes from the last daemon in any case.
ServeOptions add_cluster_options(CLI::App& command, ServeFlags& flags) {
  auto* hosts = command
                    .add_option("--hosts", flags.config.hosts,
                                "present this machine as H hosts of D devices each, such as 2x2")
                    ->type_name("HxD");
  auto* map = command
                  .add_option("--map", flags.config.map_file,
                              "the cluster as a file (default: this machine, discovered)")
                  ->type_name(kFileValue)
                  ->excludes(hosts);
  auto* engine =
      command
          .add_option("--engine", flags.engines,
                      "local: runs start on this machine; hosts: on machines that join by "
                      "`lockstep host join`; slurm: on the hosts of Slurm; k8s: in Pods of "
                      "Kubernetes (default: local). several may be given, with --shared")
          ->type_name("NAME")
          ->delimiter(',')
          ->allow_extra_args(false);
  auto* shared =
      command
          .add_option(
              "--shared", flags.shared,
              "a folder that all hosts share, for checkpoints of runs that name "
              "no folder; with --engine slurm for all files of runs; with --engine k8s in a "
              "volume of the Pods")
          ->type_name(kFolderValue);
  command.add_option("--listen", flags.config.listen, "address to listen on")
      ->type_name("ADDRESS")
      ->capture_default_str();
  auto* names = command
                    .add_option("--name", flags.config.names,
                                "a name by which callers reach that address; may be repeated")
                    ->type_name("NAME");
  auto* port =
      command
          .add_option("--port", flags.config.port,
                      "port; 0: any free one (default: 0; with --engine hosts and k8s 7070)")
          ->check(whole_number(0, kPortMax));
  return {hosts, map, engine, shared, names, port};
}

ServeOptions add_bounds(CLI::App& command, ServeFlags& flags) {
  auto* keep_logs =
      command
          .add_option(
              "--keep-logs", flags.keep_logs,
              "keep a run's lines and its ranks' files so long after its end (default: 30d)")
          ->type_name("DURATION");
  auto* keep_metrics = command
                           .add_option("--keep-metrics", flags.keep_metrics,
                                       "keep a run's metrics so long after its end (default: 365d)")
                           ->type_name("DURATION");
  auto* keep_ranks =
      command
          .add_option("--keep-ranks", flags.keep_ranks,
                      "keep the points of single ranks so long, of metrics that several ranks log; "
                      "mean, extremes and spread stay (default: 24h)")
          ->type_name("DURATION");
  auto* keep_around =
      command
          .add_option("--keep-around", flags.keep_around,
                      "keep them for good from so long before a finding about their run until so "
                      "long after it (default: 10m)")
          ->type_name("DURATION");
  auto* keep_telemetry =
      command
          .add_option("--keep-telemetry", flags.keep_telemetry,
                      "keep the telemetry of nodes by seconds so long, then its mean, least and "
                      "greatest value of each minute (default: 7d)")
          ->type_name("DURATION");
  auto* store_max =
      command
          .add_option("--store-max", flags.store_max,
                      "above this size of the store, the oldest lines of ended runs make room "
                      "(default: 32 GiB)")
          ->type_name("SIZE");
  auto* metrics_max =
      command
          .add_option("--metrics-max", flags.metrics_max,
                      "above this size of all points of metrics, those of runs without new ones "
                      "for longest make room (default: 64 GiB)")
          ->type_name("SIZE");
  auto* settings =
      command
          .add_option("--set", flags.settings,
                      "a bound of the daemon, such as lost_after=10m; may be repeated; `lockstep "
                      "help settings` lists them")
          ->type_name("NAME=VALUE")
          ->allow_extra_args(false);
  return {keep_logs,      keep_metrics, keep_ranks,  keep_around,
          keep_telemetry, store_max,    metrics_max, settings};
}

ServeOptions add_slurm_options(CLI::App& command, ServeFlags& flags) {
  auto* partition =
      command
          .add_option("--slurm-partition", flags.slurm_partition,
                      "with --engine slurm: the partition whose hosts runs use, or one "
                      "for each kind of device: gpu=NAME,core=NAME (default: that of "
                      "Slurm)")
          ->type_name("NAME");
  auto* account = command
                      .add_option("--slurm-account", flags.slurm_account,
                                  "with --engine slurm: the account of the jobs")
                      ->type_name("NAME");
  auto* option = command
                     .add_option("--slurm-option", flags.slurm_options,
                                 "with --engine slurm: a further argument of sbatch, such as "
                                 "--slurm-option=--qos=high; may be repeated")
                     ->type_name("ARGUMENT")
                     ->allow_extra_args(false);
  auto* shared = command.add_flag("--slurm-shared", flags.slurm_shared,
                                  "with --engine slurm: Slurm chooses the hosts of each run that "
                                  "goes to it, because other jobs "
                                  "use the partition too");
  return {partition, account, option, shared};
}

ServeOptions add_k8s_options(CLI::App& command, ServeFlags& flags) {
  const auto add = [&](const char* name, auto& into, const char* type, const char* help) {
    return command.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  };
  return {
      add("--kubeconfig", flags.kubeconfig, kFileValue,
          "with --engine k8s: the file that names the cluster (default: KUBECONFIG, else "
          "~/.kube/config, else the service account of this Pod)"),
      add("--context", flags.context, "NAME",
          "with --engine k8s: a context of that file (default: the current one)"),
      add("--namespace", flags.in_namespace, "NAME",
          "with --engine k8s: the namespace of the Pods (default: that of the context)"),
      add("--project-namespaces", flags.project_namespaces, kFileValue,
          "with --engine k8s: the namespace, the service account and the user of the Pods of each "
          "project"),
      add("--agent-image", flags.agent_image, "IMAGE",
          "with --engine k8s: an image with this version of Lockstep, from which each Pod "
          "copies the agent"),
      add("--image", flags.image, "IMAGE", "with --engine k8s: the image of runs that name none"),
      add("--device-resource", flags.device_resource, "NAME",
          "with --engine k8s: what a device plugin offers (default: nvidia.com/gpu)"),
      add("--pod-volume", flags.pod_volumes, "VOLUME",
          "with --engine k8s: a volume of each Pod, such as pvc:NAME:/PATH or "
          "host:/SOURCE:/PATH; may be repeated")};
}

ServeOptions add_tls_options(CLI::App& command, ServeFlags& flags) {
  auto* cert = command
                   .add_option("--tls-cert", flags.tls_cert,
                               "the certificate for other machines, with those that issued it, in "
                               "PEM form (default: one that the daemon makes)")
                   ->type_name(kFileValue);
  auto* key = command.add_option("--tls-key", flags.tls_key, "the key of that certificate")
                  ->type_name(kFileValue);
  auto* insecure = command.add_flag(
      "--insecure", flags.insecure,
      "plain HTTP also for other machines: each machine on the way can read the tokens");
  return {cert, key, insecure};
}

}  // namespace

// `lockstep serve [--hosts 2x2 | --map FILE | --again] [--detach | --stop]`: the daemon.
void add_serve(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("serve", "Run the daemon, or start or stop it in the background");
  auto flags = std::make_shared<ServeFlags>();
  const ServeOptions cluster = add_cluster_options(*command, *flags);
  const ServeOptions bounds = add_bounds(*command, *flags);
  const ServeOptions slurm = add_slurm_options(*command, *flags);
  const ServeOptions k8s = add_k8s_options(*command, *flags);
  const ServeOptions tls = add_tls_options(*command, *flags);
  const ServeOptions oidc = add_oidc_options(*command, flags->oidc);
  const ServeOptions notices = add_notice_options(*command, flags->notices);
  auto* again = command->add_flag(
      "--again", flags->again,
      "with the hosts, the port, the settings and, without --listen, the address of this "
      "folder's last daemon");
  for (const ServeOptions& options : {cluster, bounds, slurm, k8s, tls, oidc, notices})
    for (CLI::Option* option : options) again->excludes(option);
  auto* detach =
      command->add_flag("-d,--detach", flags->detach, "start it in the background and return");
  command->add_flag("--stop", flags->stop, "end the daemon in the background; runs go on")
      ->excludes(detach);
  command->footer(
      "Without a daemon the first command that needs one starts it.\n\n"
      "Examples:\n"
      "  lockstep serve --hosts 2x2 --detach\n"
      "  lockstep serve --engine hosts --listen 0.0.0.0 --port 7070 --detach\n"
      "  lockstep serve --engine slurm --shared /shared --listen 0.0.0.0 --detach\n"
      "  lockstep serve --engine k8s --agent-image lockstep:1 --listen 0.0.0.0 --detach\n"
      "  lockstep serve --stop");
  command->callback([&action, flags, command] {
    flags->listen_given = command->get_option("--listen")->count() > 0;
    flags->port_given = command->get_option("--port")->count() > 0;
    action = [flags] { return run_serve(*flags); };
  });
}

}  // namespace lockstep::cli
