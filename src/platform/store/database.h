// Database: one SQLite file behind a small typed interface, so that only this folder depends on
// SQLite.
//
//   for (auto& [number, name] : TRY(db.rows<std::int64_t, std::string>(
//            "select number, name from runs where project = :p", project))) ...
//   TRY(db.execute("update runs set name = :n where number = :i", name, number));
//
// Parameters have names for the reader and are bound by position. Statements are prepared once and
// kept, so SQL must not contain values. Integers are 64 bits wide, a Time
// is one, std::optional stands for NULL. Never bind a NaN (SQLite would store NULL): bind an
// optional<double> and define the meaning of NULL in that column.
//
// One thread; one process per file, by a lock on the file itself and one on the folder's `lock`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::store {

enum class SqlType { integer, real, text, blob };

// Bytes that are not text.
struct Blob {
  std::string bytes{};
};

struct SqlValue {
  SqlType type = SqlType::integer;
  bool null = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};  // the bytes of a blob, too
};

// Called for each row of a result; an error ends the statement.
using SqlRow = std::function<Result<void>(std::vector<SqlValue>&)>;

namespace detail {

template <class T>
struct Sql {
  static SqlValue to_sql(const T& value) {
    if constexpr (std::is_integral_v<T>)
      return {.type = SqlType::integer, .integer = static_cast<std::int64_t>(value)};
    else if constexpr (std::is_same_v<T, double>)
      return {.type = SqlType::real, .real = value};
    else
      return {.type = SqlType::text, .text = std::string(std::string_view(value))};
  }
  static T from_sql(SqlValue& value) {
    if constexpr (std::is_same_v<T, bool>)
      return value.integer != 0;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(value.integer);
    else if constexpr (std::is_same_v<T, double>)
      return value.real;
    else
      return std::move(value.text);
  }
};

// Microseconds since 1970, UTC.
template <>
struct Sql<Time> {
  static SqlValue to_sql(Time time) {
    return Sql<std::int64_t>::to_sql(time.time_since_epoch().count());
  }
  static Time from_sql(SqlValue& value) { return Time(Duration(value.integer)); }
};

template <>
struct Sql<Blob> {
  static SqlValue to_sql(const Blob& blob) { return {.type = SqlType::blob, .text = blob.bytes}; }
  static Blob from_sql(SqlValue& value) { return {std::move(value.text)}; }
};

template <class T>
struct Sql<std::optional<T>> {
  static SqlValue to_sql(const std::optional<T>& value) {
    auto sql = Sql<T>::to_sql(value.value_or(T{}));
    sql.null = !value;
    return sql;
  }
  static std::optional<T> from_sql(SqlValue& value) {
    if (value.null) return std::nullopt;
    return Sql<T>::from_sql(value);
  }
};

template <class... Columns, std::size_t... I>
std::tuple<Columns...> row_from_sql(std::vector<SqlValue>& row, std::index_sequence<I...>) {
  return {Sql<Columns>::from_sql(row[I])...};
}

}  // namespace detail

class Database {
 public:
  // Opens or creates the file, locks it and `lock` beside it, and updates the tables. Fails without
  // a change for a file of a newer Lockstep, a file that is no store, and one that another daemon
  // uses.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& path);
  // For tests and experiments: destroyed with the object.
  static Result<std::unique_ptr<Database>> in_memory();
  ~Database();

  template <class... Args>
  Result<void> execute(std::string_view sql, const Args&... args) {
    return run(sql, {detail::Sql<std::decay_t<Args>>::to_sql(args)...}, {}, {});
  }

  // All rows of the result; use LIMIT if it could be long.
  template <class... Columns, class... Args>
  Result<std::vector<std::tuple<Columns...>>> rows(std::string_view sql, const Args&... args) {
    std::vector<std::tuple<Columns...>> rows;
    TRY(run(sql, {detail::Sql<std::decay_t<Args>>::to_sql(args)...},
            {detail::Sql<Columns>::to_sql({}).type...}, [&](std::vector<SqlValue>& row) {
              rows.push_back(
                  detail::row_from_sql<Columns...>(row, std::index_sequence_for<Columns...>()));
              return Result<void>();
            }));
    return rows;
  }

  // The same with values and types that a program computes (store/table.h). Without `on_row` the
  // rows of the result are dropped.
  Result<void> run(std::string_view sql, const std::vector<SqlValue>& args,
                   const std::vector<SqlType>& columns, const SqlRow& on_row);

  // The state of the open file's name: it may have been removed or replaced by another file.
  enum class FileStatus { in_place, missing, replaced };
  FileStatus file_status() const;
  Result<void> check_file_status() const;  // an error that says what to do, unless in_place

  // Runs work() between begin and commit; an error undoes all of it. Must not be nested. A full
  // disk is Code::exhausted; once there is space again the same call succeeds. Fails while the file
  // has lost its name, because its content would be lost.
  Result<void> transaction(const std::function<Result<void>()>& work);

  // The file's path, for messages.
  const std::string& name() const;
  // Since it was opened: the cost of a call, for tests and measurements.
  std::int64_t statements_run() const;

  // Bytes of the file with rows in them, and unused ones, which new rows use first.
  Result<Bytes> used();
  Result<Bytes> unused();
  // Space of the file system that has the file; none in memory, and where it is not known.
  struct DiskSpace {
    Bytes free, total;
  };
  std::optional<DiskSpace> disk_space() const;
  // Releases up to so many unused pages of the file, some ten microseconds each. Files that another
  // program created cannot shrink.
  Result<void> shrink(std::int64_t pages);

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);

  static Result<std::unique_ptr<Database>> connect(const std::string& file, std::string name);
  Result<void> set_up();

  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::store
