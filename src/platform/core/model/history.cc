#include "platform/core/model/history.h"

#include <algorithm>

namespace lockstep::model {
namespace {

void raise(std::int64_t& known, std::int64_t to) { known = std::max(known, to); }

void record_issued(StoreHistory& history, const Run& run) {
  raise(history.numbers[run.id.project], run.id.number);
}
void record_issued(StoreHistory& history, const StoreRow& store) {
  raise(history.issued[store.generation], store.issued);
}
void record_issued(StoreHistory&, const auto&) {}

}  // namespace

void record_issued(StoreHistory& history, std::span<const Change> rows) {
  for (const Change& change : rows)
    std::visit([&](const auto& row) { record_issued(history, row); }, change);
}

void record_issued(StoreHistory& history, const State& state) {
  for (const auto& [id, run] : state.runs) record_issued(history, run);
  for (const auto& [project, number] : state.numbers) raise(history.numbers[project], number);
  record_issued(history, state.store);
}

std::int64_t missing_from_store(const StoreRow& store, const StoreHistory& history) {
  const auto known = history.issued.find(store.generation);
  return known == history.issued.end() ? 0
                                       : std::max<std::int64_t>(0, known->second - store.issued);
}

}  // namespace lockstep::model
