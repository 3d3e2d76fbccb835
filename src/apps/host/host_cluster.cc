#include "apps/host/host_cluster.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include <arpa/inet.h>

#include "apps/daemon/own_daemon.h"
#include "apps/run/origin.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "net/http/url.h"
#include "platform/client/chosen_daemon.h"
#include "platform/core/model/ids.h"

namespace lockstep::cli {
namespace {

constexpr auto kServiceLookInterval = std::chrono::milliseconds(300);
constexpr auto kStart =
    "start one with `lockstep serve --engine hosts --listen 0.0.0.0 --detach`, or only copy "
    "Lockstep "
    "with --no-join";

bool is_ip_address(const std::string& words) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, words.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, words.c_str(), &ignored) == 1;
}

Result<client::Client> open_client() {
  auto client = TRY(find_chosen_daemon());
  if (!client)
    return Error{Code::unavailable, format("no daemon runs that a host could join: {}", kStart)};
  return *std::move(client);
}

// As the user reaches it from another machine, or as it names itself on this one.
Result<std::string> url_of_daemon() {
  if (const auto remote = TRY(client::chosen_remote(own_environment()))) return remote->profile.url;
  const host::Home home = TRY(find_home());
  const host::DaemonFile file = TRY(host::read_daemon_file(home.daemon_file()));
  if (!file.network_url.empty()) return file.network_url;
  return Error{Code::invalid,
               format("the daemon listens on this machine only, so that no other host can join: "
                      "stop it, then {}",
                      kStart)};
}

// Anyone could pose as a server without a fingerprint, and read a credential on plain HTTP.
Result<void> check_url(const std::string& url) {
  const net::Url parsed = TRY(net::parse_url(url));
  if (parsed.scheme == net::Scheme::https && !net::is_loopback(parsed.host)) return {};
  return Error{Code::invalid,
               format("hosts cannot reach the daemon at {}: name its address for other machines "
                      "with --url, as the daemon prints it: https://head:7070#sha256:...",
                      url)};
}

// The reason is another one than that its service is about to call.
bool was_heard(const std::string& unavailable) {
  return unavailable != model::kNodesNotKnown &&
         unavailable.find("has not called") == std::string::npos &&
         unavailable.find("has not reported") == std::string::npos;
}

}  // namespace

Result<std::string> host_id(const std::string& target, const std::string& hostname) {
  const std::string name = target.substr(target.rfind('@') + 1);
  const std::string id = is_ip_address(name) ? hostname : name;
  if (auto checked = model::check_name("a host", id); !checked)
    return Error{Code::invalid, format("{}; name it with --as NAME", checked.error().message)};
  return id;
}

Result<HostCluster> HostCluster::find(const std::string& url) {
  HostCluster cluster(url);
  TRY(cluster.token("any", ""));  // an error if hosts do not join that daemon
  if (url.empty()) cluster.url_ = TRY(url_of_daemon());
  TRY(check_url(cluster.url_));
  return cluster;
}

Result<std::string> HostCluster::token(const std::string& host, const std::string& pod) const {
  client::Client client = TRY(open_client());
  api::JoinTokenRequest request;
  if (!pod.empty()) request.pod = pod;
  return TRY(client.call(api::kHostToken,
                         {.path = client::Path::of_host(host), .request = request}))
      .token;
}

Result<api::HostView> HostCluster::await_service(const std::string& host, Duration limit) const {
  const Deadline deadline = Deadline::after(limit);
  client::Client client = TRY(open_client());
  while (!deadline.passed()) {
    const api::HostList list = TRY(client.call(api::kHosts));
    const auto view = std::ranges::find(list.hosts, host, &api::HostView::id);
    if (view != list.hosts.end() && was_heard(view->unavailable)) return *view;
    std::this_thread::sleep_for(kServiceLookInterval);
  }
  return Error{Code::timeout, format("its service has not called the daemon at {} within {}",
                                     host::without_fingerprint(url_), text(limit))};
}

Result<api::HostList> set_labels(const std::string& host, const map::Labels& labels) {
  client::Client client = TRY(connect_to_daemon());
  return client.call(api::kHostLabels, {.path = client::Path::of_host(host),
                                        .request = {.by = user_name(), .labels = labels}});
}

Result<bool> remove_from_map(const std::string& host) {
  auto client = TRY(find_chosen_daemon());
  if (!client) return false;
  const api::HostList list = TRY(client->call(api::kHosts));
  if (std::ranges::find(list.hosts, host, &api::HostView::id) == list.hosts.end()) return false;
  TRY(client->call(api::kRemoveHost,
                   {.path = client::Path::of_host(host), .request = {.by = user_name()}}));
  return true;
}

}  // namespace lockstep::cli
