// ServeConfig: the cluster and the address of a daemon, from the arguments of `lockstep serve`, and
// stored in the home.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "map/map.h"
#include "platform/host/home.h"
#include "platform/server/janitor/janitor.h"
#include "text/record.h"

namespace lockstep::cli {

// The cluster that the daemon serves, and its address. The home stores it, so that a daemon that a
// command starts after a crash serves the same cluster.
struct ServeConfig {
  std::string hosts, map_file;
  // "local": of this machine; "hosts": of machines that join; "slurm": of Slurm; "k8s": of
  // Kubernetes. Several are joined by commas; none: local.
  std::optional<std::string> engine{};
  std::optional<std::string> shared{};  // a folder that all hosts share
  std::string listen = "127.0.0.1";
  std::vector<std::string> names;
  int port = 0;
  Duration keep_logs = server::kKeepLogs;
  // None: the default. An older version reads the file as long as they are not set.
  std::optional<Duration> keep_metrics{}, keep_ranks{}, keep_around{}, keep_telemetry{};
  std::optional<Bytes> store_max{}, metrics_max{};
  std::optional<std::vector<std::string>> settings{};  // changes of the defaults, as --set has them
  // The operator's certificate, absolute paths, and plain HTTP also for other machines.
  std::optional<std::string> tls_cert{}, tls_key{};
  std::optional<bool> insecure{};
  // For the jobs of --engine slurm; none: Slurm's own defaults.
  std::optional<std::string> slurm_partition{}, slurm_account{};
  std::optional<std::vector<std::string>> slurm_options{};  // further arguments of sbatch
  std::optional<bool> slurm_shared{};                       // Slurm chooses the hosts of runs
  // For the Pods of --engine k8s. Without the first three: those of kubectl.
  std::optional<std::string> kubeconfig{}, context{}, in_namespace{};
  std::optional<std::string> agent_image{}, image{}, device_resource{};
  std::optional<std::string> project_namespaces{};        // an absolute path (project_file.h)
  std::optional<std::vector<std::string>> pod_volumes{};  // as `lockstep k8s render --volume`
  // The issuer at which users log in, and absolute paths (oidc_config.h).
  std::optional<std::string> oidc_issuer{}, oidc_client{};
  std::optional<std::string> oidc_secret_file{}, oidc_roles{}, oidc_ca_file{};
  // The ways of notices (notice_config.h); the folder and the file are absolute paths.
  std::optional<std::vector<std::string>> notice_networks{};
  std::optional<std::string> notice_commands{};
  std::optional<std::string> smtp{}, smtp_from{}, smtp_user{}, smtp_password_file{};

  static constexpr auto fields() {
    return record<ServeConfig>(
        field("hosts", &ServeConfig::hosts, "the grid that this machine presents"),
        field("map", &ServeConfig::map_file, "the cluster's file"),
        field("engine", &ServeConfig::engine, "what starts agents"),
        field("shared", &ServeConfig::shared, "a folder that all hosts share"),
        field("listen", &ServeConfig::listen, "address to listen on"),
        field("names", &ServeConfig::names, "further names of that address"),
        field("port", &ServeConfig::port, "port; 0: any free one"),
        field("keep_logs", &ServeConfig::keep_logs, "lines, after a run's end"),
        field("keep_metrics", &ServeConfig::keep_metrics, "metrics, after a run's end"),
        field("keep_ranks", &ServeConfig::keep_ranks, "points of single ranks"),
        field("keep_around", &ServeConfig::keep_around, "the same, beside a finding"),
        field("keep_telemetry", &ServeConfig::keep_telemetry, "telemetry by seconds"),
        field("store_max", &ServeConfig::store_max, "of the store's file, in use"),
        field("metrics_max", &ServeConfig::metrics_max, "of the points of metrics"),
        field("settings", &ServeConfig::settings, "changes of the daemon's bounds"),
        field("tls_cert", &ServeConfig::tls_cert, "the operator's certificate"),
        field("tls_key", &ServeConfig::tls_key, "its key"),
        field("insecure", &ServeConfig::insecure, "plain HTTP also for other machines"),
        field("slurm_partition", &ServeConfig::slurm_partition, "of Slurm, for all jobs"),
        field("slurm_account", &ServeConfig::slurm_account, "of Slurm, for all jobs"),
        field("slurm_options", &ServeConfig::slurm_options, "further arguments of sbatch"),
        field("slurm_shared", &ServeConfig::slurm_shared, "Slurm chooses the hosts of runs"),
        field("kubeconfig", &ServeConfig::kubeconfig, "the file that names the cluster"),
        field("context", &ServeConfig::context, "of that file"),
        field("namespace", &ServeConfig::in_namespace, "of the Pods"),
        field("agent_image", &ServeConfig::agent_image, "from which Pods copy the agent"),
        field("image", &ServeConfig::image, "of runs that name none"),
        field("device_resource", &ServeConfig::device_resource, "that a Pod asks for"),
        field("pod_volumes", &ServeConfig::pod_volumes, "of each Pod"),
        field("project_namespaces", &ServeConfig::project_namespaces, "of the Pods of projects"),
        field("oidc_issuer", &ServeConfig::oidc_issuer, "at which users log in"),
        field("oidc_client", &ServeConfig::oidc_client, "the daemon's id there"),
        field("oidc_secret_file", &ServeConfig::oidc_secret_file, "the secret of that id"),
        field("oidc_roles", &ServeConfig::oidc_roles, "the roles of its groups"),
        field("oidc_ca_file", &ServeConfig::oidc_ca_file, "authorities of its certificate"),
        field("notice_networks", &ServeConfig::notice_networks, "that webhooks may reach"),
        field("notice_commands", &ServeConfig::notice_commands, "the folder of commands"),
        field("smtp", &ServeConfig::smtp, "the server that takes mails"),
        field("smtp_from", &ServeConfig::smtp_from, "from which mails come"),
        field("smtp_user", &ServeConfig::smtp_user, "at that server"),
        field("smtp_password_file", &ServeConfig::smtp_password_file, "of that user"));
  }
};

// The configuration of the last daemon of this home, if there was one.
Result<ServeConfig> last_serve_config(const host::Home& home);
// The text of the file that stores it for the next daemon.
std::string serve_config_text(const ServeConfig& served);

// The cluster of the map file; else this machine, or the grid of hosts that --hosts simulates on
// it.
Result<map::ClusterMap> cluster_map(const ServeConfig& served);
// Checks that the background daemon would only report in its log.
Result<void> check_map(const ServeConfig& served);

// The reason why the daemon cannot listen, and a remedy.
Error listen_error(const Error& error, const ServeConfig& served);
// The host by which this machine's own commands reach the daemon, and the one for other machines: a
// given name, or an address. The second is empty if it listens to this machine alone, or has no
// address for others.
std::string own_host(const ServeConfig& served);
std::string network_host(const ServeConfig& served);
// True if the daemon speaks HTTPS: for other machines, unless the operator wants plain HTTP.
bool uses_tls(const ServeConfig& served);
// The names and addresses by which callers reach the daemon, for its certificate.
std::vector<std::string> certificate_names(const ServeConfig& served);
// The names in `engine`.
std::vector<std::string> engine_names(const ServeConfig& served);
// True if runs start on this machine.
bool uses_this_machine(const ServeConfig& served);
// True if machines join the cluster.
bool hosts_join(const ServeConfig& served);
// True if runs become jobs of Slurm.
bool uses_slurm(const ServeConfig& served);
// True if Slurm chooses the hosts of these jobs, also beside other engines.
bool shares_slurm(const ServeConfig& served);
// True if nodes are Pods of Kubernetes.
bool uses_k8s(const ServeConfig& served);
// Checks that the engines exist, and fit with each other and with the other options.
Result<void> check_engines(const ServeConfig& served);
// Checks that the options on TLS fit together.
Result<void> check_tls(const ServeConfig& served);
// How users of other machines log in, by the address with its fingerprint; none: they cannot.
std::optional<std::string> login_line(const std::string& network_url);
// A warning if other machines reach the daemon's port by plain HTTP.
std::optional<std::string> listen_warning(const ServeConfig& served);

}  // namespace lockstep::cli
