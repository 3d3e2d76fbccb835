#include "platform/store/identity_store.h"

#include <string>
#include <variant>

#include "platform/store/audit_table.h"
#include "platform/store/identity_tables.h"  // IWYU pragma: keep (the tables of rows)

namespace lockstep::store {
namespace {

template <class Row>
Result<void> load_into(Database& database, identity::Directory& directory) {
  TRY(check_table<Row>(database));
  return for_each_row<Row>(database, [&](Row&& row) -> Result<void> {
    identity::apply(directory, {identity::Change{std::move(row)}});
    return {};
  });
}

Result<identity::Directory> load_rows_of(Database& database) {
  identity::Directory directory;
  TRY(load_into<identity::User>(database, directory));
  TRY(load_into<identity::Project>(database, directory));
  TRY(load_into<identity::Member>(database, directory));
  TRY(load_into<identity::Token>(database, directory));
  TRY(load_into<identity::Secret>(database, directory));
  return directory;
}

// The views of a removed user, which only the user could read, and the reports of a removed
// project, which a new one of the same name would get.
Result<void> remove_documents(Database& database, const identity::Change& change) {
  const auto* user = std::get_if<identity::User>(&change.row);
  if (user != nullptr && user->removed)
    return database.execute("delete from documents where user = :user and kind = 'view'",
                            user->name);
  const auto* project = std::get_if<identity::Project>(&change.row);
  if (project != nullptr && change.removed)
    return database.execute("delete from documents where project = :project", project->name);
  return {};
}

}  // namespace

Result<identity::Directory> SqlIdentityStore::load_directory() {
  auto directory = load_rows_of(database_);
  if (!directory)
    return std::move(directory).error().with_context("loading the users from " + database_.name());
  return directory;
}

Result<void> SqlIdentityStore::commit(const identity::Changes& changes,
                                      const std::optional<model::AuditRecord>& record) {
  return database_.transaction([&]() -> Result<void> {
    for (const identity::Change& change : changes) {
      TRY(std::visit(
          [&](const auto& row) {
            return change.removed ? remove(database_, row) : upsert(database_, row);
          },
          change.row));
      TRY(remove_documents(database_, change));
    }
    return record ? add(database_, *record) : Result<void>();
  });
}

Result<std::optional<identity::Secret>> SqlIdentityStore::find_secret(
    const identity::SecretId& id) {
  std::optional<identity::Secret> found;
  for (auto& [sealed, set_by, set] : TRY((database_.rows<std::string, std::string, Time>(
           "select sealed, set_by, set_at from secrets where project = :project and name = :name",
           id.project, id.name))))
    found = {id, std::move(sealed), std::move(set_by), set};
  return found;
}

Result<std::vector<model::AuditRecord>> SqlIdentityStore::list_audit(
    const model::AuditFilter& filter) {
  return audit_records(database_, filter);
}

}  // namespace lockstep::store
