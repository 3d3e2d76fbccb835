// Reads of runs what a query asks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/store/run_query.h"

namespace lockstep::store::detail {

struct ReadRun {
  model::RunId run{};
  std::string state{};
  Time submitted{};
  run_query::RunValues values{};
};

class RunReader {
 public:
  // Both outlive this.
  RunReader(Database& database, const RunSelection& selection);

  // Those that the store has and the filter selects, in the order of the ids.
  Result<std::vector<ReadRun>> read(const std::vector<model::RunId>& ids);

 private:
  using Row = std::vector<SqlValue>;

  std::size_t add_column(std::string sql, SqlType type);
  void add_name(const std::string& name);
  void add_row_field(const std::string& name, std::string sql, SqlType type);
  void add_use(const std::string& name, std::string column, double unit,
               double LiveUse::* of_live_run);
  std::size_t add_stored_value(const std::string& name);
  void add_setting(const std::string& name);
  void add_reason();
  void add_words();
  void add_tags();
  // As the caller may read it.
  std::string reason_of(const model::RunId& run, const std::string& stored) const;

  Database& database_;
  const RunSelection& selection_;
  std::vector<std::string> columns_{};
  std::vector<SqlType> types_{};
  std::string joins_{};
  std::vector<SqlValue> join_values_{};
  std::vector<std::function<void(ReadRun&, Row&)>> setters_{};
  int tables_ = 0;  // that are joined, for their names
};

}  // namespace lockstep::store::detail
