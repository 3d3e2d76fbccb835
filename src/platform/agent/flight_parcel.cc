#include "platform/agent/flight_parcel.h"

#include <vector>

#include "base/files.h"
#include "comm/flight/brief.h"
#include "comm/flight/log.h"
#include "net/base64.h"

namespace lockstep {
namespace {

// Less than so many operations would not show who waits for whom.
constexpr std::size_t kOperationsLeast = 16;

bool is_of(const FlightLog& log, const FlightPlace& place) {
  if (!place.is_shared) return true;
  const int rank = log.started_as.value_or(-1) - place.first_rank;
  return rank >= 0 && rank < place.ranks && log.begun >= place.since;
}

std::vector<std::filesystem::path> records_in(const FlightPlace& place) {
  auto files = list_folder(place.folder).value_or(std::vector<std::filesystem::path>());
  std::erase_if(files, [&](const auto& path) {
    if (!is_flight_file(path)) return true;
    if (!place.is_shared) return false;
    const auto log = read_flight_file(path);
    return !log || !is_of(*log, place);
  });
  return files;
}

}  // namespace

api::FlightDelivery pack_flight(const FlightPlace& place, std::size_t bytes_most) {
  auto files = records_in(place);
  api::FlightDelivery delivery;
  while (!files.empty() && operations_in_excerpt(bytes_most / files.size()) < kOperationsLeast) {
    files.pop_back();
    ++delivery.left_out;
  }
  for (const auto& path : files) {
    const auto record = copy_flight_file(path);
    if (!record) continue;
    const auto excerpt = flight_excerpt(*record, operations_in_excerpt(bytes_most / files.size()));
    const auto log = parse_flight(excerpt);
    if (!log) continue;
    delivery.records.push_back({to_base64(excerpt), state_of_process(*log) == ProcessState::ended});
  }
  return delivery;
}

}  // namespace lockstep
