#include "platform/store/database.h"

#include <deque>
#include <map>

#include <fcntl.h>
#include <soci/soci.h>  // IWYU pragma: keep
#include <soci/sqlite3/soci-sqlite3.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/host/home.h"
#include "platform/store/detail/sql_error.h"
#include "platform/store/migrations.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;

// The write-ahead log is copied into the file at 1,000 pages. After a large transaction it is
// truncated to this size.
constexpr Bytes kJournalMax = 64_MiB;
constexpr Duration kBusyTimeout = std::chrono::seconds(5);

sqlite_api::sqlite3* connection_of(soci::session& session) {
  return static_cast<soci::sqlite3_session_backend*>(session.get_backend())->conn_;
}

// Turns SOCI's exceptions into errors. `name` is the name of the database.
template <class Work>
auto guarded(const std::string& name, soci::session& session, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const soci::sqlite3_soci_error& e) {
    const int os_errno =
        session.is_connected() ? sqlite_api::sqlite3_system_errno(connection_of(session)) : 0;
    return sql_error(name, e.result(), os_errno, e.get_error_message());
  } catch (const soci::soci_error& e) {
    return Error{Code::internal, format("{}: {}", name, e.get_error_message())};
  }
}

// A value at a fixed address, to which SOCI binds.
struct Slot {
  SqlType type = SqlType::integer;
  long long integer = 0;
  double real = 0;
  std::string text;
  soci::indicator indicator = soci::i_ok;
};

Slot slot_of(SqlType type) {
  Slot slot;
  slot.type = type;
  return slot;
}

void set(Slot& slot, SqlValue&& value) {
  LS_CHECK(slot.type == value.type, "a statement's parameters keep their types");
  slot.indicator = value.null ? soci::i_null : soci::i_ok;
  slot.integer = value.integer;
  slot.real = value.real;
  slot.text = std::move(value.text);
}

// Moves the text out: the next row writes a new one.
SqlValue take_value(Slot& slot) {
  return {.type = slot.type,
          .null = slot.indicator == soci::i_null,
          .integer = slot.integer,
          .real = slot.real,
          .text = std::move(slot.text)};
}

class Statement {
 public:
  Statement(soci::session& session, std::string_view sql, const std::vector<SqlValue>& args,
            const std::vector<SqlType>& columns)
      : statement_(session) {
    statement_.alloc();
    for (SqlType type : columns) bind_into(out_.emplace_back(slot_of(type)));
    for (const auto& arg : args) bind_use(in_.emplace_back(slot_of(arg.type)));
    statement_.prepare(std::string(sql));
    statement_.define_and_bind();
  }

  void run(std::vector<SqlValue>&& args,
           const std::function<void(std::vector<SqlValue>&)>& on_row) {
    LS_CHECK(args.size() == in_.size(), "a statement's parameters keep their number");
    for (std::size_t i = 0; i < args.size(); ++i) set(in_[i], std::move(args[i]));
    bool more = statement_.execute(true);
    std::vector<SqlValue> row;
    while (more && on_row) {
      row.clear();
      for (auto& slot : out_) row.push_back(take_value(slot));
      on_row(row);
      more = statement_.fetch();
    }
  }

 private:
  void bind_into(Slot& slot) {
    if (slot.type == SqlType::integer)
      statement_.exchange(soci::into(slot.integer, slot.indicator));
    if (slot.type == SqlType::real) statement_.exchange(soci::into(slot.real, slot.indicator));
    if (slot.type == SqlType::text) statement_.exchange(soci::into(slot.text, slot.indicator));
  }
  void bind_use(Slot& slot) {
    if (slot.type == SqlType::integer) statement_.exchange(soci::use(slot.integer, slot.indicator));
    if (slot.type == SqlType::real) statement_.exchange(soci::use(slot.real, slot.indicator));
    if (slot.type == SqlType::text) statement_.exchange(soci::use(slot.text, slot.indicator));
  }

  std::deque<Slot> in_, out_;  // a deque's elements never move in memory
  soci::statement statement_;
};

Error unusable(const Error& error) {
  return {error.code, format("{}; the daemon needs a folder that it may write to: see to this one, "
                             "or choose another by LOCKSTEP_HOME",
                             error.message)};
}

// Created if missing (0600).
Result<Fd> lock_file(const fs::path& file) {
  auto lock = try_lock(file);
  if (!lock) return unusable(lock.error());
  if (*lock) return lock;
  return Error{Code::already_exists,
               format("another daemon uses {}; stop it, or choose another folder by LOCKSTEP_HOME",
                      file.parent_path().string())};
}

// Both are held: each one detects if a user removes the other. The database's lock is
// authoritative, since it belongs to the very file that is written. It uses flock: closing another
// descriptor of the file would drop SQLite's own locks, which are fcntl's, so this descriptor stays
// open.
struct Locks {
  Fd folder, database;
};

Result<Locks> lock_both(const fs::path& file) {
  if (auto made = make_folders(file.parent_path()); !made) return unusable(made.error());
  Locks locks;
  locks.folder = TRY(lock_file(host::Home{file.parent_path()}.lock_file()));
  TRY(record_lock_owner(locks.folder));
  locks.database = TRY(lock_file(file));
  // Contains the environments of runs, which may have secrets. SQLite's other files get the same
  // mode.
  if (::fchmod(locks.database.get(), 0600) != 0)
    return os_error("making " + file.string() + " private", errno);
  return locks;
}

}  // namespace

struct Database::Impl {
  std::string name;
  Locks locks;  // must outlive the session, whose files they lock
  soci::session session;
  std::map<std::string, std::unique_ptr<Statement>, std::less<>> statements;
  std::int64_t statements_run = 0;
};

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() {
  impl_->statements.clear();  // before the session that they belong to
  // SQLite would remove the journal by its name, which belongs to another database now.
  if (file_status() != FileStatus::in_place)
    sqlite_api::sqlite3_db_config(connection_of(impl_->session), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                                  1, nullptr);
}

Database::FileStatus Database::file_status() const {
  if (!impl_->locks.database) return FileStatus::in_place;  // in memory
  struct stat ours{}, there{};
  LS_CHECK(::fstat(impl_->locks.database.get(), &ours) == 0);
  if (::stat(impl_->name.c_str(), &there) != 0)
    return errno == ENOENT || errno == ENOTDIR ? FileStatus::missing : FileStatus::in_place;
  const bool same = ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  return same ? FileStatus::in_place : FileStatus::replaced;
}

// Rows written then are lost with the file's last descriptor.
Result<void> Database::check_file_status() const {
  switch (file_status()) {
    case FileStatus::in_place:
      return {};
    case FileStatus::missing:
      return Error{Code::internal,
                   format("{} was removed while the daemon uses it, so nothing can be stored; put "
                          "it back if it was moved, else end the daemon by `lockstep serve --stop`",
                          impl_->name)};
    case FileStatus::replaced:
      return Error{Code::internal,
                   format("{} was replaced by another file while the daemon uses it, so nothing "
                          "can be stored; end the daemon by `lockstep serve --stop`",
                          impl_->name)};
  }
  return {};
}

Result<std::unique_ptr<Database>> Database::connect(const std::string& file, std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->name = std::move(name);
  TRY(guarded(impl->name, impl->session, [&]() -> Result<void> {
    // SOCI reads words with a '=' as options, others as the file's name.
    const bool options = file.find('=') != std::string::npos;
    impl->session.open(soci::sqlite3, options ? format("dbname=\"{}\"", file) : file);
    return {};
  }));
  auto database = std::unique_ptr<Database>(new Database(std::move(impl)));
  // Another process, such as a backup or a database shell, may lock the file briefly.
  TRY(database->rows<std::int64_t>(
      format("pragma busy_timeout = {}",
             std::chrono::duration_cast<std::chrono::milliseconds>(kBusyTimeout).count())));
  return database;
}

// For a file of Lockstep or an empty one.
Result<void> Database::set_up() {
  // Takes effect in an empty file only: later, pages can be released one by one.
  TRY(execute("pragma auto_vacuum = incremental"));
  TRY(rows<std::string>("pragma journal_mode = wal"));
  TRY(rows<std::int64_t>(format("pragma journal_size_limit = {}", kJournalMax.count())));
  TRY(execute("pragma synchronous = full"));
  return execute("pragma foreign_keys = on");
}

Result<std::unique_ptr<Database>> Database::open(const fs::path& path) {
  if (std::error_code ignored; fs::is_directory(path, ignored))
    return Error{Code::invalid, format("{} is a folder, but it is to be the store's file; move it "
                                       "away, or choose another folder by LOCKSTEP_HOME",
                                       path.string())};
  auto locks = TRY(lock_both(path));
  auto database = TRY(connect(path.string(), path.string()));
  database->impl_->locks = std::move(locks);
  // Writes nothing, not even the journal mode, until the version is known.
  auto version = schema_version_of(*database);
  if (!version) return std::move(version).error();  // it names the file
  if (*version > schema_version_latest())
    return Error{
        Code::invalid,
        format("{} was written by a newer Lockstep (its tables are of version {}, this one "
               "knows {}); use that one, or another folder by LOCKSTEP_HOME",
               path.string(), *version, schema_version_latest())};
  TRY(database->set_up());
  TRY(migrate(*database, *version));
  // Last: during its setup SQLite unlocks the whole file. In WAL mode it then keeps a lock.
  TRY(record_lock_owner(database->impl_->locks.database));
  return database;
}

Result<std::unique_ptr<Database>> Database::in_memory() {
  auto database = TRY(connect(":memory:", "the store in memory"));
  TRY(database->execute("pragma foreign_keys = on"));
  TRY(migrate(*database, 0));
  return database;
}

Result<void> Database::transaction(const std::function<Result<void>()>& work) {
  TRY(check_file_status());
  TRY(execute("begin immediate"));
  auto done = work();
  if (done) done = execute("commit");
  if (done) return {};
  // After some errors, such as a full disk, SQLite has rolled back already.
  if (sqlite_api::sqlite3_get_autocommit(connection_of(impl_->session)) != 0) return done;
  auto undone = execute("rollback");
  if (!undone) LS_LOG(error, "undoing a transaction failed: {}", undone.error().message);
  return done;
}

const std::string& Database::name() const { return impl_->name; }

std::int64_t Database::statements_run() const { return impl_->statements_run; }

Result<Bytes> Database::unused() {
  const auto pages = TRY(rows<std::int64_t>("pragma freelist_count"));
  const auto size = TRY(rows<std::int64_t>("pragma page_size"));
  return Bytes(std::get<0>(pages[0]) * std::get<0>(size[0]));
}

Result<void> Database::shrink(std::int64_t pages) {
  // Not a statement of SOCI: it frees one page per step, and SOCI runs one step.
  const auto sql = format("pragma incremental_vacuum({})", pages);
  auto* connection = connection_of(impl_->session);
  const int result = sqlite_api::sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
  if (result == SQLITE_OK) return {};
  return sql_error(impl_->name, result, sqlite_api::sqlite3_system_errno(connection),
                   sqlite_api::sqlite3_errmsg(connection));
}

Result<void> Database::run(std::string_view sql, std::vector<SqlValue> args,
                           const std::vector<SqlType>& columns,
                           const std::function<void(std::vector<SqlValue>&)>& on_row) {
  auto& statements = impl_->statements;
  ++impl_->statements_run;
  auto ran = guarded(impl_->name, impl_->session, [&]() -> Result<void> {
    auto found = statements.find(sql);
    if (found == statements.end())
      found = statements
                  .emplace(std::string(sql),
                           std::make_unique<Statement>(impl_->session, sql, args, columns))
                  .first;
    found->second->run(std::move(args), on_row);
    return {};
  });
  // A failed statement is prepared again, because it may hold a lock.
  if (!ran) {
    if (auto found = statements.find(sql); found != statements.end()) statements.erase(found);
  }
  return ran;
}

}  // namespace lockstep::store
