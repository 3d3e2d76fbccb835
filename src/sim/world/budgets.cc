#include "sim/world/budgets.h"

#include "sim/world/people.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kSeedsWithBudgets = 40;  // percent
constexpr Duration kChangeMax = minutes(4);
constexpr Duration kLiftRetryInterval = seconds(7);
// Some grants are too small for most runs, some last for all of them.
constexpr Duration kGrantMin = seconds(30);
constexpr Duration kGrantMax = minutes(60);
constexpr Duration kLifeMax = minutes(20);

}  // namespace

void Budgets::begin() {
  if (!random_.percent(kSeedsWithBudgets)) return;
  context_.trace("budgets", "in this seed projects have budgets");
  grant();
  plan();
}

void Budgets::plan() {
  context_.timeline.after(random_.from_to(Duration(0), kChangeMax), [this] {
    if (stopped_) return;
    change_any();
    plan();
  });
}

void Budgets::change_any() {
  const std::string project(random_.one_of(kProjects));
  const Duration amount = random_.from_to(kGrantMin, kGrantMax);
  switch (random_.below(8)) {
    case 0:
      request(model::WithdrawBudget{.project = project, .amount = amount},
              format("withdraws {} from {}", text(amount), project));
      return;
    case 1: {
      const std::string to(random_.one_of(kProjects));
      request(model::MoveBudget{.project = project, .to = to, .amount = amount},
              format("moves {} from {} to {}", text(amount), project, to));
      return;
    }
    case 2:
      request(model::LiftBudget{.project = project}, "lifts the budget of " + project);
      return;
    case 3:
      request(model::SetRate{.kind = "gpu", .weight_percent = random_.from_to(50, 300)},
              "changes the weight of GPUs");
      return;
    default:
      grant();
  }
}

void Budgets::grant() {
  const std::string project(random_.one_of(kProjects));
  const Duration amount = random_.from_to(kGrantMin, kGrantMax);
  const Time ends = context_.clock.now() + random_.from_to(seconds(1), kLifeMax);
  request(model::GrantBudget{.project = project, .amount = amount, .ends = ends},
          format("grants {} to {}", text(amount), project));
}

// True: the daemon has answered.
bool Budgets::request(const model::Event& event, const std::string& what) {
  const auto done = daemon_.change(event);
  context_.trace("budgets", "{}{}{}", what, done ? "" : ": ", done ? "" : done.error().message);
  return done || done.error().code != Code::unavailable;
}

void Budgets::stop_and_undo() {
  stopped_ = true;
  for (const std::string_view project : kProjects) lift(std::string(project));
}

void Budgets::lift(const std::string& project) {
  if (!request(model::LiftBudget{.project = project}, "lifts the budget of " + project))
    context_.timeline.after(kLiftRetryInterval, [this, project] { lift(project); });
}

}  // namespace lockstep::sim
