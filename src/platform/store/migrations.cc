#include "platform/store/migrations.h"

#include <array>
#include <span>
#include <string_view>

#include "platform/store/database.h"

namespace lockstep {
namespace {

// Times are microseconds since 1970 in UTC, durations microseconds. Names of states are those of
// platform/core/model.
constexpr std::string_view kRunsAndAttempts[] = {
    R"(create table runs (
      project text not null, number integer not null,
      spec text not null,    -- JSON, as submitted
      origin text not null,  -- JSON
      state text not null, reason text not null,
      version integer not null, epoch integer not null,
      submitted integer not null, started integer, ended integer,
      charged integer not null, user_exits integer not null, losses integer not null,
      stop_requested integer not null, not_before integer,
      primary key (project, number)
    ) strict, without rowid)",
    R"(create table attempts (
      project text not null, number integer not null, epoch integer not null,
      state text not null, cause text not null, reason text not null,
      created integer not null, started integer, draining integer, ended integer,
      primary key (project, number, epoch),
      foreign key (project, number) references runs
    ) strict, without rowid)",
    R"(create table nodes (
      project text not null, number integer not null, epoch integer not null,
      node integer not null,
      host text not null,
      devices text not null,  -- JSON, indices within the host
      state text not null, address text not null,
      master_port integer not null, rendezvous_port integer not null,
      agent_pid integer not null, message text not null,
      last_heard integer not null, killed integer,
      primary key (project, number, epoch, node),
      foreign key (project, number, epoch) references attempts
    ) strict, without rowid)",
    R"(create table ranks (
      project text not null, number integer not null, epoch integer not null,
      node integer not null, local_rank integer not null,
      rank integer not null, pid integer not null,
      state text not null, code integer not null, signalled_by_us integer not null,
      ended integer,
      primary key (project, number, epoch, node, local_rank),
      foreign key (project, number, epoch, node) references nodes
    ) strict, without rowid)",
};

constexpr std::string_view kInsight[] = {
    // Up to which item each node's spool has been stored.
    R"(create table spools (
      project text not null, number integer not null, epoch integer not null,
      node integer not null, sequence integer not null,
      primary key (project, number, epoch, node)
    ) strict, without rowid)",
    // autoincrement: a cursor that a reader holds never comes to mean another line.
    R"(create table log_lines (
      cursor integer primary key autoincrement,
      project text not null, number integer not null, epoch integer not null,
      rank integer not null, time integer not null,
      line text not null
    ) strict)",
    "create index log_lines_of_run on log_lines (project, number, cursor)",
    // epoch to value: the series' latest point. A value of NULL is NaN, here and in points.
    R"(create table series (
      id integer primary key,
      project text not null, number integer not null, name text not null, rank integer not null,
      epoch integer not null, step integer not null, time integer not null, value real,
      unique (project, number, name, rank)
    ) strict)",
    R"(create table points (
      series integer not null references series, step integer not null,
      epoch integer not null, time integer not null, value real,
      primary key (series, step)
    ) strict, without rowid)",
    R"(create table progress (
      project text not null, number integer not null,
      epoch integer not null, step integer not null, steps integer not null, time integer not null,
      primary key (project, number)
    ) strict, without rowid)",
    R"(create table checkpoints (
      project text not null, number integer not null, step integer not null,
      epoch integer not null, path text not null, time integer not null,
      primary key (project, number, step)
    ) strict, without rowid)",
};

// What a hang is seen by, and the place in the queue, which a resumed run takes anew.
constexpr std::string_view kHangAndResume[] = {
    "alter table ranks add column step integer not null default -1",
    "alter table ranks add column stalled_since integer",
    "alter table ranks add column activity text not null default 'unknown'",
    "alter table runs add column queued integer not null default 0",
    "update runs set queued = submitted",
};

constexpr std::array<std::span<const std::string_view>, 3> kSteps = {kRunsAndAttempts, kInsight,
                                                                     kHangAndResume};

Result<bool> has_table(Database& database, std::string_view name) {
  const auto found = TRY(database.rows<std::string>(
      "select name from sqlite_master where type = 'table' and name = :n", name));
  return !found.empty();
}

Result<void> take_step(Database& database, int number) {
  for (auto statement : kSteps[static_cast<std::size_t>(number - 1)])
    TRY(database.execute(statement));
  return database.execute("update schema_version set version = :v", number);
}

}  // namespace

int schema_version_known() { return static_cast<int>(kSteps.size()); }

Result<int> schema_version_of(Database& database) {
  if (TRY(has_table(database, "schema_version"))) {
    const auto version = TRY(database.rows<int>("select version from schema_version"));
    if (version.size() == 1) return std::get<0>(version[0]);
    return Error{Code::corrupt, "its table schema_version must have one row"};
  }
  if (TRY(database.rows<std::string>("select name from sqlite_master limit 1")).empty()) return 0;
  return Error{Code::invalid, "it is a database, but not one of Lockstep"};
}

Result<void> migrate(Database& database, int version) {
  if (version == 0)
    TRY(database.transaction([&]() -> Result<void> {
      TRY(database.execute("create table schema_version (version integer not null) strict"));
      return database.execute("insert into schema_version values (0)");
    }));
  for (int number = version + 1; number <= schema_version_known(); ++number)
    TRY(database.transaction([&] { return take_step(database, number); }));
  return {};
}

}  // namespace lockstep
