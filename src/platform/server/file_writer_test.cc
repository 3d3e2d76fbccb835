#include "platform/server/file_writer.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::server {
namespace {

class FileWriterTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "node-0" / "flight.json";
};

TEST_F(FileWriterTest, WritesWhatWaitsBeforeItEnds) {
  {
    FileWriter writer;
    EXPECT_TRUE(writer.write(file_, "one"));
    EXPECT_TRUE(writer.write(file_, "two"));
  }
  EXPECT_EQ(read_file(file_).value(), "two");
}

TEST_F(FileWriterTest, AContentThatIsNotWrittenYetCanBeRead) {
  FileWriter writer;
  EXPECT_FALSE(writer.waiting(file_));
  EXPECT_TRUE(writer.write(file_, "one"));
  const auto waiting = writer.waiting(file_);
  EXPECT_EQ(waiting ? *waiting : read_file(file_).value(), "one");
}

TEST_F(FileWriterTest, WhatIsTooMuchIsRefused) {
  FileWriter writer(Bytes(10));
  EXPECT_FALSE(writer.write(file_, "more than ten"));
  EXPECT_TRUE(writer.write(file_, "ten bytes!"));
}

TEST_F(FileWriterTest, AFileThatCannotBeWrittenDoesNotKeepTheNext) {
  {
    FileWriter writer;
    ASSERT_TRUE(write_file(folder_ / "a-file", "no folder"));
    EXPECT_TRUE(writer.write(folder_ / "a-file" / "below", "lost"));
    EXPECT_TRUE(writer.write(file_, "kept"));
  }
  EXPECT_EQ(read_file(file_).value(), "kept");
}

}  // namespace
}  // namespace lockstep::server
