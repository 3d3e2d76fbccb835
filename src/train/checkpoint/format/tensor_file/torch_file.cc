#include "train/checkpoint/format/tensor_file/torch_file.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::train {
namespace {

std::string_view storage_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return "FloatStorage";
    case DataType::float64:
      return "DoubleStorage";
    case DataType::float16:
      return "HalfStorage";
    case DataType::bfloat16:
      return "BFloat16Storage";
    case DataType::int64:
      return "LongStorage";
    case DataType::int32:
      return "IntStorage";
    case DataType::int16:
      return "ShortStorage";
    case DataType::int8:
      return "CharStorage";
    case DataType::uint8:
      return "ByteStorage";
    case DataType::boolean:
      return "BoolStorage";
  }
  check_failed("the type is known", "");
}

// The few pickle instructions that are needed, under Python's names for them.
class Pickle {
 public:
  Pickle() { text_ = "\x80\x02"; }  // PROTO 2

  void mark() { text_ += '('; }
  void empty_dict() { text_ += '}'; }
  void set_items() { text_ += 'u'; }
  void empty_tuple() { text_ += ')'; }
  void tuple() { text_ += 't'; }
  void reduce() { text_ += 'R'; }
  void persistent_id() { text_ += 'Q'; }
  void new_false() { text_ += '\x89'; }
  void global(std::string_view module, std::string_view name) {
    text_ += format("c{}\n{}\n", module, name);
  }
  void unicode(std::string_view value) {
    text_ += 'X';
    little_endian(static_cast<std::int64_t>(value.size()), 4);
    text_ += value;
  }
  void number(std::int64_t value) {
    if (value <= std::numeric_limits<std::int32_t>::max()) {
      text_ += 'J';  // BININT
      little_endian(value, 4);
    } else {
      text_ += "\x8a\x08";  // LONG1, of eight bytes
      little_endian(value, 8);
    }
  }
  void numbers(const std::vector<std::int64_t>& values) {
    mark();
    for (const auto value : values) number(value);
    tuple();
  }
  std::string stop() && { return std::move(text_ += '.'); }

 private:
  void little_endian(std::int64_t value, int width) {
    for (int i = 0; i < width; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  std::string text_;
};

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

// _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
void put_tensor(Pickle& pickle, const TorchTensor& tensor, std::size_t index) {
  const auto elements = std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1},
                                        std::multiplies<>());
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.unicode("storage");
  pickle.global("torch", storage_of(tensor.type));
  pickle.unicode(format("{}", index));
  pickle.unicode("cpu");
  pickle.number(elements);
  pickle.tuple();
  pickle.persistent_id();
  pickle.number(0);
  pickle.numbers(tensor.shape);
  pickle.numbers(row_major_strides(tensor.shape));
  pickle.new_false();
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
  pickle.tuple();
  pickle.reduce();
}

}  // namespace

std::string torch_pickle(const std::vector<TorchTensor>& tensors) {
  Pickle pickle;
  pickle.empty_dict();
  pickle.mark();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pickle.unicode(tensors[i].name);
    put_tensor(pickle, tensors[i], i);
  }
  pickle.set_items();
  return std::move(pickle).stop();
}

}  // namespace lockstep::train
