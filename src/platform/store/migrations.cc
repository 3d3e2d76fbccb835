#include "platform/store/migrations.h"

#include <array>
#include <span>
#include <string_view>

#include "platform/store/database.h"

namespace lockstep::store {
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
    // autoincrement: a cursor that a reader holds is never reused for another line.
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

// Signs of a hang, and the place in the queue, which changes when a run is resumed.
constexpr std::string_view kHangAndResume[] = {
    "alter table ranks add column step integer not null default -1",
    "alter table ranks add column stalled_since integer",
    "alter table ranks add column activity text not null default 'unknown'",
    "alter table runs add column queued integer not null default 0",
    "update runs set queued = submitted",
};

// Log lines in chunks instead of one per row, counters of each run, and summaries of the points.
constexpr std::string_view kBounds[] = {
    R"(create table tallies (
      id integer primary key,
      project text not null, number integer not null,
      next integer not null default 1,     -- the cursor of the next line
      bytes integer not null default 0,    -- of the lines that are kept
      cut integer not null default 0,      -- lines that were too many
      expired integer not null default 0,  -- lines that were too old
      series integer not null default 0,
      refused integer not null default 0,  -- values of metrics
      unique (project, number)
    ) strict)",
    R"(create table log_chunks (
      id integer primary key,
      tally integer not null references tallies,
      first integer not null,  -- the cursor of its first line
      lines integer not null, bytes integer not null,
      epoch integer not null, rank integer not null, time integer not null,
      text text not null       -- with line ends between the lines
    ) strict)",
    "create unique index log_chunks_by_cursor on log_chunks (tally, first)",
    "create index log_chunks_by_rank on log_chunks (tally, rank, first)",
    R"(insert into tallies (project, number, next, bytes)
      select project, number, max(cursor) + 1, sum(length(cast(line as blob)) + 64)
      from log_lines group by project, number)",
    R"(insert or ignore into tallies (project, number)
      select distinct project, number from series)",
    R"(insert into log_chunks (tally, first, lines, bytes, epoch, rank, time, text)
      select t.id, l.cursor, 1, length(cast(l.line as blob)) + 64, l.epoch, l.rank, l.time, l.line
      from log_lines l join tallies t on t.project = l.project and t.number = l.number)",
    "drop table log_lines",
    // For steps of a series below `summarized`, blocks of 16, 256, 4,096 and 65,536 steps have a
    // row in `summaries`: levels 1 to 4. `pending`: points after them.
    "alter table series add column summarized integer",
    "alter table series add column pending integer not null default 0",
    "update series set pending = (select count(*) from points where series = series.id)",
    "create index series_behind on series (id) where pending >= 64",
    R"(update tallies set series = (select count(*) from series s
      where s.project = tallies.project and s.number = tallies.number))",
    R"(create table summaries (
      series integer not null references series,
      level integer not null,
      place integer not null,  -- the block's number: its first step divided by its length
      count integer not null,
      first_step integer not null, first_time integer not null, first_value real,
      last_step integer not null, last_time integer not null, last_value real,
      min_step integer, min_time integer, min_value real,
      max_step integer, max_time integer, max_value real,
      nan_step integer, nan_time integer,
      primary key (series, level, place)
    ) strict, without rowid)",
};

// The request id of a submission: a repeated call gets the same run. NULL: none.
constexpr std::string_view kRequests[] = {
    "alter table runs add column request_id text",
    "create unique index runs_by_request on runs (request_id) where request_id is not null",
};

// Requests of users and operators for waiting runs, hosts and limits.
constexpr std::string_view kControl[] = {
    "alter table runs add column priority integer not null default 0",
    "alter table runs add column held text",  // NULL: not held
    "alter table runs add column awaits_others integer not null default 0",
    "alter table runs add column audit text not null default '[]'",  // JSON, oldest first
    R"(create table hosts (
      id text primary key not null,
      state text not null, reason text not null, since integer not null,
      audit text not null,  -- JSON, oldest first
      losses text not null  -- likewise
    ) strict, without rowid)",
    R"(create table limits (
      scope text not null, name text not null,
      devices integer,  -- NULL: no longer limited
      primary key (scope, name)
    ) strict, without rowid)",
};

// Preemptions for other runs.
constexpr std::string_view kPreemptions[] = {
    "alter table runs add column moves integer not null default 0",
    "alter table attempts add column saved integer",
    "alter table attempts add column moves_to text not null default '[]'",  // JSON
};

// The used fair share of the run's project at submission.
constexpr std::string_view kShares[] = {
    "alter table runs add column share integer not null default 100",
};

// Events of a run, as its ranks and agents reported them, counted from 1.
constexpr std::string_view kEvents[] = {
    R"(create table events (
      project text not null, number integer not null, event integer not null,
      epoch integer not null, rank integer not null, step integer not null, time integer not null,
      text text not null,
      primary key (project, number, event)
    ) strict, without rowid)",
};

// Projects with a larger fair share.
constexpr std::string_view kWeights[] = {
    "alter table limits add column weight integer not null default 1",
};

// Why a rank had to end, and since when it is stopped or blocked.
constexpr std::string_view kFaults[] = {
    "alter table ranks add column activity_since integer",
    "alter table ranks add column fault text not null default 'none'",
    "alter table ranks add column fault_rank integer not null default -1",
    "alter table ranks add column fault_text text not null default ''",
    "alter table ranks add column restarts integer not null default 0",
    "alter table attempts add column saved_step integer",
};

// The identity of this store, and the generation of each run and attempt; older ones have none.
constexpr std::string_view kGenerations[] = {
    R"(create table store (
      place integer primary key check (place = 1),
      generation text not null,
      minted integer not null  -- runs and attempts that were made under it
    ) strict)",
    "alter table runs add column generation text not null default ''",
    "alter table attempts add column generation text not null default ''",
};

// The wall clock relative to the machine's steady clock, when it was last read.
constexpr std::string_view kClock[] = {
    "create table clock (only integer primary key check (only = 1), boot text not null, "
    "zero integer not null) strict",
};

// Why an agent ended its ranks without a command.
constexpr std::string_view kStopReasons[] = {
    "alter table nodes add column stop_reason text not null default 'none'",
};

// Nodes of other stores with a stop request, by their full names, and since when.
constexpr std::string_view kOrphans[] = {
    "create table orphans (node text primary key not null, stopping integer not null) strict, "
    "without rowid",
};

// Columns have the names of their fields.
constexpr std::string_view kFieldNames[] = {
    "alter table runs rename column charged to time_used",
    "alter table runs rename column awaits_others to awaits_dependencies",
    "alter table runs rename column share to fair_share_used",
    "alter table attempts rename column saved to last_checkpoint",
    "alter table attempts rename column saved_step to last_checkpoint_step",
    "alter table attempts rename column moves_to to move_destination",
    "alter table nodes rename column last_heard to last_heartbeat",
    "alter table nodes rename column killed to kill_requested_at",
    "alter table ranks rename column signalled_by_us to signalled_by_agent",
    "alter table store rename column place to only",
    "alter table tallies rename to run_counters",
    "alter table log_chunks rename column tally to counters",
    "alter table store rename column minted to issued",
    "alter table orphans rename column stopping to stop_requested_at",
};

// Ended runs are read when asked for, cleaned up once, and removed. `ended` is NULL for open runs.
constexpr std::string_view kEndedRuns[] = {
    "create index runs_by_end on runs (ended)",
    "create index runs_by_submission on runs (submitted, number, state)",
    // The janitor's finished work for the run that ended then.
    R"(create table cleaned_runs (
      project text not null, number integer not null,
      ended integer not null, level integer not null,
      primary key (project, number)
    ) strict, without rowid)",
    R"(create table removed_runs (
      project text not null, number integer not null,
      generation text not null,
      day integer not null,             -- of its end, since 1970
      device_seconds integer not null,  -- that it used
      nodes text not null,              -- JSON, their full names
      pending integer not null,         -- its files and reports are not all removed yet
      primary key (project, number)
    ) strict, without rowid)",
    "create index removed_runs_pending on removed_runs (project, number) where pending",
    // Points stored since they were last removed, and points that were removed.
    "alter table run_counters add column points integer not null default 0",
    "alter table run_counters add column points_removed integer not null default 0",
    "update run_counters set points = series",
    "create index run_counters_with_lines on run_counters (id) where bytes > 0",
    "create index run_counters_with_points on run_counters (id) where points > 0",
    "alter table series add column removed integer not null default 0",
};

constexpr std::string_view kUnreachable[] = {
    "alter table nodes add column unreachable_since integer",
};

constexpr std::string_view kAgents[] = {
    "alter table nodes add column agents text not null default '[]'",
};

// Which engine starts an attempt, and what that engine says of its nodes.
constexpr std::string_view kEngines[] = {
    "alter table attempts add column engine text not null default ''",
    "alter table attempts add column admitted integer",
    "alter table nodes add column handle text not null default ''",
    "alter table nodes add column incarnation text not null default ''",
    "alter table nodes add column pending_reason text not null default ''",
    "alter table hosts add column unavailable text not null default ''",
};

// Hosts that join a cluster of own machines; `facts` is JSON.
constexpr std::string_view kJoinedHosts[] = {
    "alter table hosts add column pod text not null default ''",
    "alter table hosts add column facts text",
    "alter table hosts add column next_facts text",
    "alter table hosts add column credential integer not null default 0",
    "alter table hosts add column claim text not null default ''",
    "alter table hosts add column machine text not null default ''",
    "alter table hosts add column joined integer not null default 0",
};

// Nodes whose attempts ended without them; `devices` is JSON.
constexpr std::string_view kGivenUpNodes[] = {
    R"(create table given_up_nodes (
      project text not null, number integer not null, epoch integer not null,
      node integer not null,
      generation text not null,
      engine text not null,
      devices text not null,
      since integer not null,
      last_call integer not null,
      kill_requested_at integer,
      primary key (project, number, epoch, node)
    ) strict, without rowid)",
};

constexpr std::string_view kLeases[] = {
    "alter table attempts add column lease integer",
    "alter table given_up_nodes add column gone_after integer",
};

constexpr std::string_view kLastProgress[] = {
    "alter table nodes add column last_progress integer",
};

// The measurements between hosts that joined, as JSON.
constexpr std::string_view kMeasured[] = {
    R"(create table measured (
      only integer primary key check (only = 1),
      measured text not null
    ) strict)",
};

// As JSON.
constexpr std::string_view kLabels[] = {
    "alter table hosts add column labels text not null default '{}'",
};

// 1: Lockstep has chosen the hosts of the attempt. 0: its engine does.
constexpr std::string_view kPlaced[] = {
    "alter table attempts add column is_placed integer not null default 1",
};

// Users and their rights. The names of users and projects that were removed stay in the other
// tables. `secret_hash` is of random bytes, and `password_hash` has its salt.
constexpr std::string_view kIdentity[] = {
    R"(create table users (
      name text primary key,
      kind text not null, project text not null,
      admin integer not null, disabled integer not null,
      password_hash text not null, oidc_subject text not null,
      created integer not null, removed integer
    ) strict, without rowid)",
    R"(create table projects (
      name text primary key, owner text not null, created integer not null
    ) strict, without rowid)",
    R"(create table members (
      project text not null, user text not null, role text not null,
      primary key (project, user)
    ) strict, without rowid)",
    R"(create table tokens (
      id text primary key,
      secret_hash text not null,
      user text not null, name text not null,
      project text not null, role text,
      created integer not null, ends integer, last_used integer
    ) strict, without rowid)",
    R"(create table audit (
      id integer primary key autoincrement,
      time integer not null,
      user text not null, token text not null, address text not null,
      action text not null, target text not null, project text not null,
      before text not null, after text not null, refused integer not null
    ) strict)",
    "create index audit_by_user on audit (user, id)",
    "create index audit_by_project on audit (project, id)",
    R"(create trigger audit_stays before update on audit
      begin select raise(abort, 'records of the audit are never changed'); end)",
    R"(create trigger audit_is_kept before delete on audit
      begin select raise(abort, 'records of the audit are never removed'); end)",
    R"(create trigger audit_is_not_replaced before insert on audit
      when exists (select 1 from audit where id = new.id)
      begin select raise(abort, 'records of the audit are never replaced'); end)",
};

// Values that runs use, encrypted under the daemon's key.
constexpr std::string_view kSecrets[] = {
    R"(create table secrets (
      project text not null, name text not null,
      sealed text not null, set_by text not null, set_at integer not null,
      primary key (project, name)
    ) strict, without rowid)",
};

// External runs: the launcher of their ranks, and the name of its job.
constexpr std::string_view kExternalRuns[] = {
    "alter table runs add column launcher text not null default ''",
    "alter table runs add column job text not null default ''",
};

constexpr std::string_view kBudgets[] = {
    R"(create table budgets (
      project text primary key,
      limited integer not null,
      available integer not null, held integer not null, spent integer not null,
      grants text not null  -- JSON, the first to end in front
    ) strict, without rowid)",
    R"(create table rates (
      kind text primary key, weight_percent integer not null
    ) strict, without rowid)",
    R"(create table postings (
      id integer primary key autoincrement,
      kind text not null,
      from_account text not null, from_project text not null,
      to_account text not null, to_project text not null,
      amount integer not null,
      time integer not null,
      by text not null, reason text not null, attempt text not null
    ) strict)",
    "create index postings_from on postings (from_project, id)",
    "create index postings_to on postings (to_project, id)",
    R"(create table usage (
      id integer primary key autoincrement,
      run text not null, epoch integer not null,
      project text not null, user text not null, kind text not null,
      devices integer not null, starts integer not null,
      begins integer not null, ends integer not null,
      used integer not null, charged integer not null
    ) strict)",
    "create index usage_by_end on usage (ends, project, user, kind, starts, used, charged)",
    R"(create trigger postings_stay before update on postings
      begin select raise(abort, 'postings are never changed'); end)",
    R"(create trigger postings_are_kept before delete on postings
      begin select raise(abort, 'postings are never removed'); end)",
    "alter table runs add column awaits_budget integer",
    "alter table attempts add column charge text",  // JSON
};

// Notices: the targets, and a row for each notice that a target is still to get.
constexpr std::string_view kNotices[] = {
    R"(create table notice_targets (
      id integer primary key autoincrement, kind text not null, scope text not null,
      user text not null, project text not null, causes text not null,
      sealed text not null, shown text not null, added integer not null,
      failures integer not null, next_try integer not null, problem text not null,
      delivered integer, waiting integer not null, dropped integer not null
    ) strict)",
    R"(create table notices (
      id integer primary key autoincrement, target integer not null,
      made integer not null, notice text not null
    ) strict)",
    "create index notices_by_target on notices (target, id)",
    "create index usage_by_run on usage (run, charged)",
    R"(alter table budgets add column warned text not null default '{"percent":0,"granted":"0s"}')",
};

constexpr std::string_view kTimeLimits[] = {
    "alter table runs add column extended integer not null default 0",
    "alter table runs add column charged integer not null default 0",
    R"(update runs set charged = coalesce((select sum(usage.charged) from usage
         where usage.run = runs.project || '/' || runs.number), 0))",
};

// Points move to the series store, some at a time; the tables `series`, `points` and `summaries`
// only have those that have not moved yet.
constexpr std::string_view kPointsInSeriesStore[] = {
    R"(create table latest_metrics (
      project text not null, number integer not null, name text not null, rank integer not null,
      epoch integer not null, step integer not null, time integer not null, value real,
      primary key (project, number, name)
    ) strict, without rowid)",
    R"(insert into latest_metrics select project, number, name, rank, epoch, step, time, value
       from series where true order by rank on conflict do nothing)",
    "alter table spools add column points integer not null default 0",
    "update spools set points = sequence",
    "delete from series where removed != 0",
    "alter table run_counters add column generation text not null default ''",
};

// The usage of each day, for reports. 86400000000 microseconds are a day.
constexpr std::string_view kUsageSums[] = {
    R"(create table usage_days (
      day integer not null,  -- since 1970, on which the parts ended
      project text not null, user text not null, kind text not null,
      starts integer not null, used integer not null, charged integer not null,
      primary key (day, project, user, kind)
    ) strict, without rowid)",
    R"(insert into usage_days
      select ends / 86400000000 as day, project, user, kind, sum(starts), sum(used), sum(charged)
      from usage group by day, project, user, kind)",
    R"(create trigger usage_is_summed after insert on usage begin
      insert into usage_days values (new.ends / 86400000000, new.project, new.user, new.kind,
                                     new.starts, new.used, new.charged)
      on conflict do update set starts = starts + new.starts, used = used + new.used,
                                charged = charged + new.charged;
      end)",
};

constexpr std::string_view kPersonalBuckets[] = {
    R"(create table buckets (
      project text primary key,
      level integer not null, time integer not null,
      held integer not null, spent integer not null
    ) strict, without rowid)",
    "alter table runs add column project_kind text not null default 'shared'",
};

constexpr std::string_view kIdleRuns[] = {
    "alter table attempts add column idle_warned integer",
    "alter table nodes add column idle_since integer",
    "alter table limits add column idle_stop integer",
};

constexpr std::string_view kTags[] = {
    "alter table runs add column tags text not null default '{}'",  // JSON
    "alter table runs add column note text not null default ''",
    "create index runs_with_tags on runs (submitted, number, state) where tags <> '{}'",
    "create index log_chunks_by_attempt on log_chunks (counters, rank, epoch, first)",
};

constexpr std::string_view kCompressedLines[] = {
    "alter table log_chunks add column packed blob",  // then `text` is empty
};

// Experiments and runs of MLflow's clients.
constexpr std::string_view kMlflow[] = {
    R"(create table mlflow_experiments (
      id integer primary key autoincrement, project text not null, name text not null,
      created integer not null, updated integer not null, deleted integer not null,
      tags text not null,  -- JSON
      unique (project, name)
    ) strict)",
    R"(create table mlflow_runs (
      project text not null, number integer not null,
      experiment integer not null, name text not null,
      made integer not null,  -- 1: by a client
      status text, start integer, finish integer, deleted integer not null,
      primary key (project, number)
    ) strict, without rowid)",
    "create index mlflow_runs_by_experiment on mlflow_runs (experiment)",
    R"(create table mlflow_values (
      project text not null, number integer not null,
      kind text not null,  -- param or tag
      name text not null, value text not null,
      primary key (project, number, kind, name)
    ) strict, without rowid)",
};

// Lists of the runs of a user, and by the last, least or greatest value of a metric.
constexpr std::string_view kListsOfRuns[] = {
    "create index runs_by_user on runs (origin ->> 'user', submitted, number, state)",
    "alter table latest_metrics add column least real",
    "alter table latest_metrics add column greatest real",
    "create index latest_by_value on latest_metrics (name, value)",
    "create index latest_by_least on latest_metrics (name, least)",
    "create index latest_by_greatest on latest_metrics (name, greatest)",
};

// Findings about runs; the energy and the use of devices, summed as the readings come.
constexpr std::string_view kFindings[] = {
    R"(create table findings (
      id integer primary key autoincrement,
      project text not null, number integer not null, epoch integer not null,
      kind text not null, node integer, rank integer, device integer,
      host text not null, part text not null,
      since integer not null, last_seen integer not null, ended integer,
      text text not null, of_hardware integer not null, act text not null
    ) strict)",
    "create index findings_by_run on findings (project, number, epoch, ended)",
    "create index findings_by_project on findings (project, id)",
    R"(create table finding_marks (
      project text not null, number integer not null, epoch integer not null,
      node integer not null, metric text not null, value real not null,
      primary key (project, number, epoch, node, metric)
    ) strict, without rowid)",
    R"(create table use_marks (
      project text not null, number integer not null, epoch integer not null,
      node integer not null,
      marks text not null,  -- JSON: the last reading of each device
      primary key (project, number, epoch, node)
    ) strict, without rowid)",
    R"(create table use_months (
      month text not null, project text not null, number integer not null, user text not null,
      device_joules real, host_joules real, device_seconds real, idle_seconds real,
      flops real, flops_timed real, flops_possible real,  -- null: unknown
      primary key (month, project, number)
    ) strict, without rowid)",
    "create index use_by_project on use_months (project, number)",
};

constexpr std::string_view kParentsOfTokens[] = {
    "alter table tokens add column parent text not null default ''",
};

// The files that runs log; and contents that may be of no artifact any more.
// The triggers have no "insert or ignore": the policy of the statement that fires one replaces it.
constexpr std::string_view kArtifacts[] = {
    R"(create table artifacts (
      project text not null, number integer not null, path text not null,
      sha256 text not null, size integer not null,
      primary key (project, number, path)
    ) strict, without rowid)",
    "create index artifacts_by_content on artifacts (sha256)",
    "create table artifact_garbage (sha256 text primary key) strict, without rowid",
    R"(create trigger artifact_is_removed after delete on artifacts begin
      insert into artifact_garbage (sha256) select old.sha256 where not exists
        (select 1 from artifact_garbage where sha256 = old.sha256);
    end)",
    R"(create trigger artifact_is_replaced after update of sha256 on artifacts begin
      insert into artifact_garbage (sha256) select old.sha256 where not exists
        (select 1 from artifact_garbage where sha256 = old.sha256);
    end)",
};

constexpr std::string_view kDocuments[] = {
    R"(create table documents (
      id integer primary key autoincrement,
      kind text not null, project text not null, user text not null,
      name text not null, text text not null,
      changed integer not null, version integer not null
    ) strict)",
    "create index documents_by_user on documents (user, kind)",
    "create index documents_by_project on documents (project, kind)"};
// Models, their versions and their aliases; the models that MLflow's clients log, and the data sets
// and models that their runs name.
constexpr std::string_view kModels[] = {
    R"(create table models (
      project text not null, name text not null, user text not null, description text not null,
      tags text not null,  -- JSON
      created integer not null, updated integer not null, last_version integer not null,
      primary key (project, name)
    ) strict, without rowid)",
    R"(create table model_versions (
      project text not null, name text not null, version integer not null,
      run_project text, run_number integer, step integer, path text not null,
      source text not null, logged_model text not null,
      git_commit text not null, git_dirty integer not null, data_set text not null,
      user text not null, description text not null, stage text not null,
      tags text not null,  -- JSON
      created integer not null, updated integer not null,
      primary key (project, name, version)
    ) strict, without rowid)",
    "create index model_versions_by_run on model_versions (run_project, run_number)",
    R"(create table model_aliases (
      project text not null, name text not null, alias text not null, version integer not null,
      primary key (project, name, alias)
    ) strict, without rowid)",
    R"(create table mlflow_models (
      id text primary key,
      project text not null, number integer not null, experiment integer not null,
      name text not null, type text not null, status text not null, status_message text not null,
      params text not null, tags text not null,  -- JSON
      created integer not null, updated integer not null, deleted integer not null
    ) strict, without rowid)",
    "create index mlflow_models_by_run on mlflow_models (project, number)",
    "create index mlflow_models_by_experiment on mlflow_models (experiment, created)",
    "alter table mlflow_runs add column parent text not null default ''",
    R"(create table mlflow_links (
      project text not null, number integer not null,
      kind text not null,  -- dataset, input or output
      name text not null, step integer not null,
      content text not null,  -- JSON of a dataset
      primary key (project, number, kind, name, step)
    ) strict, without rowid)",
};

constexpr std::string_view kNcclNetworks[] = {
    "alter table nodes add column nccl_network text not null default ''",
};

// Images and histograms that ranks log: an image is an artifact. And the runs of a job, of which an
// import has one.
constexpr std::string_view kMedia[] = {
    R"(create table media (
      project text not null, number integer not null, kind text not null, name text not null,
      step integer not null, rank integer not null, part integer not null, time integer not null,
      caption text not null, path text not null, bins text not null,
      primary key (project, number, kind, name, step, rank, part)
    ) strict, without rowid)",
    "create index runs_by_job on runs (job) where job <> ''",
};

// The values by which a query finds runs. `value` is a number, or the text as it is sorted. The
// janitor reads the runs of earlier versions.
constexpr std::string_view kRunValues[] = {
    R"(create table run_values (
      project text not null, number integer not null, name text not null,
      text text not null, value any,
      primary key (project, number, name)
    ) strict, without rowid)",
    "create index run_values_by_value on run_values (name, value) where value is not null",
    R"(create table unread_runs (
      id integer primary key, project text not null, number integer not null
    ) strict)",
    "insert into unread_runs (project, number) select project, number from runs order by submitted",
    "create index unread_runs_by_run on unread_runs (project, number)",
    "create index runs_by_start on runs (started)",
    "create index runs_by_priority on runs (priority)",
    // A held run is in the state `queued`.
    R"(alter table runs add column query_state text generated always as
      (iif(held is not null and state = 'queued', 'held', state)) virtual)",
    "create index runs_by_state on runs (query_state)",
};

constexpr std::array<std::span<const std::string_view>, 49> kMigrations = {kRunsAndAttempts,
                                                                           kInsight,
                                                                           kHangAndResume,
                                                                           kBounds,
                                                                           kRequests,
                                                                           kControl,
                                                                           kPreemptions,
                                                                           kShares,
                                                                           kEvents,
                                                                           kWeights,
                                                                           kFaults,
                                                                           kGenerations,
                                                                           kClock,
                                                                           kOrphans,
                                                                           kStopReasons,
                                                                           kFieldNames,
                                                                           kEndedRuns,
                                                                           kUnreachable,
                                                                           kAgents,
                                                                           kEngines,
                                                                           kJoinedHosts,
                                                                           kGivenUpNodes,
                                                                           kLeases,
                                                                           kLastProgress,
                                                                           kMeasured,
                                                                           kLabels,
                                                                           kPlaced,
                                                                           kIdentity,
                                                                           kSecrets,
                                                                           kExternalRuns,
                                                                           kBudgets,
                                                                           kNotices,
                                                                           kTimeLimits,
                                                                           kUsageSums,
                                                                           kPersonalBuckets,
                                                                           kIdleRuns,
                                                                           kPointsInSeriesStore,
                                                                           kTags,
                                                                           kCompressedLines,
                                                                           kMlflow,
                                                                           kListsOfRuns,
                                                                           kFindings,
                                                                           kParentsOfTokens,
                                                                           kArtifacts,
                                                                           kDocuments,
                                                                           kModels,
                                                                           kNcclNetworks,
                                                                           kMedia,
                                                                           kRunValues};

Result<bool> has_table(Database& database, std::string_view name) {
  const auto found = TRY(database.rows<std::string>(
      "select name from sqlite_master where type = 'table' and name = :n", name));
  return !found.empty();
}

Result<void> apply_migration(Database& database, int number) {
  for (auto statement : kMigrations[static_cast<std::size_t>(number - 1)])
    TRY(database.execute(statement));
  return database.execute("update schema_version set version = :v", number);
}

}  // namespace

int schema_version_latest() { return static_cast<int>(kMigrations.size()); }

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
  for (int number = version + 1; number <= schema_version_latest(); ++number)
    TRY(database.transaction([&] { return apply_migration(database, number); }));
  return {};
}

}  // namespace lockstep::store
