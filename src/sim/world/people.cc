#include "sim/world/people.h"

#include "platform/identity/token.h"

namespace lockstep::sim {
namespace {

using identity::Role;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int kChangingSeeds = 50;   // percent
constexpr int kForeignCallers = 30;  // percent, of stops and resumes in these seeds
constexpr int kForgedNames = 20;     // percent of submissions, likewise
constexpr std::string_view kFirstAdmin = "ops";

// From the token's number, since the simulation has no secret to protect.
identity::TokenText numbered_token(int number) {
  return {.id = format("{:0>12}", number), .secret = format("{:0>43}", number)};
}

std::optional<Role> any_role(SeededRandom& random) {
  constexpr std::array<std::optional<Role>, 5> kRoles = {std::nullopt, Role::viewer, Role::member,
                                                         Role::member, Role::manager};
  return random.one_of(kRoles);
}

}  // namespace

People::People(SimContext& context, const model::State& durable, std::uint64_t seed)
    : context_(context),
      durable_(durable),
      random_(seed, "people"),
      changes_(random_.percent(kChangingSeeds)),
      checker_(context, durable) {
  const Time now = context_.clock.now();
  for (const std::string_view user : {kFirstAdmin, kUserNames[0], kUserNames[1], kUserNames[2]})
    change("a first user", identity::add_user(directory_, user, now));
  checker_.admin_made(std::string(kFirstAdmin), true);
  change("the first admin", identity::set_admin(directory_, kFirstAdmin, true));
  for (const std::string_view project : kProjects) {
    change("a first project", identity::add_project(directory_, project, now));
    for (const std::string_view user : kUserNames)
      give_role(std::string(project), std::string(user), Role::member);
  }
  for (const std::string_view user : kUserNames)
    make_token(std::string(user), "", std::nullopt, std::nullopt);
}

void People::begin(Duration span) {
  if (!changes_) return;
  static constexpr std::array<Kind, 5> kKinds = {{
      {minutes(2), &People::give_a_role},
      {minutes(6), &People::disable_or_enable_a_user},
      {minutes(6), &People::make_or_take_an_admin},
      {minutes(3), &People::make_a_token},
      {minutes(5), &People::revoke_a_token},
  }};
  for (const Kind& kind : kKinds) plan(kind, context_.timeline.now() + span);
}

void People::plan(const Kind& kind, Duration until) {
  const Duration wait = random_.from_to(Duration(0), 2 * kind.mean);
  if (context_.timeline.now() + wait > until) return;
  context_.timeline.after(wait, [this, &kind, until] {
    (this->*kind.act)();
    plan(kind, until);
  });
}

People::Caller People::any_caller(std::string_view user) {
  const std::string name(user);
  return {name, random_.one_of(tokens_.at(name))};
}

Result<identity::Bearer> People::bearer_of(const Caller& caller) const {
  const identity::Token* token =
      identity::find_token(directory_, caller.token, context_.clock.now());
  if (token) return identity::bearer_of(*token);
  return Error{Code::denied, "the token was revoked or has ended, or its user is disabled"};
}

Result<void> People::admit_submission(const Caller& caller, const std::string& request_id,
                                      model::RunSpec& spec, model::Origin& origin) {
  if (changes_ && random_.percent(kForgedNames)) origin.user = any_user();
  const auto admit = [&]() -> Result<void> {
    const identity::Bearer bearer = TRY(bearer_of(caller));
    spec.project = TRY(identity::project_of_submission(directory_, bearer, spec.project));
    origin.user = bearer.user;
    return {};
  };
  auto admitted = admit();
  checker_.check_submission(caller.token, request_id, spec.project, admitted.has_value());
  return admitted;
}

Result<void> People::admit_control(const model::RunId& run) {
  const auto found = durable_.runs.find(run);
  if (found == durable_.runs.end())
    return Error{Code::not_found, format("there is no run {}", text(run))};
  const bool foreign = changes_ && random_.percent(kForeignCallers);
  const Caller caller = any_caller(foreign ? any_user() : found->second.origin.user);
  auto admitted = decide_control(caller, found->second);
  checker_.check_control(caller.token, found->second, admitted.has_value());
  return admitted;
}

Result<void> People::decide_control(const Caller& caller, const model::Run& run) const {
  const identity::Bearer bearer = TRY(bearer_of(caller));
  const identity::Target target{.project = run.id.project, .owner = run.origin.user};
  if (identity::may(directory_, bearer, identity::Action::control_run, target)) return {};
  return Error{Code::denied, identity::refusal(bearer, identity::Action::control_run, target)};
}

bool People::change(const std::string& what, const Result<identity::Changes>& changes) {
  context_.trace("admin", "{}{}", what, changes ? "" : ": " + changes.error().message);
  if (changes) identity::apply(directory_, *changes);
  return changes.has_value();
}

void People::give_role(const std::string& project, const std::string& user,
                       std::optional<Role> role) {
  const std::string what =
      format("makes {} {} of {}", user, role ? name_of(*role) : "no member", project);
  if (change(what, identity::set_member(directory_, project, user, role)))
    checker_.role_given(project, user, role);
}

void People::give_a_role() {
  const std::string project = any_project();
  give_role(project, any_user(), any_role(random_));
}

void People::disable_or_enable_a_user() {
  const std::string user = random_.percent(20) ? std::string(kFirstAdmin) : any_user();
  const bool disabled = !identity::find_user(directory_, user)->disabled;
  if (change(format("{} {}", disabled ? "disables" : "enables", user),
             identity::set_disabled(directory_, user, disabled)))
    checker_.user_disabled(user, disabled);
}

void People::make_or_take_an_admin() {
  const std::string user = random_.percent(20) ? std::string(kFirstAdmin) : any_user();
  const bool admin = !identity::find_user(directory_, user)->admin;
  if (change(format("makes {} {}", user, admin ? "an admin" : "no admin any more"),
             identity::set_admin(directory_, user, admin)))
    checker_.admin_made(user, admin);
}

void People::make_token(const std::string& user, const std::string& project,
                        std::optional<Role> role, std::optional<Time> ends) {
  std::size_t made = 0;
  for (const auto& [name, tokens] : tokens_) made += tokens.size();
  const identity::TokenText token = numbered_token(static_cast<int>(made));
  const identity::NewToken wanted{
      .user = user, .name = "a token", .project = project, .role = role, .ends = ends};
  if (!change("makes a token of " + user,
              identity::add_token(directory_, wanted, token, context_.clock.now())))
    return;
  tokens_[user].push_back(text(token));
  checker_.token_made(text(token), {.user = user, .project = project, .role = role, .ends = ends});
}

void People::make_a_token() {
  const std::string user = any_user();
  const std::string project = random_.percent(50) ? any_project() : "";
  const std::optional<Role> role = any_role(random_);
  std::optional<Time> ends;
  if (random_.percent(50))
    ends = context_.clock.now() + random_.from_to(seconds(10), Duration(minutes(10)));
  make_token(user, project, role, ends);
}

// The user goes on to call with it.
void People::revoke_a_token() {
  const Caller caller = any_caller(any_user());
  const auto token = identity::parse_token(caller.token);
  if (change("revokes a token of " + caller.user, identity::revoke_token(directory_, token->id)))
    checker_.token_revoked(caller.token);
}

}  // namespace lockstep::sim
