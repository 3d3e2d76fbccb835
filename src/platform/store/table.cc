#include "platform/store/table.h"

#include <algorithm>
#include <map>

namespace lockstep::store::detail {
namespace {

std::string_view sql_name(SqlType type) {
  switch (type) {
    case SqlType::integer:
      return "INTEGER";
    case SqlType::real:
      return "REAL";
    case SqlType::text:
      return "TEXT";
    case SqlType::blob:
      return "BLOB";
  }
  return "?";
}

// "a = :a and b = :b"
std::string conditions(const std::vector<std::string>& names) {
  std::vector<std::string> terms;
  for (const std::string& name : names) terms.push_back(format("{0} = :{0}", name));
  return joined(terms, " and ");
}

}  // namespace

std::string upsert_statement(std::string_view table, const std::vector<std::string>& keys,
                             const std::vector<std::string>& fixed,
                             const std::vector<std::string>& changing) {
  std::vector<std::string> names = keys, parameters, changes;
  names.insert(names.end(), fixed.begin(), fixed.end());
  names.insert(names.end(), changing.begin(), changing.end());
  for (const std::string& name : names) parameters.push_back(":" + name);
  for (const std::string& name : changing) changes.push_back(format("{0} = excluded.{0}", name));
  return format("insert into {} ({}) values ({}) on conflict ({}) do update set {}", table,
                joined(names, ", "), joined(parameters, ", "), joined(keys, ", "),
                joined(changes, ", "));
}

std::string select_statement(std::string_view table, const std::vector<std::string>& keys,
                             const std::vector<std::string>& names, std::string_view condition) {
  return format("select {} from {}{}{} order by {}", joined(names, ", "), table,
                condition.empty() ? "" : " where ", condition, joined(keys, ", "));
}

std::string delete_statement(std::string_view table, const std::vector<std::string>& keys) {
  return format("delete from {} where {}", table, conditions(keys));
}

Result<void> check_columns(Database& database, std::string_view table,
                           const std::vector<std::string>& names,
                           const std::vector<SqlType>& types) {
  std::map<std::string, std::string> found;
  for (auto& [name, type] : TRY(database.rows<std::string, std::string>(
           "select name, type from pragma_table_info(:table)", table)))
    found.emplace(name, type);
  const auto wrong = [&](const std::string& what) {
    return Error{Code::corrupt, format("{}: table {} {}; put back a copy of the file, or use the "
                                       "Lockstep that wrote it",
                                       database.name(), table, what)};
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto column = found.find(names[i]);
    if (column == found.end()) return wrong(format("has no column {}", names[i]));
    if (column->second != sql_name(types[i]))
      return wrong(format("has a column {} of type {}, which must be {}", names[i], column->second,
                          sql_name(types[i])));
    found.erase(column);
  }
  if (!found.empty())
    return wrong(format("has a column {} that this Lockstep does not know", found.begin()->first));
  return {};
}

}  // namespace lockstep::store::detail
