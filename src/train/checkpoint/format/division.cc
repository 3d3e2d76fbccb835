#include "train/checkpoint/format/division.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep {
namespace {

using Ranks = std::vector<std::int64_t>;

// One interval, held by somebody.
struct Held {
  std::int64_t begin;
  std::int64_t end;
  const Ranks* ranks;
};

// One tensor, and all that is held of it.
struct Told {
  const HeldPart* what;
  std::vector<Held> held;
};

// Part of a tensor that the same ranks hold throughout.
struct Stretch {
  std::size_t tensor;
  std::int64_t begin;
  std::int64_t end;
};

using Stretches = std::map<Ranks, std::vector<Stretch>>;

Result<void> check_holding(const HeldPart& holding, const HeldPart& first) {
  const auto elements = elements_of(holding.shape);
  if (!elements || holding.begin < 0 || holding.end < holding.begin || holding.end > *elements)
    return Error{Code::invalid,
                 format("a rank holds elements {} to {} of {}, which has shape [{}]", holding.begin,
                        holding.end, holding.name, joined(holding.shape, ", "))};
  if (holding.type != first.type || holding.shape != first.shape ||
      holding.copies_equal != first.copies_equal)
    return Error{Code::invalid,
                 format("the ranks do not agree on {}: {} of shape [{}], and {} of shape [{}]",
                        holding.name, name_of(first.type), joined(first.shape, ", "),
                        name_of(holding.type), joined(holding.shape, ", "))};
  return {};
}

// In the order in which tensors are first told of.
Result<std::vector<Told>> by_tensor(const std::vector<HeldAlike>& holders) {
  std::vector<Told> tensors;
  std::map<std::string_view, std::size_t> index;
  for (const auto& one : holders)
    for (const auto& holding : one.holdings) {
      const auto [at, added] = index.emplace(holding.name, tensors.size());
      if (added) tensors.push_back({&holding, {}});
      auto& told = tensors[at->second];
      TRY(check_holding(holding, *told.what));
      if (holding.begin < holding.end)
        told.held.push_back({holding.begin, holding.end, &one.ranks});
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

// Sweeps over the places where an interval begins or ends, with the set of those that are open.
Result<void> add_stretches(const Told& told, std::size_t tensor, Stretches& stretches) {
  std::map<std::int64_t, std::vector<const Held*>> begins, ends;
  std::set<std::int64_t> places{0, *elements_of(told.what->shape)};
  for (const auto& held : told.held) {
    begins[held.begin].push_back(&held);
    ends[held.end].push_back(&held);
    places.insert({held.begin, held.end});
  }
  std::multiset<const Ranks*> open;
  for (auto place = places.begin(); std::next(place) != places.end(); ++place) {
    for (const auto* held : ends[*place]) open.erase(open.find(held->ranks));
    for (const auto* held : begins[*place]) open.insert(held->ranks);
    const auto next = *std::next(place);
    if (open.empty())
      return Error{Code::invalid,
                   format("no rank holds elements {} to {} of {}", *place, next, told.what->name)};
    stretches[united(open, told.what->copies_equal)].push_back({tensor, *place, next});
  }
  return {};
}

// Where part `i` of `parts` of so many bytes begins, without overflow.
std::int64_t cut(std::int64_t bytes, std::int64_t i, std::int64_t parts) {
  return bytes / parts * i + bytes % parts * i / parts;
}

// Each rank's share of what these ranks hold in common: a tensor's slice without its offset.
void share_out(const Ranks& ranks, const std::vector<Stretch>& stretches,
               std::vector<SavedTensor>& tensors) {
  const auto parts = static_cast<std::int64_t>(ranks.size());
  std::int64_t bytes = 0;
  for (const auto& stretch : stretches)
    bytes += (stretch.end - stretch.begin) * bytes_of(tensors[stretch.tensor].type);
  std::int64_t before = 0, part = 0;
  for (const auto& stretch : stretches) {
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

// Gives every slice its place in its rank's file.
void lay_out(Division& division) {
  for (auto& tensor : division.tensors) {
    std::ranges::sort(tensor.slices, {}, &SavedSlice::begin);
    for (auto& slice : tensor.slices) {
      auto& size = division.sizes[static_cast<std::size_t>(slice.file)];
      size = (size + kSliceAlignment - 1) / kSliceAlignment * kSliceAlignment;
      slice.offset = size;
      size += (slice.end - slice.begin) * bytes_of(tensor.type);
    }
  }
}

}  // namespace

Result<Division> divide(const std::vector<HeldAlike>& holders, std::int64_t ranks) {
  const auto told = TRY(by_tensor(holders));
  Division division;
  Stretches stretches;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const auto& what = *told[i].what;
    division.tensors.push_back({what.name, what.type, what.shape, {}});
    TRY(add_stretches(told[i], i, stretches));
  }
  for (const auto& [set, parts] : stretches) share_out(set, parts, division.tensors);
  division.sizes.resize(static_cast<std::size_t>(ranks));
  lay_out(division);
  return division;
}

}  // namespace lockstep
