#include "platform/store/document_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "platform/store/identity_store.h"

namespace lockstep::store {
namespace {

using model::Document;
using model::DocumentKind;
using ::testing::ElementsAre;

constexpr Time kSaved = Time(Duration(1'790'000'000'000'000));

Document named(std::string name) {
  return {.kind = DocumentKind::report,
          .project = "demo",
          .user = "ann",
          .name = std::move(name),
          .text = "# A 'title'",
          .changed = kSaved};
}

model::AuditRecord audit_record() {
  return {.time = kSaved, .user = "ann", .action = "document.save", .target = "report 1"};
}

class DocumentStoreTest : public ::testing::Test {
 protected:
  std::vector<std::string> names(const DocumentFilter& filter) {
    std::vector<std::string> found;
    for (const Document& document : store_.list(filter).value()) found.push_back(document.name);
    return found;
  }

  std::unique_ptr<Database> database_ = Database::in_memory().value();
  DocumentStore store_{*database_};
};

TEST_F(DocumentStoreTest, ADocumentIsReadAsItWasAdded) {
  Document document = named("weekly");
  document.id = store_.add(document, audit_record()).value();
  EXPECT_EQ(store_.find(document.id).value(), document);
  EXPECT_EQ(store_.find(document.id + 1).error().code, Code::not_found);
}

TEST_F(DocumentStoreTest, TheOnesThatChangedLastComeFirst) {
  Document first = named("first");
  first.id = store_.add(first, audit_record()).value();
  ASSERT_TRUE(store_.add(named("second"), audit_record()));
  first.changed += Duration(1);
  first.version = 2;
  ASSERT_TRUE(store_.change(first, 1, audit_record()));
  EXPECT_THAT(names({.kind = DocumentKind::report}), ElementsAre("first", "second"));
}

TEST_F(DocumentStoreTest, AChangeOfAnOlderVersionIsRefused) {
  Document document = named("weekly");
  document.id = store_.add(document, audit_record()).value();
  document.version = 2;
  ASSERT_TRUE(store_.change(document, 1, audit_record()));
  document.text = "lost";
  EXPECT_EQ(store_.change(document, 1, audit_record()).error().code, Code::invalid);
  EXPECT_EQ(store_.find(document.id).value().text, "# A 'title'");
}

TEST_F(DocumentStoreTest, AListHasThoseOfTheUserAndOfTheProjects) {
  Document other = named("other");
  other.project = "vision";
  other.user = "bob";
  ASSERT_TRUE(store_.add(named("weekly"), audit_record()));
  ASSERT_TRUE(store_.add(other, audit_record()));
  const auto kind = DocumentKind::report;
  EXPECT_THAT(names({.kind = kind, .user = "bob"}), ElementsAre("other"));
  EXPECT_THAT(names({.kind = kind, .projects = {{"demo", "x"}}}), ElementsAre("weekly"));
  EXPECT_THAT(names({.kind = kind, .projects = {{}}}), ElementsAre());
  EXPECT_EQ(store_.count_of("bob").value(), 1);
}

TEST_F(DocumentStoreTest, ARemovedDocumentIsGone) {
  const std::int64_t id = store_.add(named("weekly"), audit_record()).value();
  ASSERT_TRUE(store_.remove(id, audit_record()));
  EXPECT_EQ(store_.find(id).error().code, Code::not_found);
}

TEST_F(DocumentStoreTest, ViewsLeaveWithTheirUserAndReportsWithTheirProject) {
  Document view = named("failed");
  view.kind = DocumentKind::view;
  view.project = "";
  Document elsewhere = named("elsewhere");
  elsewhere.project = "vision";
  for (const Document& document : {view, named("weekly"), elsewhere})
    ASSERT_TRUE(store_.add(document, audit_record()));
  view.user = "bob";
  ASSERT_TRUE(store_.add(view, audit_record()));
  SqlIdentityStore people(*database_);
  ASSERT_TRUE(people.commit({{identity::User{.name = "ann", .removed = kSaved}}}, {}));
  EXPECT_EQ(store_.count_of("ann").value(), 2) << "her reports are the projects'";
  EXPECT_EQ(store_.count_of("bob").value(), 1);
  ASSERT_TRUE(
      people.commit({{.row = identity::Project{.name = "demo"}, .removed = true}}, audit_record()));
  EXPECT_THAT(names({.kind = DocumentKind::report}), ElementsAre("elsewhere"));
}

}  // namespace
}  // namespace lockstep::store
