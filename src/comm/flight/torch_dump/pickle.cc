#include "comm/flight/torch_dump/pickle.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace lockstep::comm::torch_dump {
namespace {

// The operations, with the names that Python's pickletools gives them.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinUnicode = 'X',
  kBinFloat = 'G',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
};

struct Item {
  Json value;
  std::size_t depth = 0;
  std::size_t bytes = 0;                  // with all values in it
  std::optional<std::size_t> place = {};  // in the memo
};

class Machine {
 public:
  Machine(std::string_view pickle, const PickleLimits& limits) : left_(pickle), limits_(limits) {}

  Result<Json> run() {
    const std::size_t size = left_.size();
    for (;;) {
      const std::size_t at = size - left_.size();
      const auto opcode = static_cast<unsigned char>(TRY(number(1)));
      if (opcode == kStop) break;
      if (auto done = execute(opcode); !done)
        return std::move(done).error().with_context(format("byte {}", at));
    }
    if (stack_.size() != 1 || !marks_.empty())
      return Error{Code::corrupt, format("it ends with {} values", stack_.size())};
    return std::move(stack_.back().value);
  }

 private:
  Result<void> execute(unsigned char opcode) {
    switch (opcode) {
      case kProto:
        return protocol(TRY(number(1)));
      case kMark:
        marks_.push_back(stack_.size());
        return {};
      case kNone:
        return push(nullptr);
      case kNewTrue:
      case kNewFalse:
        return push(opcode == kNewTrue);
      case kBinInt1:
        return push(TRY(number(1)));
      case kBinInt2:
        return push(TRY(number(2)));
      case kBinInt:
        return push(static_cast<std::int32_t>(TRY(number(4))));
      case kLong1:
        return push_long(TRY(number(1)));
      case kBinFloat:
        return push_float();
      case kBinUnicode:
        return push(std::string(TRY(bytes(TRY(number(4))))));
      case kEmptyDict:
        return push(Json::object());
      case kEmptyList:
      case kEmptyTuple:
        return push(Json::array());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return tuple(static_cast<std::size_t>(opcode - kTuple1) + 1);
      case kTuple:
        return tuple(TRY(after_mark()));
      case kAppend:
        return append(1);
      case kAppends:
        return append(TRY(after_mark()));
      case kSetItem:
        return set_items(2);
      case kSetItems:
        return set_items(TRY(after_mark()));
      case kBinPut:
        return put(TRY(number(1)));
      case kLongBinPut:
        return put(TRY(number(4)));
      case kBinGet:
        return get(TRY(number(1)));
      case kLongBinGet:
        return get(TRY(number(4)));
      default:
        return Error{
            Code::corrupt,
            format("operation {:#04x} builds no plain value, so it is not executed", opcode)};
    }
  }

  Result<std::string_view> bytes(std::size_t count) {
    if (count > left_.size()) return Error{Code::corrupt, "it ends in the middle"};
    const auto taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  // With the lowest byte first.
  Result<std::uint64_t> number(std::size_t count) {
    std::uint64_t value = 0;
    const auto taken = TRY(bytes(count));
    for (std::size_t i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  static Result<void> protocol(std::uint64_t version) {
    if (version == 2) return {};
    return Error{Code::corrupt, format("it has pickle's protocol {}, not 2", version)};
  }

  Result<void> count(std::size_t size) {
    built_ += size;
    if (built_ <= static_cast<std::size_t>(limits_.built.count())) return {};
    return Error{Code::exhausted,
                 format("it builds more than {} of values", lockstep::text(limits_.built))};
  }

  Result<void> push(Json value) {
    const std::size_t text = value.is_string() ? value.get_ref<std::string&>().size() : 0;
    return push(Item{.value = std::move(value), .bytes = sizeof(Item) + text});
  }

  Result<void> push(Item item) {
    TRY(count(item.bytes));
    stack_.push_back(std::move(item));
    return {};
  }

  Result<void> push_long(std::size_t length) {
    if (length > 8) return Error{Code::corrupt, format("a number has {} bytes", length)};
    const auto value = TRY(number(length));
    const std::size_t unused = 64 - 8 * length;
    // The highest bit is the sign.
    return push(length == 0 ? std::int64_t{0}
                            : static_cast<std::int64_t>(value << unused) >> unused);
  }

  // With the highest byte first.
  Result<void> push_float() {
    std::uint64_t value = 0;
    for (const char byte : TRY(bytes(8))) value = value << 8 | static_cast<unsigned char>(byte);
    return push(std::bit_cast<double>(value));
  }

  // How many values follow the last mark, which it takes away.
  Result<std::size_t> after_mark() {
    if (marks_.empty()) return Error{Code::corrupt, "a mark is missing"};
    const std::size_t from = marks_.back();
    marks_.pop_back();
    return stack_.size() - from;
  }

  Result<void> require(std::size_t values) const {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + values) return Error{Code::corrupt, "a value is missing"};
    return {};
  }

  std::vector<Item> take(std::size_t values) {
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(values);
    std::vector<Item> taken(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
    stack_.erase(from, stack_.end());
    return taken;
  }

  // The memo would have the container as it was before.
  Result<void> nest(Item& container, const Item& value) {
    if (container.place) kept_[*std::exchange(container.place, {})].reset();
    container.bytes += value.bytes;
    container.depth = std::max(container.depth, value.depth + 1);
    if (container.depth <= limits_.depth) return {};
    return Error{Code::corrupt, format("its values are nested more than {} deep", limits_.depth)};
  }

  Result<void> tuple(std::size_t values) {
    TRY(require(values));
    auto taken = take(values);
    TRY(push(Json::array()));
    return add_all(stack_.back(), std::move(taken));
  }

  Result<void> append(std::size_t values) {
    TRY(require(values + 1));
    auto taken = take(values);
    if (!stack_.back().value.is_array()) return Error{Code::corrupt, "a list is missing"};
    return add_all(stack_.back(), std::move(taken));
  }

  Result<void> add_all(Item& list, std::vector<Item> values) {
    for (Item& each : values) {
      TRY(nest(list, each));
      list.value.push_back(std::move(each.value));
    }
    return {};
  }

  Result<void> set_items(std::size_t values) {
    TRY(require(values + 1));
    auto taken = take(values);
    Item& dictionary = stack_.back();
    if (!dictionary.value.is_object() || values % 2 != 0)
      return Error{Code::corrupt, "a dictionary or a value of it is missing"};
    // A key is looked for among all.
    if (dictionary.value.size() + values / 2 > limits_.members)
      return Error{Code::exhausted,
                   format("a dictionary has more than {} members", limits_.members)};
    for (std::size_t i = 0; i < values; i += 2) {
      if (!taken[i].value.is_string()) return Error{Code::corrupt, "a key is no text"};
      TRY(nest(dictionary, taken[i + 1]));
      dictionary.value[taken[i].value.get_ref<std::string&>()] = std::move(taken[i + 1].value);
    }
    return {};
  }

  // Torch keeps a container when it is complete; one that grows afterwards cannot be had again.
  Result<void> put(std::size_t place) {
    TRY(require(1));
    if (place > kept_.size()) return Error{Code::corrupt, "it skips a place of the memo"};
    if (place == kept_.size()) kept_.emplace_back();
    Item& item = stack_.back();
    TRY(count(item.bytes));
    kept_[place] = item;
    item.place = place;
    return {};
  }

  Result<void> get(std::size_t place) {
    if (place < kept_.size() && kept_[place]) return push(*kept_[place]);
    return Error{Code::corrupt, "it repeats a value that was not complete"};
  }

  std::string_view left_;
  const PickleLimits limits_;
  std::vector<Item> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<std::optional<Item>> kept_;
  std::size_t built_ = 0;
};

}  // namespace

Result<Json> parse_pickle(std::string_view pickle, const PickleLimits& limits) {
  return Machine(pickle, limits).run();
}

}  // namespace lockstep::comm::torch_dump
