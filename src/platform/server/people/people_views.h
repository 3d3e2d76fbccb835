// API views of the directory's rows, and their text for the audit.
#pragma once

#include <string>

#include "platform/api/identity_messages.h"
#include "platform/core/model/audit_record.h"
#include "platform/identity/rights.h"

namespace lockstep::server {

api::UserView user_view(const identity::Directory& directory, const identity::User& user);
api::UserList user_list(const identity::Directory& directory);
api::ProjectView project_view(const identity::Directory& directory,
                              const identity::Project& project);
// Those that the bearer may read.
api::ProjectList project_list(const identity::Directory& directory, const identity::Bearer& bearer);
api::TokenView token_view(const identity::Token& token, Time now);
api::AuditView audit_view(const model::AuditRecord& record);

// "admin", "person, disabled", "service account of demo".
std::string summary(const identity::User& user);
// "of ann, in demo, at most viewer, until 2026-12-01T00:00:00Z".
std::string summary(const identity::Token& token);

}  // namespace lockstep::server
