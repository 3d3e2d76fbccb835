#include "train/checkpoint/save_plan.h"

#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/random_state.h"
#include "train/checkpoint/state.h"
#include "train/checkpoint/text_collectives.h"

namespace lockstep::train {
namespace {

constexpr JsonLimits kHeldPartsLimits{.size = 1_GiB, .depth = 8};

Result<HeldPart> held_part_of(const OwnedTensor& tensor) {
  const auto type = data_type_of(tensor.tensor.scalar_type());
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

Result<std::vector<HeldPart>> held_parts_of(const std::vector<OwnedTensor>& tensors) {
  std::vector<HeldPart> holdings;
  for (const auto& tensor : tensors) holdings.push_back(TRY(held_part_of(tensor)));
  return holdings;
}

// All but the random state, which differs on every rank: so replicas send the same text, which is
// parsed once.
Result<std::string> encode_held_parts(const Result<std::vector<HeldPart>>& form) {
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

Result<std::vector<SharedParts>> holders_of(const std::vector<std::string>& encoded_parts,
                                            const HeldPart& row) {
  std::map<std::string_view, std::vector<std::int64_t>> ranks_by_parts;
  for (std::size_t rank = 0; rank < encoded_parts.size(); ++rank)
    ranks_by_parts[encoded_parts[rank]].push_back(static_cast<std::int64_t>(rank));
  std::vector<SharedParts> holders;
  for (auto& [encoded, ranks] : ranks_by_parts)
    holders.push_back({std::move(ranks), TRY(from_json<std::vector<HeldPart>>(
                                             TRY(parse_json(encoded, kHeldPartsLimits))))});
  for (std::size_t rank = 0; rank < encoded_parts.size(); ++rank)
    holders.push_back({{static_cast<std::int64_t>(rank)}, {row_of(row, static_cast<int>(rank))}});
  return holders;
}

// The slices that are assigned to this rank.
std::vector<PlannedSlice> slices_of(const WriteAssignment& assignment,
                                    const std::vector<HeldPart>& form, int rank) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < form.size(); ++i) index[form[i].name] = i;
  std::vector<PlannedSlice> slices;
  for (const auto& tensor : assignment.tensors)
    for (const auto& slice : tensor.slices)
      if (slice.file == rank) {
        const auto at = index.at(tensor.name);
        slices.push_back({at, slice.begin - form[at].begin, slice.end - slice.begin, slice.offset});
      }
  return slices;
}

}  // namespace

Result<SavePlan> make_save_plan(const std::vector<OwnedTensor>& tensors, Comm& group) {
  auto form = held_parts_of(tensors);
  const auto encoded_parts = TRY(
      all_gather_text(group, encode_held_parts(form), "which rank holds which part of the state"));
  auto assignment = TRY(assign_writes(TRY(holders_of(encoded_parts, form->back())), group.size()));
  SavePlan plan;
  plan.slices = slices_of(assignment, *form, group.rank());
  plan.file_size = assignment.file_sizes[static_cast<std::size_t>(group.rank())];
  plan.tensors = std::move(assignment.tensors);
  plan.held_parts = std::move(*form);
  return plan;
}

Result<void> check_held_parts(const SavePlan& plan, const std::vector<OwnedTensor>& tensors) {
  const auto form = TRY(held_parts_of(tensors));
  if (form == plan.held_parts) return {};
  return Error{Code::invalid,
               "the state has other tensors than at the first save: open a new Checkpointer"};
}

}  // namespace lockstep::train
