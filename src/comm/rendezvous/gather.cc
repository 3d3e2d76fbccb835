#include "comm/rendezvous/gather.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/format.h"
#include "comm/rendezvous/frame.h"

namespace lockstep::comm {
namespace {

constexpr int kBlockRanks = 256;

}  // namespace

Result<std::vector<std::string>> gather(Rendezvous& rendezvous, const WaitForKey& wait_for,
                                        std::string_view name, int rank, int size,
                                        std::string_view value) {
  const auto block_key = [&](int first) { return format("{}-block-{}", name, first); };
  const auto end_of = [&](int first) { return std::min(first + kBlockRanks, size); };
  TRY(rendezvous.set(format("{}-{}", name, rank), value));
  if (rank % kBlockRanks == 0) {
    std::vector<std::string> block;
    for (int one = rank; one < end_of(rank); ++one)
      block.push_back(one == rank ? std::string(value) : TRY(wait_for(format("{}-{}", name, one))));
    TRY(rendezvous.set(block_key(rank), join_fields(block)));
  }
  std::vector<std::string> values;
  for (int first = 0; first < size; first += kBlockRanks) {
    const auto count = static_cast<std::size_t>(end_of(first) - first);
    auto block = TRY(split_fields(TRY(wait_for(block_key(first))), count));
    std::ranges::move(block, std::back_inserter(values));
  }
  return values;
}

}  // namespace lockstep::comm
