#include "platform/store/history_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::store {
namespace {

using ::testing::HasSubstr;

TEST(HistoryFile, KeepsWhatItIsGiven) {
  const TemporaryFolder folder;
  HistoryFile file(folder / "stores.json");
  EXPECT_EQ(file.load().value(), model::StoreHistory());
  const model::StoreHistory history{.issued = {{"3f9c0a5e7d21b864", 7}}, .numbers = {{"demo", 12}}};
  ASSERT_TRUE(file.store(history));
  EXPECT_EQ(HistoryFile(folder / "stores.json").load().value(), history);
}

TEST(HistoryFile, NamesEachStoreAnew) {
  HistoryFile file("unused");
  const std::string one = file.new_generation();
  EXPECT_EQ(one.size(), 16u);
  EXPECT_TRUE(model::check_generation(one));
  EXPECT_NE(one, file.new_generation());
}

TEST(HistoryFile, ThatIsDamagedIsRefusedWithTheRemedy) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder / "stores.json", "{"));
  const auto history = HistoryFile(folder / "stores.json").load();
  ASSERT_FALSE(history);
  EXPECT_EQ(history.error().code, Code::corrupt);
  EXPECT_THAT(history.error().message, HasSubstr("put back a copy of it, or remove it"));
}

}  // namespace
}  // namespace lockstep::store
