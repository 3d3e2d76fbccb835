#include "platform/core/sched/capacity/fragmentation.h"

namespace lockstep::sched {
namespace {

// The remainder of `free`, summed over the sizes 1, 2, 4, ... up to `most`.
int unusable_free(int free, int most) {
  int sum = 0;
  for (int size = 1; size <= most; size *= 2) sum += free % size;
  return sum;
}

}  // namespace

int host_growth(int free, int devices, int most) {
  return unusable_free(free - devices, most) - unusable_free(free, most);
}

int pod_growth(int empty, int hosts, int all) {
  return unusable_free(empty - hosts, all) - unusable_free(empty, all);
}

}  // namespace lockstep::sched
