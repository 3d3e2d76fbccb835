#include "platform/agent/ranks/rank_launcher.h"

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "comm/fabric/address/kernel_network.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/address/port_range.h"
#include "net/crypto.h"
#include "net/http/http_client.h"
#include "net/http/url.h"
#include "platform/agent/ranks/node_address.h"
#include "platform/agent/ranks/rank_binding.h"
#include "platform/agent/ranks/rank_environment.h"
#include "platform/agent/ranks/socket_interface.h"
#include "platform/agent/ranks/stand_in.h"
#include "platform/api/routes.h"
#include "platform/host/home.h"
#include "platform/host/rank_token.h"
#include "platform/host/server_certificate.h"

namespace lockstep::agent {
namespace {

constexpr auto kAuthorityWait = std::chrono::seconds(5);

}  // namespace

Result<std::unique_ptr<RankLauncher>> RankLauncher::open(const host::LaunchSpec& launch,
                                                         const model::NodeId& node,
                                                         std::string token) {
  std::string address = TRY(node_address(launch.address, comm::KernelNetwork()));
  auto port = TRY(net::ReservedPort::open());
  auto sockets = TRY(SocketFolder::create(token));
  std::unique_ptr<RankLauncher> launcher(new RankLauncher(
      launch, node, std::move(token), std::move(address), std::move(port), std::move(sockets)));
  TRY(write_file(launcher->own_files().secret(), launch.secret));
  TRY(make_folders(launcher->own_files().profile()));  // an order may come before the ranks start
  TRY(launcher->open_rendezvous());
  return launcher;
}

RankLauncher::RankLauncher(const host::LaunchSpec& launch, const model::NodeId& node,
                           std::string token, std::string address, net::ReservedPort port,
                           SocketFolder sockets)
    : launch_(launch),
      node_(node),
      files_{launch.node_folder},
      folder_(launch.node_folder),
      token_(std::move(token)),
      address_(std::move(address)),
      port_(std::move(port)),
      sockets_(std::move(sockets)) {}

RankLauncher::~RankLauncher() { ::unlink(own_files().secret().c_str()); }

std::filesystem::path RankLauncher::report_socket(int local_rank) const {
  return host::report_socket(sockets_.path(), launch_.first_rank + local_rank);
}

Result<void> RankLauncher::open_rendezvous() {
  if (node_.index != 0) return {};
  const auto secret = TRY(net::Secret::from_hex(launch_.secret));
  const auto network = TRY(comm::network_options_from_environment(launch_.env));
  rendezvous_ = TRY(comm::on_free_port(address_, network.ports, [&](std::uint16_t port) {
    return comm::RendezvousServer::start(
        address_, port, secret, {.connection_timeout = network.connection_timeout}, port_.number());
  }));
  return {};
}

PreparationSetting RankLauncher::preparation_setting() const {
  return {.socket_folder = sockets_.path().string(),
          .user = ::getuid(),
          .group = ::getgid(),
          .has_infiniband = ::access("/dev/infiniband", F_OK) == 0};
}

// Only on this host: a container has folders of its own.
Result<void> RankLauncher::check_working_folder() const {
  const bool is_elsewhere = software_ && software_->container != 0;
  std::error_code failed;
  if (launch_.working_folder.empty() || is_elsewhere ||
      std::filesystem::status(launch_.working_folder, failed).type() !=
          std::filesystem::file_type::not_found)
    return {};
  return Error{Code::not_found,
               format("the working folder {} is missing on this host: make it there, or use "
                      "`lockstep run --upload`, which brings it",
                      launch_.working_folder)};
}

Result<void> RankLauncher::prepare(const model::Command& start) {
  start_ = start;
  TRY(make_folders(files_.flight()));
  if (wants_stand_in(launch_)) TRY(write_stand_ins(launch_, own_files().folder / kStandInFolder));
  if (const auto set = launch_.env.find("CUDA_VISIBLE_DEVICES");
      launch_.gpus && set != launch_.env.end() && !set->second.empty())
    LS_LOG(warning, "the run's CUDA_VISIBLE_DEVICES '{}' is not used: ranks get their own GPUs",
           set->second);
  processors_ = TRY(rank_processors(launch_));
  store_port_ = TRY(open_store());
  socket_interface_ = interface_of(address_, comm::KernelNetwork());
  set_nccl_network();
  set_tracking();
  return {};
}

void RankLauncher::set_nccl_network() {
  if (!launch_.gpus) return;
  const auto user =
      software_ ? software_->variables : user_environment(launch_, base_environment());
  nccl_network_ = software_ && software_->container != 0
                      ? own_nccl_network_of_container()
                      : choose_nccl_network(user, nccl_plugin_library());
  LS_LOG(info, "{}", nccl_network_.reason);
}

// Clients of MLflow trust a certificate by the file of its authority, not by a fingerprint.
void RankLauncher::set_tracking() {
  const auto daemon = host::read_daemon_file(launch_.daemon_file);
  const auto server = daemon ? net::parse_url(daemon->url) : Result<net::Url>(daemon.error());
  if (!server) return;
  if (server->scheme == net::Scheme::https) {
    const auto authority = daemon_authority(*server);
    const auto written = authority ? write_file(own_files().daemon_authority(), *authority, 0644)
                                   : Result<void>(authority.error());
    if (!written) {
      LS_LOG(warning, "the ranks get no MLFLOW_TRACKING_URI: {}", written.error().message);
      return;
    }
    tracking_authorities_ = files_.daemon_authority().string();
  }
  tracking_url_ = server->text();
}

// From its folder, else from the daemon itself, which presents the authority of the fingerprint.
Result<std::string> RankLauncher::daemon_authority(const net::Url& server) const {
  const auto file = host::authority_file(std::filesystem::path(launch_.daemon_file).parent_path());
  if (auto known = read_file(file)) return known;
  net::HttpClient client(server);
  TRY(client.call({.target = std::string(api::kHealth.path)}, Deadline::after(kAuthorityWait)));
  std::string authority = client.server_authority();
  if (!authority.empty()) return authority;
  return Error{Code::not_found,
               format("clients of MLflow trust the file of an authority, and the fingerprint of {} "
                      "is not that of the authority that issued its certificate",
                      server.text())};
}

// The port of torch's store on this host's loopback: rank 0's own, or that of the forwarder. 0 if
// MASTER_ADDR is loopback itself.
Result<int> RankLauncher::open_store() {
  if (net::is_loopback(start_.master_address)) return 0;
  if (node_.index == 0) return port_.number();
  forwarder_ = TRY(comm::PortForwarder::start(
      start_.rendezvous, TRY(net::Secret::from_hex(launch_.secret)),
      TRY(comm::network_options_from_environment(launch_.env)).connection_timeout));
  return forwarder_->port();
}

std::string RankLauncher::stand_ins() const {
  return wants_stand_in(launch_) ? (files_.folder / kStandInFolder).string() : "";
}

ProcessSpec RankLauncher::program_of(int local_rank, bool is_restart) const {
  const RankLaunchInfo launch_info{
      .master_address = start_.master_address,
      .master_port = start_.master_port,
      .store_port = store_port_,
      .rendezvous = start_.rendezvous,
      .secret_file = files_.secret(),
      .report_socket = report_socket(local_rank),
      .token = token_,
      .flight_folder = files_.flight(),
      .profile_folder = files_.profile(),
      .media_folder = files_.media(),
      .stand_ins = stand_ins(),
      .socket_interface = socket_interface_,
      .nccl_network = nccl_network_,
      .tracking_url = tracking_url_,
      .tracking_token = host::rank_token(
          {{launch_.generation, node_.attempt}, launch_.first_rank + local_rank}, launch_.token),
      .tracking_authorities = tracking_authorities_,
      .is_restart = is_restart};
  std::vector<std::string> command = software_ ? software_->wrapper : std::vector<std::string>();
  command.insert(command.end(), launch_.command.begin(), launch_.command.end());
  auto user = software_ ? software_->variables : user_environment(launch_, base_environment());
  return {.command = std::move(command),
          .environment = rank_environment(launch_, node_, local_rank, launch_info, std::move(user)),
          .folder = launch_.working_folder.empty() ? "/" : launch_.working_folder,
          .processors = processors_.at(static_cast<std::size_t>(local_rank)),
          .container = software_ ? software_->container : 0};
}

ShellSession RankLauncher::shell_session() const {
  return agent::shell_session(program_of(0, /*is_restart=*/false),
                              software_ ? software_->wrapper : std::vector<std::string>());
}

}  // namespace lockstep::agent
