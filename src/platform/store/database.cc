#include "platform/store/database.h"

#include <map>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/host/home.h"
#include "platform/store/detail/sql_error.h"
#include "platform/store/migrations.h"
#include "platform/store/tables_copy.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;

// The write-ahead log is copied into the file at 1,000 pages. After a large transaction it is
// truncated to this size.
constexpr Bytes kJournalMax = 64_MiB;
constexpr Duration kBusyTimeout = std::chrono::seconds(5);
// The daemon's own statements are some 300; searches have texts of their own.
constexpr std::size_t kStatementsKept = 1000;

struct Close {
  void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, Close>;

// A prepared statement, ready for its next run.
class Statement {
 public:
  // `sql` stays valid.
  static Result<std::unique_ptr<Statement>> prepare(sqlite3* connection, const std::string& name,
                                                    std::string_view sql) {
    sqlite3_stmt* prepared = nullptr;
    const int result = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()),
                                          SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
    if (result != SQLITE_OK) return last_error(connection, name, result);
    return std::unique_ptr<Statement>(new Statement(connection, name, prepared));
  }

  // Afterwards it holds no lock, also if it failed.
  Result<void> run(const std::vector<SqlValue>& args, const std::vector<SqlType>& columns,
                   const SqlRow& on_row) {
    auto done = bind(args);
    if (done) done = step(columns, on_row);
    sqlite3_reset(statement_.get());
    sqlite3_clear_bindings(statement_.get());
    return done;
  }

  static Error last_error(sqlite3* connection, const std::string& name, int result) {
    return sql_error(name, result, sqlite3_system_errno(connection), sqlite3_errmsg(connection));
  }

 private:
  Statement(sqlite3* connection, const std::string& name, sqlite3_stmt* statement)
      : connection_(connection), name_(name), statement_(statement) {}

  int bind(int index, const SqlValue& value) {
    if (value.null) return sqlite3_bind_null(statement_.get(), index);
    switch (value.type) {
      case SqlType::integer:
        return sqlite3_bind_int64(statement_.get(), index, value.integer);
      case SqlType::real:
        return sqlite3_bind_double(statement_.get(), index, value.real);
      case SqlType::text:
        return sqlite3_bind_text64(statement_.get(), index, value.text.data(), value.text.size(),
                                   SQLITE_STATIC, SQLITE_UTF8);
      case SqlType::blob:
        return sqlite3_bind_blob64(statement_.get(), index, value.text.data(), value.text.size(),
                                   SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
  }
  Result<void> bind(const std::vector<SqlValue>& args) {
    LS_CHECK(static_cast<int>(args.size()) == sqlite3_bind_parameter_count(statement_.get()),
             "each parameter of a statement has a value");
    for (int i = 0; const SqlValue& arg : args)
      if (const int result = bind(++i, arg); result != SQLITE_OK)
        return last_error(connection_, name_, result);
    return {};
  }

  SqlValue value_at(int column, SqlType type) {
    SqlValue value{.type = type,
                   .null = sqlite3_column_type(statement_.get(), column) == SQLITE_NULL};
    if (value.null) return value;
    if (type == SqlType::integer) value.integer = sqlite3_column_int64(statement_.get(), column);
    if (type == SqlType::real) value.real = sqlite3_column_double(statement_.get(), column);
    if (type == SqlType::text) {
      const auto* text = sqlite3_column_text(statement_.get(), column);
      const int size = sqlite3_column_bytes(statement_.get(), column);
      value.text.assign(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
    }
    if (type == SqlType::blob) {
      const void* bytes = sqlite3_column_blob(statement_.get(), column);
      const int size = sqlite3_column_bytes(statement_.get(), column);
      if (size > 0)  // else SQLite has no address
        value.text.assign(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    return value;
  }
  Result<void> step(const std::vector<SqlType>& columns, const SqlRow& on_row) {
    LS_CHECK(static_cast<int>(columns.size()) <= sqlite3_column_count(statement_.get()),
             "a statement returns each column that is read");
    std::vector<SqlValue> row(columns.size());
    for (;;) {
      const int result = sqlite3_step(statement_.get());
      if (result == SQLITE_DONE) return {};
      if (result != SQLITE_ROW) return last_error(connection_, name_, result);
      if (!on_row) continue;
      for (std::size_t i = 0; i < columns.size(); ++i)
        row[i] = value_at(static_cast<int>(i), columns[i]);
      TRY(on_row(row));
    }
  }

  sqlite3* connection_;
  const std::string& name_;
  std::unique_ptr<sqlite3_stmt, Close> statement_;
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
  Locks locks;  // must outlive the connection, whose files they lock
  Connection connection;
  std::map<std::string, std::unique_ptr<Statement>, std::less<>> statements;
  std::int64_t statements_run = 0;
  int running = 0;  // statements whose rows are being read
};

Database::Database(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Database::~Database() {
  impl_->statements.clear();  // before the connection that they belong to
  // SQLite would remove the journal by its name, which belongs to another database now.
  if (file_status() != FileStatus::in_place)
    sqlite3_db_config(impl_->connection.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
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
  sqlite3* connection = nullptr;
  const int result = sqlite3_open_v2(file.c_str(), &connection,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  impl->connection.reset(connection);
  if (result != SQLITE_OK) return Statement::last_error(connection, impl->name, result);
  // Another process, such as a backup or a database shell, may lock the file briefly.
  sqlite3_busy_timeout(connection, static_cast<int>(kBusyTimeout / std::chrono::milliseconds(1)));
  return std::unique_ptr<Database>(new Database(std::move(impl)));
}

// For a file of Lockstep or an empty one.
Result<void> Database::set_up() {
  // Takes effect in an empty file only: later, pages can be released one by one.
  TRY(execute("pragma auto_vacuum = incremental"));
  TRY(execute("pragma journal_mode = wal"));
  TRY(execute(format("pragma journal_size_limit = {}", kJournalMax.count())));
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
  if (*version > 0 && *version < schema_version_latest())
    TRY(copy_tables(*database, path, *version));
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
  if (sqlite3_get_autocommit(impl_->connection.get()) != 0) return done;
  auto undone = execute("rollback");
  if (!undone) LS_LOG(error, "undoing a transaction failed: {}", undone.error().message);
  return done;
}

const std::string& Database::name() const { return impl_->name; }

std::int64_t Database::statements_run() const { return impl_->statements_run; }

Result<Bytes> Database::used() {
  const auto pages = TRY(rows<std::int64_t>("pragma page_count"));
  const auto size = TRY(rows<std::int64_t>("pragma page_size"));
  return Bytes(std::get<0>(pages[0]) * std::get<0>(size[0])) - TRY(unused());
}

std::optional<Database::DiskSpace> Database::disk_space() const {
  struct statvfs disk{};
  if (!impl_->locks.database || ::fstatvfs(impl_->locks.database.get(), &disk) != 0)
    return std::nullopt;
  const auto bytes = [&](auto blocks) {
    return Bytes(static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(disk.f_frsize));
  };
  return DiskSpace{.free = bytes(disk.f_bavail), .total = bytes(disk.f_blocks)};
}

Result<Bytes> Database::unused() {
  const auto pages = TRY(rows<std::int64_t>("pragma freelist_count"));
  const auto size = TRY(rows<std::int64_t>("pragma page_size"));
  return Bytes(std::get<0>(pages[0]) * std::get<0>(size[0]));
}

Result<void> Database::shrink(std::int64_t pages) {
  return execute(format("pragma incremental_vacuum({})", pages));
}

Result<void> Database::run(std::string_view sql, const std::vector<SqlValue>& args,
                           const std::vector<SqlType>& columns, const SqlRow& on_row) {
  auto& statements = impl_->statements;
  ++impl_->statements_run;
  if (impl_->running == 0 && statements.size() >= kStatementsKept) statements.clear();
  auto found = statements.find(sql);
  if (found == statements.end())
    found = statements
                .emplace(std::string(sql),
                         TRY(Statement::prepare(impl_->connection.get(), impl_->name, sql)))
                .first;
  ++impl_->running;
  auto done = found->second->run(args, columns, on_row);
  --impl_->running;
  return done;
}

}  // namespace lockstep::store
