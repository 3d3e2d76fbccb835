// Table<Row>: the columns of a row's table, listed once. Insert, update, select and the check of
// the table in the file are derived from the list (store/tables.h has all of them).
//
//   template <>
//   struct Table<model::LimitRow> {
//     static constexpr std::string_view name = "limits";
//     static std::string place(const model::LimitRow& row) { return text(row.id); }
//     static constexpr auto columns() {
//       return std::tuple(key("name", [](auto& row) -> auto& { return row.id.name; }),
//                         column("devices", &model::LimitRow::devices));
//     }
//   };
//
// Integers, bool, Time and Duration (microseconds) are integers in the file, enums are their names,
// records and lists are JSON, std::optional is NULL without a value.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/result.h"
#include "platform/store/database.h"
#include "text/convert.h"

namespace lockstep::store {

// key: identifies the row. fixed: written with the row and never again. changing: all others.
enum class ColumnUse { key, fixed, changing };

template <class Access>
struct Column {
  std::string_view name;
  ColumnUse use;
  Access access;  // of a row: a member, or a function that returns a reference to one
  bool empty_is_null = false;
};

template <class Access>
constexpr Column<Access> key(std::string_view name, Access access) {
  return {name, ColumnUse::key, access};
}
template <class Access>
constexpr Column<Access> fixed(std::string_view name, Access access) {
  return {name, ColumnUse::fixed, access};
}
template <class Access>
constexpr Column<Access> column(std::string_view name, Access access) {
  return {name, ColumnUse::changing, access};
}
// The same column of text; an empty text is NULL, so that a unique index ignores it.
template <class Access>
constexpr Column<Access> empty_is_null(Column<Access> column) {
  column.empty_is_null = true;
  return column;
}

// Specialized for each row: name, columns() and place(row), the row's name in errors. The keys come
// first in columns(), so that place() knows them.
template <class Row>
struct Table;

namespace detail {

template <class T>
concept Direct =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Time>;

template <class T>
struct ColumnValue {
  static SqlValue to_sql(const T& value) {
    if constexpr (Direct<T>)
      return Sql<T>::to_sql(value);
    else if constexpr (std::is_same_v<T, Duration>)
      return Sql<std::int64_t>::to_sql(value.count());
    else if constexpr (NamedEnum<T>)
      return Sql<std::string_view>::to_sql(name_of(value));
    else
      return Sql<std::string>::to_sql(dump_json(to_json(value)));
  }
  static Result<T> from_sql(SqlValue& value) {
    if constexpr (Direct<T>)
      return Sql<T>::from_sql(value);
    else if constexpr (std::is_same_v<T, Duration>)
      return Duration(value.integer);
    else if constexpr (NamedEnum<T>)
      return parse_name<T>(value.text);
    else
      return from_json<T>(TRY(parse_json(value.text)));
  }
};

template <class T>
struct ColumnValue<std::optional<T>> {
  static SqlValue to_sql(const std::optional<T>& value) {
    SqlValue sql = ColumnValue<T>::to_sql(value.value_or(T{}));
    sql.null = !value;
    return sql;
  }
  static Result<std::optional<T>> from_sql(SqlValue& value) {
    if (value.null) return std::optional<T>();
    return std::optional<T>(TRY(ColumnValue<T>::from_sql(value)));
  }
};

template <class Row, class Access>
using ValueOf = std::remove_cvref_t<std::invoke_result_t<const Access&, Row&>>;

template <class Row, class Visit>
void for_each_column(Visit&& visit) {
  std::apply([&](const auto&... columns) { (visit(columns), ...); }, Table<Row>::columns());
}

template <class Row>
std::vector<std::string> column_names(std::initializer_list<ColumnUse> uses) {
  std::vector<std::string> names;
  for_each_column<Row>([&](const auto& column) {
    if (std::ranges::find(uses, column.use) != uses.end()) names.emplace_back(column.name);
  });
  return names;
}

template <class Row>
std::vector<SqlValue> values_of(const Row& row, std::initializer_list<ColumnUse> uses) {
  std::vector<SqlValue> values;
  for_each_column<Row>([&](const auto& column) {
    if (std::ranges::find(uses, column.use) == uses.end()) return;
    const auto& value = std::invoke(column.access, row);
    values.push_back(ColumnValue<std::decay_t<decltype(value)>>::to_sql(value));
    if (column.empty_is_null && values.back().text.empty()) values.back().null = true;
  });
  return values;
}

template <class Row>
std::vector<SqlType> types_of() {
  std::vector<SqlType> types;
  for (const SqlValue& value :
       values_of(Row{}, {ColumnUse::key, ColumnUse::fixed, ColumnUse::changing}))
    types.push_back(value.type);
  return types;
}

// An unreadable value was damaged or changed by hand; the error gives its place.
template <class Row>
Result<Row> row_from(std::vector<SqlValue>& values) {
  Row row;
  Result<void> done;
  std::size_t index = 0;
  for_each_column<Row>([&](const auto& column) {
    if (!done) return;
    auto& member = std::invoke(column.access, row);
    auto value = ColumnValue<std::decay_t<decltype(member)>>::from_sql(values[index++]);
    if (value)
      member = *std::move(value);
    else
      done =
          Error{Code::corrupt, format("table {}, {}, column {}: {}", Table<Row>::name,
                                      Table<Row>::place(row), column.name, value.error().message)};
  });
  TRY(std::move(done));
  return row;
}

std::string upsert_statement(std::string_view table, const std::vector<std::string>& keys,
                             const std::vector<std::string>& fixed,
                             const std::vector<std::string>& changing);
// By key; `condition` may be empty.
std::string select_statement(std::string_view table, const std::vector<std::string>& keys,
                             const std::vector<std::string>& names, std::string_view condition);
std::string delete_statement(std::string_view table, const std::vector<std::string>& keys);
Result<void> check_columns(Database& database, std::string_view table,
                           const std::vector<std::string>& names,
                           const std::vector<SqlType>& types);

}  // namespace detail

// Inserts the row, or changes the row with its key.
template <class Row>
Result<void> upsert(Database& database, const Row& row) {
  static const std::string sql =
      detail::upsert_statement(Table<Row>::name, detail::column_names<Row>({ColumnUse::key}),
                               detail::column_names<Row>({ColumnUse::fixed}),
                               detail::column_names<Row>({ColumnUse::changing}));
  std::vector<SqlValue> values = detail::values_of(row, {ColumnUse::key});
  for (ColumnUse use : {ColumnUse::fixed, ColumnUse::changing})
    for (SqlValue& value : detail::values_of(row, {use})) values.push_back(std::move(value));
  return database.run(sql, values, {}, {});
}

// No error if there is none.
template <class Row>
Result<void> remove(Database& database, const Row& row) {
  static const std::string sql =
      detail::delete_statement(Table<Row>::name, detail::column_names<Row>({ColumnUse::key}));
  return database.run(sql, detail::values_of(row, {ColumnUse::key}), {}, {});
}

// Rows of a table: a condition in SQL, and the values of its parameters.
struct Where {
  std::string_view condition{};  // empty: all rows
  std::vector<SqlValue> values{};
};

// Calls visit(Row&&) for each of these rows of the table, by key; its error, and a value that
// cannot be read, end the call.
template <class Row, class Visit>
Result<void> for_each_row(Database& database, const Where& where, Visit&& visit) {
  static const auto keys = detail::column_names<Row>({ColumnUse::key});
  static const auto names =
      detail::column_names<Row>({ColumnUse::key, ColumnUse::fixed, ColumnUse::changing});
  static const auto types = detail::types_of<Row>();
  return database.run(detail::select_statement(Table<Row>::name, keys, names, where.condition),
                      where.values, types, [&](std::vector<SqlValue>& values) -> Result<void> {
                        return visit(TRY(detail::row_from<Row>(values)));
                      });
}
template <class Row, class Visit>
Result<void> for_each_row(Database& database, Visit&& visit) {
  return for_each_row<Row>(database, Where{}, std::forward<Visit>(visit));
}

// The table of the file has these columns, of these types, and no others.
template <class Row>
Result<void> check_table(Database& database) {
  return detail::check_columns(
      database, Table<Row>::name,
      detail::column_names<Row>({ColumnUse::key, ColumnUse::fixed, ColumnUse::changing}),
      detail::types_of<Row>());
}

}  // namespace lockstep::store
