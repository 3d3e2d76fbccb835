#include "platform/host_service/service.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "comm/fabric/address/kernel_network.h"
#include "net/crypto.h"
#include "platform/api/heartbeat_version.h"
#include "platform/engine/gang.h"
#include "platform/host/machine.h"
#include "platform/host/shared_folder.h"
#include "platform/host_service/checkpoint_files.h"
#include "platform/host_service/facts.h"
#include "platform/host_service/health.h"
#include "platform/host_service/node_cleanup.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::host_service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kWaitMin = seconds(1), kWaitMax = std::chrono::minutes(1);  // of a poll
constexpr Duration kAnswerLimit = seconds(10);                                 // beyond that
constexpr Duration kRetryFirst = milliseconds(500);
constexpr Duration kRetryMax = seconds(5);
constexpr Duration kRefusedRetry = seconds(30);
constexpr Duration kBusyPause = milliseconds(200);
constexpr Duration kIdlePause = seconds(1);
constexpr Duration kCleanupPause = seconds(2);
constexpr Duration kIdleFilesWait = seconds(10);
constexpr Duration kMachineLook = std::chrono::minutes(1);
constexpr int kServiceBytes = 8;

constexpr auto kDaemonCalls = "the daemon", kMachineLooks = "the machine";

// `is_known`: the daemon needs no launch record, since it has ordered the node.
api::ReportedNode reported(const engine::ListedNode& listed, bool is_known) {
  api::ReportedNode node{.node = text(listed.node), .seen = listed.seen};
  if (const auto& record = listed.record; record && !is_known)
    node.launch = api::ReportedLaunch{.attempt = record->attempt,
                                      .host = record->host,
                                      .devices = record->devices,
                                      .time_left = record->time_left,
                                      .error = record->error};
  return node;
}

void sleep_for(Duration duration) { std::this_thread::sleep_for(duration); }

}  // namespace

HostService::HostService(Setup setup)
    : setup_(std::move(setup)),
      polls_(new_client()),
      reports_(new_client()),
      session_(net::random_hex(kServiceBytes)),
      problem_log_(setup_.clock) {}

client::Client HostService::new_client() const {
  const Membership& membership = setup_.membership;
  return {membership.url, membership.credential, client::TokenOwner{.host = membership.host}};
}

Result<std::unique_ptr<HostService>> HostService::open(Setup setup) {
  const host::Machine here = host::this_machine();
  TRY(host::write_daemon_file(host::Home{setup.home}.daemon_file(),
                              {.url = setup.membership.url,
                               .version = setup.sources.version,
                               .host = here.host,
                               .machine = here.id,
                               .boot = here.boot,
                               .folder = setup.home.string(),
                               .since = setup.clock.now()}));
  // Agents of other users read it; it has no secret.
  if (::geteuid() == 0) ::chmod(host::Home{setup.home}.daemon_file().c_str(), 0644);
  return std::unique_ptr<HostService>(new HostService(std::move(setup)));
}

// --- Reports ---

// The answers come before the nodes: what they ordered is among them.
api::ServiceReport HostService::make_report() {
  api::ServiceReport report;
  {
    const Lock lock(mutex_);
    report = session_.begin_report();
    report.problems = problems_;
    report.shared = shared_;
    if (report.facts) report.inventory = inventory_;
  }
  add_nodes(report);
  report.clock = setup_.clock.now();
  return report;
}

void HostService::add_nodes(api::ServiceReport& report) {
  const auto listed = setup_.nodes.list();
  if (!listed) {
    report.nodes_error = listed.error().message;
    return;
  }
  const Lock lock(mutex_);
  for (const engine::ListedNode& node : listed->nodes)
    report.nodes.push_back(reported(node, session_.was_ordered(text(node.node))));
}

Result<void> HostService::call(client::Client& client, const api::ServiceReport& report,
                               Duration wait) {
  const auto orders = client.call(api::kHostReport,
                                  {.path = client::Path::of_host(setup_.membership.host),
                                   .query = {.wait_seconds = in_seconds(wait)},
                                   .request = report},
                                  Deadline::after(wait + kAnswerLimit));
  Result<void> called = orders ? Result<void>() : Result<void>(orders.error());
  record_call(called);
  if (!orders) return called;
  {
    const Lock lock(mutex_);
    session_.record_answer(report);
  }
  carry_out(report, *orders);
  return {};
}

void HostService::record_call(const Result<void>& called) {
  const Lock lock(mutex_);
  if (called) {
    if (problem_log_.clear(kDaemonCalls)) LS_LOG(info, "the daemon answers again");
    return;
  }
  std::string words =
      format("the daemon does not take this host's reports: {}", called.error().message);
  if (called.error().code == Code::denied) words += "; to join again: `lockstep host join`";
  if (problem_log_.should_log(kDaemonCalls, words))
    LS_LOG(warning, "{}; it is tried again, and nodes go on", words);
}

// --- Orders ---

// Two answers may overtake each other. The newer one has all orders of the older one that count.
void HostService::carry_out(const api::ServiceReport& report, const api::ServiceOrders& orders) {
  const Lock lock(mutex_);
  queue_files(orders.files);
  if (!session_.begin_orders(report, orders)) return;
  asked_for_ = orders.shared;
  poll_wait_ = std::clamp(from_seconds(orders.wait_seconds), kWaitMin, kWaitMax);
  for (const api::StartOrder& start : orders.start) {
    const auto node = model::parse_node_id(start.launch.node);
    if (!node) {
      LS_LOG(warning, "the daemon orders a node '{}', which is no name of one", start.launch.node);
      continue;
    }
    ordered_.insert({start.launch.generation, *node});
    setup_.nodes.submit(engine::gang_of_node({start.launch.generation, *node}, start.launch,
                                             start.make_checkpoint_folder));
  }
  for (const std::string& name : orders.kill)
    if (const auto node = model::parse_node_name(name)) setup_.nodes.kill(*node);
  session_.record_orders_done(orders);
}

// The same order is in several answers.
void HostService::queue_files(const std::vector<api::HostFileOrder>& orders) {
  for (const api::HostFileOrder& order : orders) {
    if (order.number <= last_file_order_) continue;
    last_file_order_ = order.number;
    file_orders_.push_back(order);
  }
  if (!file_orders_.empty()) files_ordered_.notify_all();
}

// A file system may hang, so the thread that follows orders does not read files.
void HostService::send_files() {
  client::Client client = new_client();
  for (;;) {
    std::optional<api::HostFileOrder> order;
    {
      const Lock lock(mutex_);
      while (file_orders_.empty())
        files_ordered_.wait_until(mutex_, Deadline::after(kIdleFilesWait));
      order = std::move(file_orders_.front());
      file_orders_.pop_front();
    }
    const auto sent =
        ask(client, api::kHostFiles, {.answers = {host_service::carry_out(setup_.home, *order)}});
    if (!sent) LS_LOG(warning, "sending files of {}: {}", order->run, sent.error().message);
  }
}

// The first answer of a daemon says for how long to wait.
Duration HostService::poll_wait() {
  const Lock lock(mutex_);
  return poll_wait_;
}

Result<void> HostService::poll() { return call(polls_, make_report(), poll_wait()); }

void HostService::follow_orders() {
  Duration pause{};
  for (;;) {
    const auto called = poll();
    if (called) {
      pause = Duration(0);
      continue;
    }
    pause = std::clamp(pause * 2, kRetryFirst, kRetryMax);
    sleep_for(called.error().code == Code::denied ? kRefusedRetry : pause);
  }
}

// --- What nodes leave ---

template <class Route>
Result<typename Route::Answer> HostService::ask(client::Client& client, const Route& route,
                                                const typename Route::Request& request) const {
  return client.call(route,
                     {.path = client::Path::of_host(setup_.membership.host), .request = request});
}

void HostService::clean_up() {
  client::Client client = new_client();
  NodeCleanup cleanup(
      {.home = setup_.home,
       .token_of = [this](const model::NodeName& node) { return setup_.nodes.token(node); },
       .collect =
           [&](api::CollectRequest request) {
             request.items = api::items_for(std::move(request.items), client.heartbeat_version());
             return ask(client, api::kCollect, request);
           },
       .kept_files = [&](const auto& question) { return ask(client, api::kKeptFiles, question); }});
  for (;; sleep_for(kCleanupPause)) {
    std::set<model::NodeName> present, ordered;
    {
      const Lock lock(mutex_);
      ordered = ordered_;
    }
    const auto listed = setup_.nodes.list();
    if (!listed) continue;
    for (const engine::ListedNode& node : listed->nodes)
      if (node.seen.phase != model::NodePhase::gone) present.insert(node.node);
    cleanup.work(present, ordered);
    const Lock lock(mutex_);
    for (const model::NodeName& node : ordered) ordered_.erase(node);
  }
}

// --- The machine ---

Duration HostService::watch() {
  if (next_look_.passed()) {
    look_at_machine();
    look_at_shared_folder();
    next_look_ = Deadline::after(kMachineLook);
  }
  if (is_shared_folder_new()) look_at_shared_folder();
  const api::ServiceReport report = make_report();
  std::string news = dump_json(to_json(report.nodes)) + report.nodes_error.value_or("") +
                     dump_json(to_json(report.shared));
  const bool is_known = news == reported_ && !report.inventory;
  if (!is_known && call(reports_, report, Duration(0))) reported_ = std::move(news);
  return report.nodes.empty() ? kIdlePause : kBusyPause;
}

bool HostService::is_shared_folder_new() {
  const Lock lock(mutex_);
  if (!asked_for_) return shared_.has_value();
  return shared_ != asked_for_;
}

// Without the lock: a shared file system may hang.
void HostService::look_at_shared_folder() {
  std::optional<api::SharedFolder> seen;
  {
    const Lock lock(mutex_);
    seen = asked_for_;
  }
  if (seen) seen->marker = host::shared_marker(seen->path);
  const Lock lock(mutex_);
  shared_ = std::move(seen);
}

void HostService::look_at_machine() {
  auto inventory = take_inventory(setup_.sources, setup_.clock);
  const Membership& member = setup_.membership;
  const comm::KernelNetwork network;
  const std::string address =
      member.address.empty() ? address_towards(network, member.url) : member.address;
  auto facts = host_facts(member.host, address, setup_.sources.gpus, network);
  const Lock lock(mutex_);
  if (!inventory || !facts) {
    const Error& error = inventory ? facts.error() : inventory.error();
    if (problem_log_.should_log(kMachineLooks, error.message))
      LS_LOG(warning, "this machine cannot be described: {}", error.message);
    return;
  }
  problem_log_.clear(kMachineLooks);
  problems_ = check_health(*inventory);
  inventory_ = *std::move(inventory);
  session_.set_facts(*std::move(facts));
}

}  // namespace lockstep::host_service
