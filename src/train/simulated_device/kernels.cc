#include "train/simulated_device/kernels.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "train/simulated_device/memory.h"
#include "train/simulated_device/simulated_device.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::simulated_device {
namespace {

using c10::IValue;
using torch::jit::Stack;

struct InlineOperators {
  std::mutex mutex;
  std::vector<std::string> names;
};

InlineOperators& inlined() {
  static auto* all = new InlineOperators;
  return *all;
}

void note_inline(const std::string& name) {
  const std::lock_guard lock(inlined().mutex);
  auto& names = inlined().names;
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

bool is_ours(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::kPrivateUse1;
}

// The same memory as the kernels see it. Keeps nothing alive, as a kernel's pointer does not.
at::Tensor as_cpu(const at::Tensor& tensor) {
  const auto options = at::TensorOptions(at::kCPU).dtype(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const void* pointer = tensor.const_data_ptr();
  TORCH_CHECK(pointer, "a tensor without memory is read");
  return at::from_blob(host_address(pointer), tensor.sizes(), tensor.strides(), options);
}

at::Tensor as_meta(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           at::TensorOptions(at::kMeta).dtype(tensor.scalar_type()));
}

// The value with each tensor of ours replaced.
template <class Replace>
IValue replaced(const IValue& value, const Replace& replace) {
  if (value.isTensor()) return is_ours(value.toTensor()) ? replace(value.toTensor()) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.toTensorVector())
      list.push_back(is_ours(tensor) ? replace(tensor) : tensor);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (auto tensor : value.toOptionalTensorVector()) {
      if (tensor && is_ours(*tensor)) tensor = replace(*tensor);
      list.push_back(tensor);
    }
    return list;
  }
  return value;
}

template <class Replace>
Stack replaced(const Stack& values, const Replace& replace) {
  Stack result;
  for (const auto& value : values) result.push_back(replaced(value, replace));
  return result;
}

template <class Visit>
void visit_tensors(const Stack& values, const Visit& visit) {
  for (const auto& value : values)
    replaced(value, [&](const at::Tensor& tensor) {
      visit(tensor);
      return tensor;
    });
}

c10::Device device_of_arguments(const Stack& arguments) {
  std::optional<c10::Device> found;
  visit_tensors(arguments, [&](const at::Tensor& tensor) {
    if (!found) found = tensor.device();
    TORCH_CHECK(tensor.device() == *found, "tensors are on ", *found, " and ", tensor.device());
  });
  TORCH_CHECK(found, "an operator of the simulated device has no tensor of it");
  return *found;
}

// A GPU's kernel reads the addresses in a list: those of the CPU would be an illegal access.
void check_lists(const Stack& arguments) {
  for (const auto& value : arguments) {
    if (!value.isTensorList()) continue;
    for (const auto& tensor : value.toTensorVector())
      TORCH_CHECK(is_ours(tensor) || !tensor.defined(),
                  "an operator of the simulated device has a list with a tensor on ",
                  tensor.device());
  }
}

void call(const c10::OperatorHandle& op, Stack& stack) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.callBoxed(&stack);
}

// With an empty tensor, which the operator resizes, in place of each output that is an argument.
Stack with_empty_outputs(const c10::OperatorHandle& op, Stack arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (op.schema().arguments()[i].is_out() && arguments[i].isTensor())
      arguments[i] = at::empty({0}, arguments[i].toTensor().options());
  return arguments;
}

// The results' shapes; nothing if torch has no Meta kernel. Resizes outputs that are arguments.
std::optional<Stack> infer(const c10::OperatorHandle& op, const Stack& arguments) {
  auto stack = with_empty_outputs(op, replaced(arguments, as_meta));
  const auto inputs = stack;
  try {
    call(op, stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!op.schema().arguments()[i].is_out() || !arguments[i].isTensor()) continue;
    const auto& out = arguments[i].toTensor();
    const auto& shape = inputs[i].toTensor();
    if (out.sizes() != shape.sizes()) out.resize_(shape.sizes());
  }
  return stack;
}

// The operator's results: written arguments, or new tensors.
Stack make_results(const c10::OperatorHandle& op, const Stack& arguments, const Stack& shapes,
                   c10::Device device) {
  Stack results;
  const auto& returns = op.schema().returns();
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (const auto* alias = returns[i].alias_info()) {
      TORCH_CHECK(alias->isWrite(), op.schema().name(), " returns a view: it needs a kernel");
      for (std::size_t j = 0; j < arguments.size(); ++j) {
        const auto* written = op.schema().arguments()[j].alias_info();
        if (written && written->beforeSets() == alias->beforeSets())
          results.push_back(arguments[j]);
      }
      continue;
    }
    const auto make = [&](const at::Tensor& shape) {
      if (!shape.defined()) return shape;
      return at::empty_strided(shape.sizes(), shape.strides(),
                               at::TensorOptions(device).dtype(shape.scalar_type()));
    };
    if (shapes[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& shape : shapes[i].toTensorVector()) list.push_back(make(shape));
      results.emplace_back(list);
    } else {
      TORCH_CHECK(shapes[i].isTensor(), op.schema().name(), " returns a value of the host");
      results.emplace_back(make(shapes[i].toTensor()));
    }
  }
  return results;
}

void copy_value(const IValue& from, const IValue& to) {
  if (to.isTensorList()) {
    const auto sources = from.toTensorVector();
    const auto targets = to.toTensorVector();
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i].copy_(sources[i]);
  } else if (to.toTensor().defined()) {
    to.toTensor().copy_(from.toTensor());
  }
}

// A call of the CPU's kernel: on the same memory, but for the outputs, whose values are copied.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack cpu_arguments)
      : op_(op),
        arguments_(with_empty_outputs(op, cpu_arguments)),
        given_(std::move(cpu_arguments)) {}
  // The values that it returns.
  Stack run() const {
    auto stack = arguments_;
    call(op_, stack);
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (op_.schema().arguments()[i].is_out()) copy_value(arguments_[i], given_[i]);
    return stack;
  }
  // True if what it returns has memory of its own.
  static bool makes_results(const c10::OperatorHandle& op) {
    const auto& returns = op.schema().returns();
    return !returns.empty() && !returns[0].alias_info();
  }

 private:
  c10::OperatorHandle op_;
  Stack arguments_, given_;
};

void copy_results(const Stack& from, const Stack& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) copy_value(from[i], to[i]);
}

void queue_call(const c10::OperatorHandle& op, const Stack& arguments, const Stack& results,
                c10::Device device) {
  auto outputs = Call::makes_results(op) ? replaced(results, as_cpu) : Stack();
  queue_of(current_stream(device.index()))
      .push([call = Call(op, replaced(arguments, as_cpu)), outputs = std::move(outputs)] {
        copy_results(call.run(), outputs);
      });
}

// A generator of the device cannot serve the CPU's kernels, but its numbers can.
IValue cpu_generator(at::Generator& ours) {
  auto cpu = at::detail::createCPUGenerator();
  cpu.set_state(ours.get_state());
  return cpu;
}

bool draws(const c10::OperatorHandle& op) { return op.hasTag(at::Tag::nondeterministic_seeded); }

// An operator without an argument for a generator, such as native_dropout: the CPU's kernel draws
// from the CPU's default one, which continues our generator meanwhile.
class DefaultGenerator {
 public:
  explicit DefaultGenerator(c10::DeviceIndex device)
      : lock_(mutex()),
        ours_(at::detail::getPrivateUse1Hooks().getDefaultGenerator(device)),
        cpu_(at::detail::getDefaultCPUGenerator()),
        before_(cpu_.get_state()) {
    cpu_.set_state(ours_.get_state());
  }
  ~DefaultGenerator() {
    ours_.set_state(cpu_.get_state());
    cpu_.set_state(before_);
  }
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }

  const std::lock_guard<std::mutex> lock_;
  at::Generator ours_;
  at::Generator cpu_;
  const at::Tensor before_;
};

// Runs at once, on memory in which all that was queued before is done.
void run_inline(const c10::OperatorHandle& op, Stack& stack, c10::Device device) {
  note_inline(op.schema().name());
  synchronize_device(device.index());
  const auto count = op.schema().arguments().size();
  const Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  auto inputs = replaced(arguments, as_cpu);
  std::optional<std::pair<at::Generator, at::Generator>> drawn;  // ours, and the CPU's
  for (std::size_t i = 0; i < count; ++i) {
    const auto type = op.schema().arguments()[i].type()->str();
    if (type.find("Generator") == std::string::npos) continue;
    auto ours = arguments[i].isNone()
                    ? at::detail::getPrivateUse1Hooks().getDefaultGenerator(device.index())
                    : arguments[i].toGenerator();
    inputs[i] = cpu_generator(ours);
    drawn.emplace(ours, inputs[i].toGenerator());
  }
  std::optional<DefaultGenerator> generator;
  if (!drawn && draws(op)) generator.emplace(device.index());
  const auto values = Call(op, inputs).run();
  generator.reset();
  if (drawn) drawn->first.set_state(drawn->second.get_state());
  const auto results = make_results(op, arguments, values, device);
  synchronize_device(device.index());  // the new memory's poison comes first
  if (Call::makes_results(op)) copy_results(values, replaced(results, as_cpu));
  torch::jit::drop(stack, count);
  for (const auto& result : results) stack.push_back(result);
}

void fallback(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = op.schema().arguments().size();
  const Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const auto device = device_of_arguments(arguments);
  check_lists(arguments);
  const c10::DeviceGuard guard(device);
  if (draws(op)) return run_inline(op, *stack, device);
  const auto shapes = infer(op, arguments);
  if (!shapes) return run_inline(op, *stack, device);
  const auto results = make_results(op, arguments, *shapes, device);
  queue_call(op, arguments, results, device);
  torch::jit::drop(*stack, count);
  for (const auto& result : results) stack->push_back(result);
}

c10::Device with_index(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device : simulated_device::device(current_device());
}

constexpr c10::DispatchKeySet kKey(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(with_index(device));
  return at::detail::empty_generic(size, &device_allocator(), kKey, c10::dtype_or_default(type),
                                   format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(with_index(device));
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), kKey,
                                           c10::dtype_or_default(type));
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}

void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  auto& queue = queue_of(current_stream(to.device().index()));
  if (from.device() != to.device())
    queue.wait_for(queue_of(current_stream(from.device().index())).record());
  queue.push([from = as_cpu(from), to = as_cpu(to)] { to.copy_(from); });
}

// As CUDA does: without pinned memory the host waits, whatever was asked for.
void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool pinned = non_blocking && from.numel() > 0 && is_pinned(from.const_data_ptr());
  auto& queue = queue_of(current_stream(to.device().index()));
  queue.push([from = pinned ? from : from.clone(), to = as_cpu(to)] { to.copy_(from); });
  if (pinned) return;
  count_host_wait(to.device().index(), HostWait::write);
  queue.synchronize();
}

void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool pinned = non_blocking && to.numel() > 0 && is_pinned(to.const_data_ptr());
  auto& queue = queue_of(current_stream(from.device().index()));
  queue.check();
  queue.push([from = as_cpu(from), to] { to.copy_(from); });
  if (pinned) return;
  count_host_wait(from.device().index(), HostWait::read);
  queue.synchronize();
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  const at::NoGradGuard no_grad;
  const auto expanded = self.expand(to.sizes());
  if (is_ours(self) && is_ours(to))
    copy_between_devices(expanded, to);
  else if (is_ours(to))
    copy_to_device(expanded, to, non_blocking);
  else
    copy_to_host(expanded, to, non_blocking);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, /*non_blocking=*/false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  const auto index = self.device().index();
  count_host_wait(index, HostWait::read);
  queue_of(current_stream(index)).synchronize();
  return as_cpu(self).item();
}

void record_use(at::Tensor& self, c10::Stream stream) {
  record_stream(self.storage().data(), stream);
}

}  // namespace

std::vector<std::string> inline_operators() {
  const std::lock_guard lock(inlined().mutex);
  return inlined().names;
}

void register_kernels() {
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                             __LINE__);
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  aten.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  aten.impl("view", TORCH_FN(at::native::view));
  aten.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  aten.impl("resize_", TORCH_FN(at::native::resize_));
  aten.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  aten.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  aten.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  aten.impl("_copy_from", TORCH_FN(copy_from));
  aten.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  aten.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  aten.impl("record_stream", TORCH_FN(record_use));
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__,
                            __LINE__);
  all.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lockstep::train::simulated_device
