#include "platform/core/sched/capacity/slot_index.h"

#include <map>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep {
namespace {

// Compares with a map; bad hashes cause many collisions.
TEST(SlotIndex, FindsWhatWasAddedAndNothingElse) {
  Random random(3);
  SlotIndex index;
  std::map<int, int> slots;  // by key
  std::vector<int> keys;     // by slot
  const auto hash_of = [](int key) { return static_cast<std::size_t>(key % 37) << 32; };
  const auto find = [&](int key) {
    return index.find(hash_of(key),
                      [&](int slot) { return keys[static_cast<std::size_t>(slot)] == key; });
  };
  for (int round = 0; round < 20'000; ++round) {
    const int key = static_cast<int>(random.below(400));
    const auto known = slots.find(key);
    if (known == slots.end()) {
      EXPECT_EQ(find(key), std::nullopt);
      slots[key] = static_cast<int>(keys.size());
      index.add(hash_of(key), slots[key]);
      keys.push_back(key);
    } else {
      EXPECT_EQ(find(key), known->second);
      index.remove(hash_of(key), known->second);
      slots.erase(known);
    }
  }
  for (int key = 0; key < 400; ++key)
    EXPECT_EQ(find(key).has_value(), slots.contains(key)) << "key " << key;
}

}  // namespace
}  // namespace lockstep
