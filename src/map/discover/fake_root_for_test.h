// The files of NVIDIA's driver on a made-up machine.
#pragma once

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::map {

// A folder that looks like the root of a machine.
class FakeRoot {
 public:
  FakeRoot() { EXPECT_TRUE(make_folders(folder_ / "dev")); }

  void add_card(const std::string& pci, const std::string& information) {
    auto folder = folder_ / "proc/driver/nvidia/gpus" / pci;
    EXPECT_TRUE(make_folders(folder));
    EXPECT_TRUE(write_file(folder / "information", information));
  }
  void add_device(const std::string& name) { EXPECT_TRUE(write_file(folder_ / "dev" / name, "")); }
  void add_file(const std::filesystem::path& path) {
    add_folder(path.parent_path());
    EXPECT_TRUE(write_file(folder_ / path, ""));
  }
  void add_folder(const std::filesystem::path& path) { EXPECT_TRUE(make_folders(folder_ / path)); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  const TemporaryFolder folder_;
};

}  // namespace lockstep::map
