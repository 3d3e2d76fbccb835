// FiniteLooks: who had the first value that is not finite, and where. Reductions spread it to all
// ranks, so each looks at what it computes by itself: the outputs of blocks, the loss, its own
// gradients before they are reduced.
//
// A look is a sum: finite only if every element is (or so large that their sum overflows, which is
// as bad). Nobody asks for its value, which on a GPU would stop the stream, until the ranks have
// agreed on a norm that is not finite. Then each tells where in its step it had the first, and the
// least place is it, since all ranks run the same program; of equals the lowest rank.
//
// Cost: a block's output is read once more, which is nothing beside what the block computes. Of
// gradients only what is divided, piece by piece while it lies in the cache: without shard groups
// each rank's own, with them the shard that hop 1 has summed, since nothing else touches all of
// them. So what first goes wrong in backward is told of a rank there, and of a replica here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "train/comm.h"

namespace lockstep {

// Where the first value was that is not finite.
struct NotFinite {
  static constexpr int kNobody = -1;  // each rank's own are finite: their sum is not

  int rank = kNobody;
  std::string what;  // "the loss in micro-step 2", "the gradients of unit 3 (layers.5)"
  // It was in the sum of a shard group's gradients: of some rank of this one's replica.
  bool of_replica = false;

  // "rank 2 has the first value that is not finite, in the loss in micro-step 2"
  std::string words() const;
};

class FiniteLooks {
 public:
  // What is looked at: an output of a block, the loss, the gradients of a unit.
  enum class Kind : std::uint8_t { output, loss, gradients };
  struct Place {
    Kind kind = Kind::output;
    int index = 0;       // of the block or unit
    int micro_step = 1;  // counted from one

    friend bool operator==(const Place&, const Place&) = default;
  };
  struct First {
    int rank = NotFinite::kNobody;
    Place place;
  };

  // Tensors that are not floats are passed over.
  void look(Place place, const at::Tensor& tensor);
  // to = from / divisor (moves.h), and a look at it meanwhile.
  void divide(Place place, const at::Tensor& to, const at::Tensor& from, int divisor);
  // A step is over, whatever became of it.
  void forget() { looks_.clear(); }

  // Collective, once the ranks know that something is not finite. Nothing if each of them had
  // finite values only.
  Result<std::optional<First>> first(Comm& world) const;

 private:
  struct Look {
    Place place;
    double sum;             // unless it is on a device:
    at::Tensor device_sum;  // not read before it must be
  };
  // Of forwards that no step follows there is no end.
  static constexpr std::size_t kMost = 65'536;

  std::int64_t own_first() const;

  std::vector<Look> looks_;  // in the order of the program
};

}  // namespace lockstep
