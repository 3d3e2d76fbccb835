#include "platform/core/model/history.h"

#include <algorithm>

namespace lockstep {
namespace {

void raise(std::int64_t& known, std::int64_t to) { known = std::max(known, to); }

void remember(History& history, const Run& run) {
  raise(history.numbers[run.id.project], run.id.number);
}
void remember(History& history, const StoreRow& store) {
  raise(history.minted[store.generation], store.minted);
}
void remember(History&, const auto&) {}

}  // namespace

void remember(History& history, std::span<const Change> rows) {
  for (const Change& change : rows)
    std::visit([&](const auto& row) { remember(history, row); }, change);
}

void remember(History& history, const State& state) {
  for (const auto& [id, run] : state.runs) remember(history, run);
  remember(history, state.store);
}

std::int64_t missing_in(const StoreRow& store, const History& history) {
  const auto known = history.minted.find(store.generation);
  return known == history.minted.end() ? 0
                                       : std::max<std::int64_t>(0, known->second - store.minted);
}

}  // namespace lockstep
