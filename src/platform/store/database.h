// Database: one SQLite file behind a small typed face, so that SOCI is seen by this folder alone.
//
//   for (auto& [number, name] : TRY(db.rows<std::int64_t, std::string>(
//            "select number, name from runs where project = :p", project))) ...
//   TRY(db.execute("update runs set name = :n where number = :i", name, number));
//
// Parameters are named for the reader and bound by position. Statements are prepared once and kept,
// so SQL must be a literal and its parameters' types always the same. Integers are 64 bits wide, a
// Time is one, std::optional stands for NULL. A NaN must not be bound (SQLite would make it NULL):
// bind an optional<double> and say what NULL means in that column.
//
// One thread; one process a file, by a lock on the file itself and one on the folder's `lock`.
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

namespace lockstep {

enum class SqlType { integer, real, text };

struct SqlValue {
  SqlType type = SqlType::integer;
  bool null = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};
};

namespace detail {

template <class T>
struct Sql {
  static SqlValue put(const T& value) {
    if constexpr (std::is_integral_v<T>)
      return {.type = SqlType::integer, .integer = static_cast<std::int64_t>(value)};
    else if constexpr (std::is_same_v<T, double>)
      return {.type = SqlType::real, .real = value};
    else
      return {.type = SqlType::text, .text = std::string(std::string_view(value))};
  }
  static T take(SqlValue& value) {
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
  static SqlValue put(Time time) { return Sql<std::int64_t>::put(time.time_since_epoch().count()); }
  static Time take(SqlValue& value) { return Time(Duration(value.integer)); }
};

template <class T>
struct Sql<std::optional<T>> {
  static SqlValue put(const std::optional<T>& value) {
    auto sql = Sql<T>::put(value.value_or(T{}));
    sql.null = !value;
    return sql;
  }
  static std::optional<T> take(SqlValue& value) {
    if (value.null) return std::nullopt;
    return Sql<T>::take(value);
  }
};

template <class... Columns, std::size_t... I>
std::tuple<Columns...> take_row(std::vector<SqlValue>& row, std::index_sequence<I...>) {
  return {Sql<Columns>::take(row[I])...};
}

}  // namespace detail

class Database {
 public:
  // Opens or creates the file, locks it and `lock` beside it, and brings the tables up to date. A
  // file that a newer Lockstep wrote, or that is no store, is refused and stays untouched; so is
  // one that another daemon uses.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& path);
  // For tests and experiments: gone with the object.
  static Result<std::unique_ptr<Database>> in_memory();
  ~Database();

  template <class... Args>
  Result<void> execute(std::string_view sql, const Args&... args) {
    return run(sql, {detail::Sql<std::decay_t<Args>>::put(args)...}, {}, {});
  }

  // All rows of the answer; bound it by a LIMIT where it could be long.
  template <class... Columns, class... Args>
  Result<std::vector<std::tuple<Columns...>>> rows(std::string_view sql, const Args&... args) {
    std::vector<std::tuple<Columns...>> rows;
    TRY(run(sql, {detail::Sql<std::decay_t<Args>>::put(args)...},
            {detail::Sql<Columns>::put({}).type...}, [&](std::vector<SqlValue>& row) {
              rows.push_back(
                  detail::take_row<Columns...>(row, std::index_sequence_for<Columns...>()));
            }));
    return rows;
  }

  // Whether the file that is open still has its name: it may be removed, or another may be there.
  enum class Place { same, gone, taken };
  Place place() const;
  Result<void> check_place() const;  // an error that says what to do, unless it is the same

  // Runs work() between begin and commit; an error undoes all of it. Not to be nested. A disk that
  // is full is Code::exhausted; once there is room again the same call succeeds. Refused while the
  // file has lost its name: what it holds would be lost with it.
  Result<void> transaction(const std::function<Result<void>()>& work);

  // For messages: the file's path.
  const std::string& name() const;
  // Since it was opened: what a call costs, for tests and measurements.
  std::int64_t statements_run() const;

  // What the file holds and nothing uses: new rows take it up first.
  Result<Bytes> unused();
  // Makes the file smaller by up to so many unused pages, some ten microseconds each. Files that
  // were begun by another program keep theirs.
  Result<void> give_back(std::int64_t pages);

 private:
  struct Impl;
  explicit Database(std::unique_ptr<Impl> impl);

  static Result<std::unique_ptr<Database>> connect(const std::string& file, std::string name);
  Result<void> set_up();
  Result<void> run(std::string_view sql, std::vector<SqlValue> args,
                   const std::vector<SqlType>& columns,
                   const std::function<void(std::vector<SqlValue>&)>& on_row);

  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
