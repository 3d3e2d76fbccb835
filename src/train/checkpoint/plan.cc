#include "train/checkpoint/plan.h"

#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/gather.h"
#include "train/checkpoint/random.h"
#include "train/checkpoint/state.h"

namespace lockstep {
namespace {

constexpr JsonLimits kToldLimits{.size = 1_GiB, .depth = 8};

Result<HeldPart> holding_of(const OwnedTensor& tensor) {
  const auto type = element_type(tensor.tensor.scalar_type());
  if (!type)
    return Error{Code::invalid,
                 lockstep::format("{} has elements of type {}, which checkpoints do "
                                  "not hold",
                                  tensor.name, c10::toString(tensor.tensor.scalar_type()))};
  LS_CHECK(tensor.tensor.dim() == 1 && tensor.tensor.is_contiguous() &&
               tensor.tensor.numel() == tensor.owned.end - tensor.owned.begin,
           "{} is exactly what is owned of it", tensor.name);
  return HeldPart{tensor.name,        *type, tensor.shape, tensor.owned.begin, tensor.owned.end,
                  tensor.copies_equal};
}

Result<std::vector<HeldPart>> holdings_of(const std::vector<OwnedTensor>& tensors) {
  std::vector<HeldPart> holdings;
  for (const auto& tensor : tensors) holdings.push_back(TRY(holding_of(tensor)));
  return holdings;
}

// All but the random state, which is another on every rank: so replicas say the same words, and
// those are read once.
Result<std::string> told(const Result<std::vector<HeldPart>>& form) {
  if (!form) return form.error();
  const std::vector<HeldPart> state(form->begin(), form->end() - 1);
  return dump_json(to_json(state));
}

HeldPart row_of(const HeldPart& row, int rank) {
  HeldPart other = row;
  other.begin = rank * (row.end - row.begin);
  other.end = other.begin + (row.end - row.begin);
  return other;
}

Result<std::vector<HeldAlike>> holders_of(const std::vector<std::string>& words,
                                          const HeldPart& row) {
  std::map<std::string_view, std::vector<std::int64_t>> alike;
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    alike[words[rank]].push_back(static_cast<std::int64_t>(rank));
  std::vector<HeldAlike> holders;
  for (auto& [said, ranks] : alike)
    holders.push_back({std::move(ranks),
                       TRY(from_json<std::vector<HeldPart>>(TRY(parse_json(said, kToldLimits))))});
  for (std::size_t rank = 0; rank < words.size(); ++rank)
    holders.push_back({{static_cast<std::int64_t>(rank)}, {row_of(row, static_cast<int>(rank))}});
  return holders;
}

// What the division gives to this rank.
std::vector<PlannedSlice> slices_of(const Division& division, const std::vector<HeldPart>& form,
                                    int rank) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < form.size(); ++i) index[form[i].name] = i;
  std::vector<PlannedSlice> slices;
  for (const auto& tensor : division.tensors)
    for (const auto& slice : tensor.slices)
      if (slice.file == rank) {
        const auto at = index.at(tensor.name);
        slices.push_back({at, slice.begin - form[at].begin, slice.end - slice.begin, slice.offset});
      }
  return slices;
}

}  // namespace

Result<SavePlan> make_plan(const std::vector<OwnedTensor>& tensors, Comm& group) {
  auto form = holdings_of(tensors);
  const auto words = TRY(gather(group, told(form), "which rank holds which part of the state"));
  auto division = TRY(divide(TRY(holders_of(words, form->back())), group.size()));
  SavePlan plan;
  plan.slices = slices_of(division, *form, group.rank());
  plan.file_size = division.sizes[static_cast<std::size_t>(group.rank())];
  plan.tensors = std::move(division.tensors);
  plan.form = std::move(*form);
  return plan;
}

Result<void> check_form(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const auto form = TRY(holdings_of(tensors));
  if (form == plan.form) return {};
  return Error{Code::invalid,
               "the state has other tensors than at the first save: open a new Checkpointer"};
}

}  // namespace lockstep
