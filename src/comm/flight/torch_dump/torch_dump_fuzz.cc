#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/flight/torch_dump/pickle_for_test.h"
#include "comm/flight/torch_dump/torch_dump.h"
#include "text/json.h"

using namespace lockstep;
using namespace lockstep::comm;
using namespace lockstep::comm::torch_dump;

namespace {

Json dump() {
  const Json entry = {{"process_group", Json::array({"0", "default_pg"})},
                      {"collective_seq_id", 3},
                      {"profiling_name", "nccl:all_reduce"},
                      {"time_created_ns", 1'800'000'000'000'000'000},
                      {"input_sizes", Json::array({Json::array({3, 4})})},
                      {"input_dtypes", Json::array({"Float"})},
                      {"state", "started"},
                      {"retired", true},
                      {"timeout_ms", 1000}};
  const Json groups = {{"0", {{"ranks", "[0, 1]"}}}};
  return {{"version", "2.10"}, {"pg_config", groups}, {"entries", Json::array({entry, entry})}};
}

}  // namespace

LS_FUZZ(torch_dump, {testing_pickle::PickleWriter::pickled(dump()), dump_json(dump())}) {
  auto logs = parse_torch_dump(input, 1);
  if (!logs) return;
  complete_torch_groups(*logs);
  for (const FlightLog& log : *logs) {
    LS_CHECK(!log.members.empty());
    (void)log.last_seen();
  }
}
