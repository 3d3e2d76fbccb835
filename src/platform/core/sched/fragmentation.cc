#include "platform/core/sched/fragmentation.h"

namespace lockstep {
namespace {

// What is left of `free`, summed over the sizes 1, 2, 4, ... up to `most`.
int of_no_use(int free, int most) {
  int sum = 0;
  for (int size = 1; size <= most; size *= 2) sum += free % size;
  return sum;
}

}  // namespace

int host_growth(int free, int devices, int most) {
  return of_no_use(free - devices, most) - of_no_use(free, most);
}

int pod_growth(int empty, int hosts, int all) {
  return of_no_use(empty - hosts, all) - of_no_use(empty, all);
}

}  // namespace lockstep
