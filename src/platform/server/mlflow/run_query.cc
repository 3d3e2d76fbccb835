#include "platform/server/mlflow/run_query.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "platform/server/mlflow/run_name.h"

namespace lockstep::mlflow {
namespace {

using store::SqlType;
using store::SqlValue;

// The status of a run that a client has not ended is that of Lockstep.
constexpr std::string_view kStatus =
    "case when m.status is not null and (r.ended is null or m.status <> 'RUNNING') then m.status "
    "when r.state = 'succeeded' then 'FINISHED' when r.state = 'running' then 'RUNNING' "
    "when r.state in ('queued', 'starting') then 'SCHEDULED' "
    "when r.state = 'cancelled' then 'KILLED' else 'FAILED' end";
constexpr std::string_view kName =
    "coalesce(nullif(m.name, ''), nullif(r.spec ->> 'name', ''), '')";
constexpr std::string_view kOwner = "(r.origin ->> 'user')";
constexpr std::string_view kStart = "coalesce(m.start, r.submitted / 1000)";
constexpr std::string_view kEnd = "coalesce(m.finish, r.ended / 1000)";
// As run_name() writes it.
constexpr std::string_view kId =
    "(replace(replace(r.project, '_', '__'), '.', '_d') || '-' || r.number)";

std::string select_runs() {
  return format(
      "select r.project, r.number, r.generation, r.epoch, {}, coalesce(m.experiment, 0), {}, {}, "
      "{}, {}, coalesce(m.deleted, 0), coalesce(m.made, 0), r.ended is not null, coalesce(r.origin "
      "->> 'git_commit', ''), coalesce(r.origin ->> 'git_dirty', 0), coalesce(m.parent, '') "
      "from runs r left join mlflow_runs m on m.project = r.project and m.number = r.number",
      kOwner, kName, kStatus, kStart, kEnd);
}

SqlValue text_value(std::string text) { return {.type = SqlType::text, .text = std::move(text)}; }
SqlValue integer_value(std::int64_t value) { return {.type = SqlType::integer, .integer = value}; }

std::string_view sql_operator(Operator is) {
  switch (is) {
    case Operator::equal:
      return "=";
    case Operator::unequal:
      return "<>";
    case Operator::less:
      return "<";
    case Operator::at_most:
      return "<=";
    case Operator::greater:
      return ">";
    case Operator::at_least:
      return ">=";
    case Operator::like:
      return "glob";  // SQLite's LIKE has no case
    case Operator::ilike:
      return "like";
    default:
      break;
  }
  LS_CHECK(false, "operator {}", static_cast<int>(is));
  return "";
}

// The pattern of LIKE as one of GLOB: % is *, _ is ?.
std::string glob_of(std::string_view like) {
  std::string glob;
  for (const char letter : like) {
    if (letter == '%')
      glob += '*';
    else if (letter == '_')
      glob += '?';
    else if (letter == '*' || letter == '?' || letter == '[')
      glob += format("[{}]", letter);
    else
      glob += letter;
  }
  return glob;
}

// Builds the text of a statement with a mark for each value.
class Builder {
 public:
  explicit Builder(std::string sql) : query_{.sql = std::move(sql), .values = {}} {}

  Builder& add(std::string_view sql) {
    query_.sql += sql;
    return *this;
  }
  Builder& bind(SqlValue value) {
    query_.sql += format(" :v{} ", query_.values.size());
    query_.values.push_back(std::move(value));
    return *this;
  }
  void add(const Comparison& comparison);
  void add(const Ordering& ordering);
  RunQuery take() { return std::move(query_); }

 private:
  void add_value(const Comparison& comparison);
  void add_list(const std::vector<std::string>& texts);
  void add_source(const Column& column, std::string_view selected);

  RunQuery query_;
};

std::string_view attribute_sql(const std::string& key) {
  if (key == "run_id") return kId;
  if (key == "run_name") return kName;
  if (key == "status") return kStatus;
  if (key == "user_id") return kOwner;
  if (key == "start_time") return kStart;
  if (key == "end_time") return kEnd;
  return "''";  // artifact_uri
}

void Builder::add_list(const std::vector<std::string>& texts) {
  add("(");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) add(",");
    bind(text_value(texts[i]));
  }
  add(")");
}

void Builder::add_value(const Comparison& comparison) {
  if (comparison.is == Operator::in || comparison.is == Operator::not_in) {
    add(comparison.is == Operator::in ? " in " : " not in ");
    return add_list(comparison.texts);
  }
  add(format(" {} ", sql_operator(comparison.is)));
  if (is_number(comparison.column))
    bind({.type = SqlType::real, .real = comparison.number});
  else if (comparison.is == Operator::like)
    bind(text_value(glob_of(comparison.texts.front())));
  else
    bind(text_value(comparison.texts.front()));
}

// Its row of the run, without the closing parenthesis.
void Builder::add_source(const Column& column, std::string_view selected) {
  const bool is_metric = column.entity == Entity::metric;
  add(format("(select {} from {} x where x.project = r.project and x.number = r.number and ",
             selected, is_metric ? "latest_metrics" : "mlflow_values"));
  if (!is_metric)
    add(column.entity == Entity::param ? "x.kind = 'param' and " : "x.kind = 'tag' and ");
  add("x.name = ").bind(text_value(column.key));
}

void Builder::add(const Comparison& comparison) {
  add(" and ");
  if (comparison.column.entity == Entity::attribute) {
    add(format("({})", attribute_sql(comparison.column.key)));
    return add_value(comparison);
  }
  const bool is_absent = comparison.is == Operator::is_null;
  add(is_absent ? "not exists " : "exists ");
  add_source(comparison.column, "1");
  if (!is_absent && comparison.is != Operator::is_not_null) {
    add(" and x.value ");
    add_value(comparison);
  }
  add(")");
}

// Runs without the value are the last.
void Builder::add(const Ordering& ordering) {
  if (ordering.column.entity == Entity::attribute) {
    add(format("({})", attribute_sql(ordering.column.key)));
  } else {
    add_source(ordering.column, "x.value");
    add(")");
  }
  add(ordering.ascending ? " asc nulls last, " : " desc nulls last, ");
}

RunRow row_from(std::vector<SqlValue>& row) {
  RunRow run;
  run.id = {std::move(row[0].text), row[1].integer};
  run.generation = std::move(row[2].text);
  run.epoch = row[3].integer;
  run.owner = std::move(row[4].text);
  run.experiment = row[5].integer;
  run.name = std::move(row[6].text);
  run.status = std::move(row[7].text);
  run.start = row[8].integer;
  if (!row[9].null) run.end = row[9].integer;
  run.deleted = row[10].integer != 0;
  run.made_by_client = row[11].integer != 0;
  run.ended = row[12].integer != 0;
  run.git_commit = std::move(row[13].text);
  run.git_dirty = row[14].integer != 0;
  run.parent = std::move(row[15].text);
  return run;
}

}  // namespace

RunQuery run_query(const model::RunId& run) {
  Builder query(select_runs());
  query.add(" where r.project = ").bind(text_value(run.project));
  query.add("and r.number = ").bind(integer_value(run.number));
  return query.take();
}

RunQuery run_query(const RunSearch& search) {
  Builder query(select_runs());
  query.add(" where r.project = ").bind(text_value(search.project));
  query.add("and coalesce(m.experiment, 0) in (");
  for (std::size_t i = 0; i < search.experiments.size(); ++i) {
    if (i > 0) query.add(",");
    query.bind(integer_value(search.experiments[i]));
  }
  query.add(")");
  if (search.deleted)
    query.add(*search.deleted ? " and m.deleted = 1" : " and coalesce(m.deleted, 0) = 0");
  for (const Comparison& comparison : search.filter) query.add(comparison);
  query.add(" order by ");
  for (const Ordering& ordering : search.order) query.add(ordering);
  query.add(format("{} desc, r.number desc limit ", kStart)).bind(integer_value(search.limit));
  query.add("offset ").bind(integer_value(search.offset));
  return query.take();
}

Result<std::vector<RunRow>> run_rows(store::Database& database, const RunQuery& query) {
  using enum SqlType;
  const std::vector<SqlType> types = {text,    integer, text,    integer, text,    integer,
                                      text,    text,    integer, integer, integer, integer,
                                      integer, text,    integer, text};
  std::vector<RunRow> runs;
  TRY(database.run(query.sql, query.values, types, [&](std::vector<SqlValue>& row) {
    runs.push_back(row_from(row));
    return Result<void>();
  }));
  return runs;
}

}  // namespace lockstep::mlflow
