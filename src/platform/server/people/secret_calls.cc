#include "platform/server/people/secret_calls.h"

#include "base/format.h"
#include "platform/core/model/secret_name.h"
#include "platform/crypto/sealed_text.h"
#include "platform/identity/changes.h"
#include "platform/server/people/gate.h"

namespace lockstep::server {
namespace {

// {project}/{secret} of a path.
Result<identity::SecretId> secret_of(const std::vector<std::string>& path_parameters) {
  TRY(model::check_secret_name(path_parameters[1]));
  return identity::SecretId{path_parameters[0], path_parameters[1]};
}

api::SecretView secret_view(const identity::Secret& secret) {
  return {.project = secret.id.project,
          .name = secret.id.name,
          .set_by = secret.set_by,
          .set = secret.set};
}

template <const auto& kRoute>
model::AuditRecord record_on(const RouteCall<kRoute>& call, const identity::SecretId& id,
                             bool was_there, Time now) {
  model::AuditRecord record = record_of(call.caller, kRoute, now);
  record.target = format("{}/{}", id.project, id.name);
  record.project = id.project;
  record.before = was_there ? "set" : "";
  return record;
}

Error no_such_secret(const std::string& project, const std::string& secret) {
  return {Code::not_found, format("the project {} has no secret {}; set it with `lockstep secret "
                                  "set {} --project {}`",
                                  project, secret, secret, project)};
}

}  // namespace

api::SecretList SecretCalls::list_of(const std::string& project) const {
  api::SecretList list;
  for (const identity::Secret* secret : identity::secrets_of(directory(), project))
    list.secrets.push_back(secret_view(*secret));
  return list;
}

Result<api::SecretList> SecretCalls::list(const RouteCall<api::kSecrets>& call) {
  TRY(identity::require_project(directory(), call.path_parameters.front()));
  return list_of(call.path_parameters.front());
}

Result<api::SecretView> SecretCalls::set(const RouteCall<api::kSetSecret>& call) {
  const identity::SecretId id = TRY(secret_of(call.path_parameters));
  const std::string& value = call.request.value;
  TRY(model::check_secret_value(value));
  const Time now = clock_.now();
  const identity::Secret secret{
      .id = id,
      .sealed = crypto::seal(value, keys_.sealing_key(id.project, id.name)),
      .set_by = call.caller.name,
      .set = now};
  auto record = record_on(call, id, directory().secrets.contains(id), now);
  record.after = "set";
  TRY(accounts_.change(TRY(identity::set_secret(directory(), secret)), record));
  return secret_view(secret);
}

Result<api::SecretList> SecretCalls::remove(const RouteCall<api::kRemoveSecret>& call) {
  const identity::SecretId id = TRY(secret_of(call.path_parameters));
  TRY(accounts_.change(TRY(identity::remove_secret(directory(), id)),
                       record_on(call, id, true, clock_.now())));
  return list_of(id.project);
}

Result<void> SecretCalls::check_secrets_of(const model::RunSpec& spec) const {
  if (!spec.secrets) return {};
  for (const auto& [variable, secret] : *spec.secrets)
    if (!directory().secrets.contains({spec.project, secret}))
      return Error{Code::invalid, format("secrets: {}: {}", variable,
                                         no_such_secret(spec.project, secret).message)};
  return {};
}

Result<std::string> secret_value(store::IdentityStore& store, const host::Keys& keys,
                                 const std::string& project, const std::string& secret) {
  const auto found = TRY(store.find_secret({project, secret}));
  if (!found) return no_such_secret(project, secret);
  auto value = crypto::open_sealed(found->sealed, keys.sealing_key(project, secret));
  if (value) return value;
  return Error{Code::corrupt, format("the secret {} of the project {} cannot be read: {}; set it "
                                     "again",
                                     secret, project, value.error().message)};
}

}  // namespace lockstep::server
