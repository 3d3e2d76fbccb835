#include "platform/store/identity_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/identity/changes.h"
#include "platform/store/sql_store.h"

namespace lockstep::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Time at(int seconds) { return Time(std::chrono::seconds(seconds)); }

// A row of each kind, with a value in every field.
identity::Changes full_rows() {
  return {
      {identity::User{.name = "ci",
                      .kind = identity::UserKind::service,
                      .project = "demo",
                      .admin = true,
                      .disabled = true,
                      .password_hash = "$argon2id$",
                      .oidc_subject = "https://a 1",
                      .created = at(1),
                      .removed = at(2)}},
      {identity::Project{.name = "demo", .owner = "ann", .created = at(3)}},
      {identity::Member{.id = {"demo", "ci"}, .role = identity::Role::manager}},
      {identity::Token{.id = "id",
                       .secret_hash = "hash",
                       .user = "ci",
                       .name = "of the build",
                       .project = "demo",
                       .role = identity::Role::member,
                       .created = at(4),
                       .ends = at(5),
                       .last_used = at(6),
                       .parent = "older"}},
      {identity::Secret{.id = {"demo", "hf"}, .sealed = "v1:x", .set_by = "ann", .set = at(8)}}};
}

model::AuditRecord full_record() {
  return {.id = 1,
          .time = at(7),
          .user = "ann",
          .token = "id",
          .address = "10.0.0.5",
          .action = "run.stop",
          .target = "demo/1",
          .project = "demo",
          .before = "running",
          .after = "stopped",
          .refused = true};
}

class IdentityStoreTest : public testing::Test {
 protected:
  std::unique_ptr<Database> open() { return Database::open(file_).value(); }
  static std::vector<std::int64_t> ids(SqlIdentityStore& store, const model::AuditFilter& filter) {
    std::vector<std::int64_t> found;
    for (const model::AuditRecord& record : store.list_audit(filter).value())
      found.push_back(record.id);
    return found;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = std::filesystem::path(folder_) / "lockstep.db";
};

TEST_F(IdentityStoreTest, HasEveryFieldAgain) {
  ASSERT_TRUE(SqlIdentityStore(*open()).commit(full_rows(), full_record()));
  auto database = open();
  SqlIdentityStore store(*database);
  identity::Directory expected;
  identity::apply(expected, full_rows());
  EXPECT_EQ(store.load_directory().value(), expected);
  EXPECT_THAT(store.list_audit({}).value(), ElementsAre(full_record()));
  EXPECT_EQ(store.find_secret({"demo", "hf"}).value(), expected.secrets.at({"demo", "hf"}));
  EXPECT_EQ(store.find_secret({"demo", "other"}).value(), std::nullopt);
}

TEST_F(IdentityStoreTest, RemovesRows) {
  auto database = open();
  SqlIdentityStore store(*database);
  identity::Changes rows = full_rows();
  ASSERT_TRUE(store.commit(rows, {}));
  for (identity::Change& change : rows) change.removed = true;
  ASSERT_TRUE(store.commit(rows, {}));
  EXPECT_EQ(store.load_directory().value(), identity::Directory());
}

TEST_F(IdentityStoreTest, ARecordOfTheAuditIsNeitherChangedNorRemoved) {
  auto database = open();
  SqlIdentityStore store(*database);
  ASSERT_TRUE(store.commit({}, full_record()));
  for (const auto* sql : {"update audit set user = 'eve'", "delete from audit",
                          "insert or replace into audit select * from audit"}) {
    const auto refused = database->execute(sql);
    ASSERT_FALSE(refused) << sql;
    EXPECT_THAT(refused.error().message, HasSubstr("audit")) << sql;
  }
  EXPECT_THAT(store.list_audit({}).value(), ElementsAre(full_record()));
}

TEST_F(IdentityStoreTest, AChangeAndItsRecordAreOneTransaction) {
  auto database = open();
  SqlIdentityStore store(*database);
  ASSERT_TRUE(
      database->execute("create trigger fail before insert on audit begin "
                        "select raise(abort, 'no'); end"));
  EXPECT_FALSE(store.commit(full_rows(), full_record()));
  EXPECT_EQ(store.load_directory().value(), identity::Directory());
  model::LimitRow limit{.id = {model::LimitScope::user, "ann"}, .devices = 1};
  const std::vector<model::Change> changes = {limit, full_record()};
  EXPECT_FALSE(SqlStore(*database).commit(changes));
  EXPECT_TRUE(SqlStore(*database).load().value().limits.empty());
}

TEST_F(IdentityStoreTest, ListsTheAuditNewestFirstByEachFilter) {
  auto database = open();
  SqlIdentityStore store(*database);
  for (int i = 1; i <= 6; ++i) {
    model::AuditRecord record = full_record();
    record.time = at(i);
    record.user = i % 2 == 0 ? "ann" : "bob";
    record.project = i <= 2 ? "demo" : i <= 4 ? "other" : "";
    record.action = i == 3 ? "user.add" : "run.stop";
    record.refused = i == 6;
    ASSERT_TRUE(store.commit({}, record));
  }
  EXPECT_THAT(ids(store, {}), ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_THAT(ids(store, {.limit = 2}), ElementsAre(6, 5));
  EXPECT_THAT(ids(store, {.before = 5, .limit = 2}), ElementsAre(4, 3));
  EXPECT_THAT(ids(store, {.user = "ann"}), ElementsAre(6, 4, 2));
  EXPECT_THAT(ids(store, {.action = "user.add"}), ElementsAre(3));
  EXPECT_THAT(ids(store, {.projects = {{"demo"}}}), ElementsAre(2, 1));
  EXPECT_THAT(ids(store, {.projects = {{"demo", "other"}}}), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(ids(store, {.projects = std::vector<std::string>()}), ElementsAre());
  EXPECT_THAT(ids(store, {.since = at(3), .until = at(5)}), ElementsAre(4, 3));
  EXPECT_THAT(ids(store, {.refused = true}), ElementsAre(6));
  EXPECT_THAT(ids(store, {.refused = false, .limit = 1}), ElementsAre(5));
}

TEST_F(IdentityStoreTest, TheFileHasNoToken) {
  const identity::TokenText token = identity::new_token();
  {
    auto database = open();
    SqlIdentityStore store(*database);
    identity::Directory directory;
    identity::apply(directory, identity::add_user(directory, "ann", at(1)).value());
    const auto added = identity::add_token(directory, {.user = "ann"}, token, at(1)).value();
    ASSERT_TRUE(store.commit(added, full_record()));
    std::string bytes = read_file(file_).value() + read_file(file_.string() + "-wal").value_or("");
    EXPECT_THAT(bytes, HasSubstr(token.id));
    EXPECT_THAT(bytes, Not(HasSubstr(token.secret)));
  }
  EXPECT_THAT(read_file(file_).value(), Not(HasSubstr(token.secret)));
}

}  // namespace
}  // namespace lockstep::store
