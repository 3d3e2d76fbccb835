#include "comm/flight/folder.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/os/files.h"
#include "comm/flight/torch_dump/torch_dump.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

// A file may be there whose name ends in a number by chance.
bool may_be_dump(const std::string& bytes) {
  return bytes.starts_with('\x80') || bytes.starts_with('{');
}

Result<std::vector<FlightLog>> read_dump(const fs::path& path, int rank) {
  const auto bytes = TRY(read_file(path));
  if (!may_be_dump(bytes)) return std::vector<FlightLog>();
  auto logs = torch_dump::parse_torch_dump(bytes, rank);
  if (!logs)
    return std::move(logs).error().with_context(
        format("{} is no dump of torch's flight recorder", path.string()));
  return logs;
}

}  // namespace

Result<FlightFolder> read_flight_folder(const fs::path& folder) {
  FlightFolder read;
  std::vector<FlightLog> dumped;
  std::error_code ignored;
  for (const fs::path& path : TRY(list_folder(folder))) {
    if (is_flight_file(path)) {
      auto log = read_flight_file(path);
      if (log)
        read.logs.push_back(*std::move(log));
      else
        read.refused.push_back(std::move(log).error());
    } else if (const auto rank = torch_dump::rank_of_torch_dump(path.filename().string());
               rank && fs::is_regular_file(path, ignored)) {
      auto logs = read_dump(path, *rank);
      if (logs)
        std::ranges::move(*logs, std::back_inserter(dumped));
      else
        read.refused.push_back(std::move(logs).error());
    }
  }
  torch_dump::complete_torch_groups(dumped);
  std::ranges::move(dumped, std::back_inserter(read.logs));
  if (!read.logs.empty() || !read.refused.empty()) return read;
  return Error{
      Code::not_found,
      format("{} has no flight records (*{}, or torch's nccl_trace_rank_*); start ranks "
             "with {}={} to have some",
             folder.string(), kFlightFileExtension, kFlightFolderVariable, folder.string())};
}

}  // namespace lockstep::comm
