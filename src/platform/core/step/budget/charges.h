// Charges: attempts hold amounts of their project's budget while they run, and settle what they
// used. docs/design/budgets.md has the rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/core/model/host_devices.h"
#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// The amount that the run must hold to start on these devices, if its project's budget does not
// have it; none: it has, or has no budget.
std::optional<budget::DeviceTime> missing_budget(const Draft& draft, const model::Run& run,
                                                 const std::vector<model::HostDevices>& devices);
// The same wherever it starts: on the devices of the least weight.
std::optional<budget::DeviceTime> missing_budget(const Draft& draft, const model::Run& run);
// The same of many runs: least_weight() looks at all hosts.
int least_weight(const Draft& draft);
std::optional<budget::DeviceTime> missing_budget(const Draft& draft, const model::Run& run,
                                                 int weight_percent);
// The amount that the run must hold to start on devices of this weight, if its project is limited.
budget::DeviceTime needed_budget(const Draft& draft, const model::Run& run, int weight_percent);
// True if each run of the project may hold that much.
bool has_budget(const Draft& draft, const std::string& project, budget::DeviceTime amount);

// The available amounts of projects while one decision starts several of their runs.
class AvailableBudgets {
 public:
  explicit AvailableBudgets(const Draft& draft) : draft_(draft) {}

  // Takes what the run must hold there; or returns that, if too little is left.
  std::optional<budget::DeviceTime> take(const model::Run& run,
                                         const std::vector<model::HostDevices>& devices);

 private:
  const Draft& draft_;
  std::map<std::string, budget::DeviceTime> taken_;  // by project
};

// At its submission: if its project is personal and has no budget, the run uses its bucket from
// then on. Code::invalid: it is too large or too long for that.
Result<void> choose_budget(const Draft& draft, model::Run& run, model::ProjectKind kind);

// The run waits until its project can hold that much.
void wait_for_budget(Draft& draft, const model::RunId& run, budget::DeviceTime amount);
// At a tick: the run waits for it no more if the project can hold it now.
void check_budget(Draft& draft, const model::RunId& run);
std::string budget_wait_reason(const Draft& draft, const model::Run& run);

// Holds what the attempt, whose nodes exist, needs; missing_budget() was none.
void open_charge(Draft& draft, model::Attempt& attempt);
// Its engine is about to name the host of the node: from now on the charge is by its devices.
void charge_for_host(Draft& draft, const model::NodeId& node, const std::string& host);
// The attempt has ended: settles what it used.
void close_charge(Draft& draft, model::Attempt& attempt);
// To start again after it ended because of its budget.
budget::DeviceTime amount_to_go_on(const Draft& draft, const model::Attempt& attempt);
// At a tick: an attempt whose hold ends settles it and gets the next one, or has to end.
void renew_charge(Draft& draft, const model::AttemptId& attempt);
// At a tick: takes back what is left of grants that have ended.
void expire_grants(Draft& draft);

// Stores the rows of the entry.
void apply_entry(Draft& draft, const budget::Entry& entry);

}  // namespace lockstep::step
