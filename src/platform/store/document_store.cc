#include "platform/store/document_store.h"

#include <tuple>
#include <utility>

#include "base/format.h"
#include "platform/store/audit_table.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::store {
namespace {

SqlValue as_text(std::string words) { return {.type = SqlType::text, .text = std::move(words)}; }

Result<model::Document> document_from(std::vector<SqlValue>& row) {
  return model::Document{.id = row[0].integer,
                         .kind = TRY(parse_name<model::DocumentKind>(row[1].text)),
                         .project = std::move(row[2].text),
                         .user = std::move(row[3].text),
                         .name = std::move(row[4].text),
                         .text = std::move(row[5].text),
                         .changed = Time(Duration(row[6].integer)),
                         .version = row[7].integer};
}

}  // namespace

Result<std::vector<model::Document>> DocumentStore::select(const std::string& condition,
                                                           std::vector<SqlValue> values) {
  using enum SqlType;
  std::vector<model::Document> found;
  TRY(database_.run(
      "select id, kind, project, user, name, text, changed, version from documents where " +
          condition,
      values, {integer, text, text, text, text, text, integer, integer},
      [&](std::vector<SqlValue>& row) -> Result<void> {
        found.push_back(TRY(document_from(row)));
        return {};
      }));
  return found;
}

Result<std::vector<model::Document>> DocumentStore::list(const DocumentFilter& filter) {
  std::string condition = "kind = :kind";
  std::vector<SqlValue> values = {as_text(std::string(name_of(filter.kind)))};
  if (filter.user) {
    condition += " and user = :user";
    values.push_back(as_text(*filter.user));
  }
  if (filter.projects) {
    condition += " and project in (select value from json_each(:projects))";
    values.push_back(as_text(dump_json(to_json(*filter.projects))));
  }
  values.push_back({.integer = filter.limit});
  return select(condition + " order by changed desc, id desc limit :limit", std::move(values));
}

Result<model::Document> DocumentStore::find(std::int64_t id) {
  auto found = TRY(select("id = :id", {{.integer = id}}));
  if (found.size() == 1) return std::move(found[0]);
  return Error{Code::not_found, format("there is no document {}", id)};
}

Result<std::int64_t> DocumentStore::count_of(const std::string& user) {
  const auto counted =
      TRY(database_.rows<std::int64_t>("select count(*) from documents where user = :user", user));
  return std::get<0>(counted.at(0));
}

Result<std::int64_t> DocumentStore::add(const model::Document& document,
                                        const model::AuditRecord& record) {
  std::int64_t id = 0;
  TRY(database_.transaction([&]() -> Result<void> {
    TRY(database_.execute(
        "insert into documents (kind, project, user, name, text, changed, version) values (:kind, "
        ":project, :user, :name, :text, :changed, :version)",
        name_of(document.kind), document.project, document.user, document.name, document.text,
        document.changed, document.version));
    const auto last = TRY(database_.rows<std::int64_t>("select max(id) from documents"));
    id = std::get<0>(last.at(0));
    return store::add(database_, record);
  }));
  return id;
}

Result<void> DocumentStore::change(const model::Document& document, std::int64_t before,
                                   const model::AuditRecord& record) {
  return database_.transaction([&]() -> Result<void> {
    if (TRY(find(document.id)).version != before)
      return Error{
          Code::invalid,
          format("{} was changed meanwhile; read it again, then repeat the change", document.name)};
    TRY(database_.execute(
        "update documents set name = :name, text = :text, changed = :changed, version = :version "
        "where id = :id",
        document.name, document.text, document.changed, document.version, document.id));
    return store::add(database_, record);
  });
}

Result<void> DocumentStore::remove(std::int64_t id, const model::AuditRecord& record) {
  return database_.transaction([&]() -> Result<void> {
    TRY(database_.execute("delete from documents where id = :id", id));
    return store::add(database_, record);
  });
}

}  // namespace lockstep::store
