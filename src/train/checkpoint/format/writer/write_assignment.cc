#include "train/checkpoint/format/writer/write_assignment.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

using Ranks = std::vector<std::int64_t>;

// One interval, held by one rank.
struct HeldInterval {
  std::int64_t begin;
  std::int64_t end;
  const Ranks* ranks;
};

// One tensor, and all parts of it that ranks hold.
struct TensorHolders {
  const HeldPart* tensor;
  std::vector<HeldInterval> held;
};

// Part of a tensor that the same ranks hold throughout.
struct SharedInterval {
  std::size_t tensor;
  std::int64_t begin;
  std::int64_t end;
};

using SharedIntervals = std::map<Ranks, std::vector<SharedInterval>>;

Result<void> check_held_part(const HeldPart& part, const HeldPart& first) {
  const auto elements = elements_of(part.shape);
  if (!elements || part.begin < 0 || part.end < part.begin || part.end > *elements)
    return Error{Code::invalid, format("a rank holds elements {} to {} of {}, which has shape [{}]",
                                       part.begin, part.end, part.name, joined(part.shape, ", "))};
  if (part.type != first.type || part.shape != first.shape ||
      part.copies_equal != first.copies_equal)
    return Error{Code::invalid,
                 format("the ranks do not agree on {}: {} of shape [{}], and {} of shape [{}]",
                        part.name, lockstep::name_of(first.type), joined(first.shape, ", "),
                        lockstep::name_of(part.type), joined(part.shape, ", "))};
  return {};
}

// In the order in which ranks first list the tensors.
Result<std::vector<TensorHolders>> by_tensor(const std::vector<SharedParts>& holders) {
  std::vector<TensorHolders> tensors;
  std::map<std::string_view, std::size_t> index;
  for (const auto& one : holders)
    for (const auto& part : one.parts) {
      const auto [at, added] = index.emplace(part.name, tensors.size());
      if (added) tensors.push_back({&part, {}});
      auto& entry = tensors[at->second];
      TRY(check_held_part(part, *entry.tensor));
      if (part.begin < part.end) entry.held.push_back({part.begin, part.end, &one.ranks});
    }
  return tensors;
}

Ranks united(const std::multiset<const Ranks*>& sets, bool copies_equal) {
  Ranks all;
  for (const auto* ranks : sets) all.insert(all.end(), ranks->begin(), ranks->end());
  std::ranges::sort(all);
  const auto twice = std::ranges::unique(all);
  all.erase(twice.begin(), twice.end());
  if (!copies_equal) all.resize(1);
  return all;
}

// Sweeps over the starts and ends of intervals, with the set of those that are open.
Result<void> add_shared_intervals(const TensorHolders& held_parts, std::size_t tensor,
                                  SharedIntervals& intervals) {
  std::map<std::int64_t, std::vector<const HeldInterval*>> begins, ends;
  std::set<std::int64_t> boundaries{0, *elements_of(held_parts.tensor->shape)};
  for (const auto& held : held_parts.held) {
    begins[held.begin].push_back(&held);
    ends[held.end].push_back(&held);
    boundaries.insert({held.begin, held.end});
  }
  std::multiset<const Ranks*> open;
  for (auto boundary = boundaries.begin(); std::next(boundary) != boundaries.end(); ++boundary) {
    for (const auto* held : ends[*boundary]) open.erase(open.find(held->ranks));
    for (const auto* held : begins[*boundary]) open.insert(held->ranks);
    const auto next = *std::next(boundary);
    if (open.empty())
      return Error{Code::invalid, format("no rank holds elements {} to {} of {}", *boundary, next,
                                         held_parts.tensor->name)};
    intervals[united(open, held_parts.tensor->copies_equal)].push_back({tensor, *boundary, next});
  }
  return {};
}

// The start of part `i` when `bytes` are divided into `parts`, without overflow.
std::int64_t cut(std::int64_t bytes, std::int64_t i, std::int64_t parts) {
  return bytes / parts * i + bytes % parts * i / parts;
}

// Each rank's share of the elements that these ranks have in common: a tensor's slice without its
// offset.
void assign_intervals(const Ranks& ranks, const std::vector<SharedInterval>& intervals,
                      std::vector<SavedTensor>& tensors) {
  const auto parts = static_cast<std::int64_t>(ranks.size());
  std::int64_t bytes = 0;
  for (const auto& stretch : intervals)
    bytes += (stretch.end - stretch.begin) * bytes_of(tensors[stretch.tensor].type);
  std::int64_t before = 0, part = 0;
  for (const auto& stretch : intervals) {
    auto& tensor = tensors[stretch.tensor];
    const auto item = bytes_of(tensor.type);
    for (auto begin = stretch.begin; begin < stretch.end;) {
      while (part + 1 < parts && before >= cut(bytes, part + 1, parts)) ++part;
      const auto room = part + 1 < parts ? cut(bytes, part + 1, parts) - before : bytes - before;
      const auto end = std::min(stretch.end, begin + (room + item - 1) / item);
      tensor.slices.push_back({begin, end, ranks[static_cast<std::size_t>(part)], 0});
      before += (end - begin) * item;
      begin = end;
    }
  }
}

// Assigns every slice its offset in its rank's file.
void assign_offsets(WriteAssignment& assignment) {
  for (auto& tensor : assignment.tensors) {
    std::ranges::sort(tensor.slices, {}, &SavedSlice::begin);
    for (auto& slice : tensor.slices) {
      auto& size = assignment.file_sizes[static_cast<std::size_t>(slice.file)];
      size = (size + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
      slice.offset = size;
      size += (slice.end - slice.begin) * bytes_of(tensor.type);
    }
  }
}

}  // namespace

Result<WriteAssignment> assign_writes(const std::vector<SharedParts>& holders, std::int64_t ranks) {
  const auto tensors = TRY(by_tensor(holders));
  WriteAssignment assignment;
  SharedIntervals intervals;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& what = *tensors[i].tensor;
    assignment.tensors.push_back({what.name, what.type, what.shape, {}});
    TRY(add_shared_intervals(tensors[i], i, intervals));
  }
  for (const auto& [set, parts] : intervals) assign_intervals(set, parts, assignment.tensors);
  assignment.file_sizes.resize(static_cast<std::size_t>(ranks));
  assign_offsets(assignment);
  return assignment;
}

}  // namespace lockstep::train
