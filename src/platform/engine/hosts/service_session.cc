#include "platform/engine/hosts/service_session.h"

#include <utility>

#include "platform/core/model/ids.h"

namespace lockstep::engine {
namespace {

std::string name_of(const host::LaunchSpec& launch) {
  const auto node = model::parse_node_id(launch.node);
  return node ? text(model::NodeName{launch.generation, *node}) : std::string();
}

}  // namespace

api::ServiceReport ServiceSession::begin_report() {
  api::ServiceReport report{.service = service_, .number = ++reports_};
  report.session = session_;
  report.answered = answered_;
  if (!is_described_) report.facts = facts_;
  return report;
}

void ServiceSession::set_facts(map::Host facts) {
  facts_ = std::move(facts);
  is_described_ = false;
}

// The machine may have changed since the report was made.
void ServiceSession::record_answer(const api::ServiceReport& report) {
  if (report.facts && report.facts == facts_) is_described_ = true;
}

// The answers of a daemon that has died may arrive after those of the next one. Only a report that
// was made in the present session reaches a newer daemon for certain.
bool ServiceSession::begin_orders(const api::ServiceReport& report,
                                  const api::ServiceOrders& orders) {
  if (orders.session != session_) {
    if (report.session != session_) return false;
    session_ = orders.session;
    answered_ = 0;
    is_described_ = false;
    ordered_.clear();
  }
  if (orders.number <= answered_) return false;
  for (const api::StartOrder& start : orders.start) ordered_.insert(name_of(start.launch));
  return true;
}

void ServiceSession::record_orders_done(const api::ServiceOrders& orders) {
  if (orders.session == session_ && orders.number > answered_) answered_ = orders.number;
}

}  // namespace lockstep::engine
