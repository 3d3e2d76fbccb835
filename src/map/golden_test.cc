// tests/golden/map/NAME.yaml is read as a map; NAME.expected holds the error or, for a good one,
// the tree and the map as it is written. LOCKSTEP_UPDATE_GOLDEN=1 writes the expected files anew.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "map/file.h"
#include "map/tree.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> cases() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(LOCKSTEP_GOLDEN) / "map"))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string outcome(const fs::path& path) {
  auto map = parse_map(read_file(path).value(), path.filename().string());
  if (!map) return map.error().message + "\n";
  return text(*map) + "\n" + dump_map(*map);
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, IsReadAsExpected) {
  fs::path expected = fs::path(GetParam()).replace_extension(".expected");
  std::string got = outcome(GetParam());
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(expected, got, 0644));
  }
  EXPECT_EQ(got, read_file(expected).value_or("(no such file)"));
}

INSTANTIATE_TEST_SUITE_P(Map, Golden, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.stem();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep
