#include "sim/world/host_service.h"

#include <algorithm>
#include <utility>

#include "sim/world/machine_map.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kCallInterval = seconds(1);
constexpr int kCallsMax = 2;  // at once: one waits for orders, one has news
constexpr Duration kHeardMax = milliseconds(2500);

api::ReportedLaunch reported(const engine::LaunchRecord& record) {
  return {.attempt = record.attempt,
          .host = record.host,
          .devices = record.devices,
          .time_left = record.time_left,
          .error = record.error};
}

model::NodeName name_of_launch(const host::LaunchSpec& launch) {
  return {launch.generation, model::parse_node_id(launch.node).value()};
}

}  // namespace

HostService::HostService(const ServiceComponents& components, std::string host,
                         std::vector<int> devices, std::uint64_t seed)
    : components_(components),
      host_(std::move(host)),
      random_(seed, "service of " + host_),
      devices_(std::move(devices)) {}

void HostService::begin() {
  restart();
  components_.context.timeline.after(random_.from_to(Duration(0), kCallInterval),
                                     [this] { tick(); });
}

void HostService::restart() {
  boots_ = components_.hosts.boots(host_);
  session_.emplace(format("{} {}", host_, ++starts_));
  session_->set_facts(host_with(host_, devices_));
  calls_ = 0;
  refused_.clear();
}

void HostService::suspend(Duration duration) {
  suspended_until_ = components_.context.timeline.now() + duration;
}

void HostService::set_devices(std::vector<int> numbers) {
  devices_ = std::move(numbers);
  session_->set_facts(host_with(host_, devices_));
}

void HostService::join(int credential) {
  credential_ = credential;
  if (random_.percent(50)) restart();
  components_.truth.host_joined(host_);
}

bool HostService::is_suspended() const {
  return components_.context.timeline.now() < suspended_until_;
}

bool HostService::is_heard() const {
  return heard_ >= Duration(0) && components_.context.timeline.now() - heard_ < kHeardMax;
}

void HostService::after(Duration delay, std::function<void()> act) {
  components_.context.timeline.after(delay, [this, start = starts_, act = std::move(act)] {
    if (start == starts_ && is_up() && boots_ == components_.hosts.boots(host_)) act();
  });
}

void HostService::tick() {
  components_.context.timeline.after(kCallInterval, [this] { tick(); });
  if (is_up() && boots_ != components_.hosts.boots(host_)) restart();
  const bool is_able = is_up() && !is_suspended() && credential_;
  if (!is_able || !is_heard()) components_.truth.host_unavailable(host_);
  if (is_able && calls_ < kCallsMax) call();
}

// --- Reports ---

void HostService::call() {
  ++calls_;
  const api::ServiceReport report = make_report();
  // The caller may have ended when the answer comes.
  const auto hear = [this, report, start = starts_,
                     boots = boots_](const Result<api::ServiceOrders>& answer) {
    const bool lives = start == starts_ && is_up() && boots == components_.hosts.boots(host_);
    if (lives) take_answer(report, is_suspended() ? Error{Code::timeout, "no answer"} : answer);
  };
  components_.network.exchange(
      host_, {.caller = "service of " + host_,
              .on_disturbance = [this] { components_.truth.host_unavailable(host_); },
              .handle = [this, report, credential = *credential_, hear]() -> std::function<void()> {
                auto answer = components_.daemon(host_, credential, report);
                return [hear, answer = std::move(answer)] { hear(answer); };
              },
              .fail = hear});
}

api::ServiceReport HostService::make_report() {
  api::ServiceReport report = session_->begin_report();
  report.clock = components_.context.clock.now();
  if (components_.faults.list_fails) {
    report.nodes_error = "/proc cannot be read";
    return report;
  }
  for (const model::NodeName& node : components_.hosts.nodes_on(host_)) {
    api::ReportedNode& one = report.nodes.emplace_back();
    one.node = text(node);
    one.seen.has_agent = components_.hosts.has_agent(node);
    if (!session_->was_ordered(one.node))
      one.launch = reported(engine::launch_record(*components_.hosts.launch_of(node)));
  }
  for (const auto& [node, why] : refused_)
    report.nodes.push_back({.node = text(node),
                            .seen = {.phase = model::NodePhase::gone,
                                     .has_agent = false,
                                     .reason = why,
                                     .blame = model::EndBlame::host}});
  return report;
}

void HostService::take_answer(const api::ServiceReport& report,
                              const Result<api::ServiceOrders>& answer) {
  --calls_;
  if (!answer) {
    if (answer.error().code == Code::denied) credential_.reset();
    return;
  }
  heard_ = components_.context.timeline.now();
  session_->record_answer(report);
  const Duration slow = components_.faults.slow;
  const Duration delay = slow > Duration(0) ? random_.from_to(Duration(0), slow) : Duration(0);
  if (delay == Duration(0)) return carry_out(report, *answer);
  after(delay, [this, report, orders = *answer] { carry_out(report, orders); });
}

// --- Orders ---

void HostService::carry_out(const api::ServiceReport& report, const api::ServiceOrders& orders) {
  if (!session_->begin_orders(report, orders)) return;
  for (const api::StartOrder& order : orders.start) start(order.launch);
  for (const std::string& name : orders.kill) {
    components_.context.trace("host " + host_, "ends {}", name);
    components_.hosts.kill(model::parse_node_name(name).value());
  }
  session_->record_orders_done(orders);
}

// A node that ever had an agent is not started again; its files tell.
void HostService::start(const host::LaunchSpec& launch) {
  const model::NodeName node = name_of_launch(launch);
  if (components_.hosts.launch_of(node) || refused_.contains(node)) return;
  const auto refusal = why_refused(launch);
  components_.context.trace("host " + host_, "starts {}{}{}", launch.node, refusal ? ": " : "",
                            refusal.value_or(""));
  if (refusal) {
    components_.truth.mark_disturbed(node.attempt());
    refused_.emplace(node, *refusal);
    return;
  }
  components_.truth.check_launch(launch);
  (void)components_.hosts.start(launch);
}

// Its devices may have changed since it was placed.
std::optional<std::string> HostService::why_refused(const host::LaunchSpec& launch) const {
  if (components_.faults.starts_fail) return "no more processes";
  if (!has_devices(launch.devices)) return "the machine has other devices now";
  return std::nullopt;
}

bool HostService::has_devices(const std::vector<int>& numbers) const {
  return std::ranges::all_of(numbers,
                             [&](int number) { return std::ranges::count(devices_, number) > 0; });
}

}  // namespace lockstep::sim
