#include "platform/agent/link/flight_packing.h"

#include <vector>

#include "base/os/files.h"
#include "comm/flight/log.h"
#include "comm/flight/summary.h"
#include "net/base64.h"

namespace lockstep::agent {
namespace {

// Fewer operations would not show which rank waits for which.
constexpr std::size_t kOperationsMin = 16;

bool belongs_to(const comm::FlightLog& log, const FlightSource& source) {
  if (!source.is_shared) return true;
  const int rank = log.launch_rank.value_or(-1) - source.first_rank;
  return rank >= 0 && rank < source.ranks && log.recorded_since >= source.since;
}

std::vector<std::filesystem::path> records_in(const FlightSource& source) {
  auto files = list_folder(source.folder).value_or(std::vector<std::filesystem::path>());
  std::erase_if(files, [&](const auto& path) {
    if (!comm::is_flight_file(path)) return true;
    if (!source.is_shared) return false;
    const auto log = comm::read_flight_file(path);
    return !log || !belongs_to(*log, source);
  });
  return files;
}

}  // namespace

api::FlightDelivery pack_flight_records(const FlightSource& source, std::size_t bytes_most) {
  auto files = records_in(source);
  api::FlightDelivery delivery;
  while (!files.empty() &&
         comm::operations_in_excerpt(bytes_most / files.size()) < kOperationsMin) {
    files.pop_back();
    ++delivery.left_out;
  }
  for (const auto& path : files) {
    const auto record = comm::copy_flight_file(path);
    if (!record) continue;
    const auto excerpt =
        comm::flight_excerpt(*record, comm::operations_in_excerpt(bytes_most / files.size()));
    const auto log = comm::parse_flight(excerpt);
    if (!log) continue;
    delivery.records.push_back(
        {net::to_base64(excerpt), comm::state_of_process(*log) == comm::ProcessState::ended});
  }
  return delivery;
}

}  // namespace lockstep::agent
