// Server: the daemon's HTTP API. It runs on the loop's thread, as the controller does. A call is
// handled completely or parked in LongPolls, so no lock is needed.
//
// Every route that is not public requires `Authorization: Bearer TOKEN`: a user's token, or that of
// the attempt or the host in the path. The token and the right to call are checked before the body
// is read.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/loop.h"
#include "net/tls/tls.h"
#include "platform/controller/controller.h"
#include "platform/engine/hosts/hosts_engine.h"
#include "platform/host/home.h"
#include "platform/host/keys.h"
#include "platform/insight/insight.h"
#include "platform/notifier/notifier.h"
#include "platform/server/login/oidc_login.h"
#include "platform/server/page/page_file.h"
#include "platform/server/uploads/upload_store.h"
#include "platform/store/budget_store.h"
#include "platform/store/database.h"
#include "platform/store/identity_store.h"
#include "platform/store/notice_store.h"

namespace lockstep::server {

// Bounds of byte streams to nodes (streams/stream_broker.h).
struct StreamLimits {
  int of_run = 64;
  int of_daemon = 1000;
  Duration opening = std::chrono::seconds(10);        // until the agent has called
  Duration check_interval = std::chrono::minutes(1);  // of the users' rights
};

struct ServerSetup {
  controller::Controller& controller;  // these eight must outlive the server
  insight::Insight& insight;
  const host::Keys& keys;
  const Clock& clock;
  store::IdentityStore& identities;
  store::BudgetStore& budgets;
  store::NoticeStore& notices;
  store::Database& database;  // that of the stores above
  host::Home home;
  std::string version;
  std::string user{};                     // the Unix user whose daemon it is
  std::string host = "127.0.0.1";         // the address to listen on
  std::vector<std::string> host_names{};  // further names of the host in URLs
  int port = 0;                           // 0: any free one
  std::optional<net::TlsIdentity> tls{};  // HTTPS instead of HTTP
  // Outlives the server; null: no host joins this daemon.
  engine::HostsEngine* hosts_engine = nullptr;
  // The lines of the run, which ended then, were removed because of their age; an empty function:
  // of none.
  std::function<Result<bool>(const model::RunId& run, Time ended)> has_expired{};
  // Current failures of the daemon, a line for each cause; an empty function: unknown.
  std::function<std::vector<std::string>()> problems{};
  // Outlives the server; null: no folder can be uploaded.
  UploadStore* uploads = nullptr;
  // The issuer at which users log in; none: they log in by passwords.
  std::optional<OidcSetup> oidc{};
  // How notices are delivered.
  notifier::NotifierSetup notifier{};
  StreamLimits streams{};
  // With the folders of nodes; empty: the home.
  std::filesystem::path node_home{};
  PageFiles page{};  // outlives the server
};

class Server {
 public:
  // Listens at once, answers when the loop runs. The loop must outlive the server.
  static Result<std::unique_ptr<Server>> start(net::Loop& loop, ServerSetup setup);
  ~Server();

  std::string url() const;
  int port() const;
  // For connections from now on, over TLS as before.
  Result<void> set_identity(const net::TlsIdentity& identity);
  // Answers waiting calls, finishes running ones within a second or two, then calls `stopped`.
  void stop(std::function<void()> stopped);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
