#include "platform/item/item.h"

#include <algorithm>

namespace lockstep {

int line_count(const Item& item) {
  if (item.kind != ItemKind::log) return 0;
  return 1 + static_cast<int>(std::ranges::count(item.text, '\n'));
}

}  // namespace lockstep
