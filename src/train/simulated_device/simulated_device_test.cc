#include "train/simulated_device/simulated_device.h"

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include "train/simulated_device/memory.h"
#include "train/simulated_device/stream.h"

namespace lockstep::train::simulated_device {
namespace {

class SimulatedDevice : public ::testing::Test {
 protected:
  SimulatedDevice() {
    install();
    reset_host_waits(0);
  }
  // Keeps the stream busy until released.
  static std::shared_ptr<Event> hold(c10::Stream stream) {
    auto event = std::make_shared<Event>();
    queue_of(stream).wait_for(event);
    return event;
  }

  const at::TensorOptions options_ = at::TensorOptions(device(0)).dtype(at::kDouble);
};

TEST_F(SimulatedDevice, ComputesAsTheCpuDoes) {
  const auto x = at::arange(12, at::kDouble).view({3, 4});
  const auto weight = at::arange(8, at::kDouble).view({2, 4}) / 10;
  const auto expected = at::tanh(at::linear(x, weight)).sum(0);
  const auto ours = at::tanh(at::linear(x.to(device(0)), weight.to(device(0)))).sum(0);
  EXPECT_EQ(ours.device(), device(0));
  EXPECT_TRUE(ours.cpu().equal(expected));
}

TEST_F(SimulatedDevice, RunsAutogradOnItsOwnThread) {
  const auto x = at::arange(12, at::kDouble).view({3, 4});
  const auto gradient = [&](c10::Device where) {
    auto weight = (at::arange(8, at::kDouble).view({2, 4}) / 10).to(where).requires_grad_();
    at::mse_loss(at::tanh(at::linear(x.to(where), weight)), at::ones({3, 2}, at::kDouble).to(where))
        .backward();
    return weight.grad().cpu();
  };
  EXPECT_TRUE(gradient(device(3)).equal(gradient(at::kCPU)));
}

TEST_F(SimulatedDevice, QueuesKernelsAndTheHostGoesOn) {
  auto x = at::zeros({4}, options_);
  const auto held = hold(current_stream(0));
  x.add_(1);
  x = x * 3;
  EXPECT_FALSE(queue_of(current_stream(0)).idle());
  EXPECT_EQ(host_waits(0).all(), 0);
  held->set();
  EXPECT_EQ(x.sum().item<double>(), 12);
  EXPECT_EQ(host_waits(0).reads, 1);
}

TEST_F(SimulatedDevice, MemoryFaultsWhenTheHostReadsIt) {
  const auto x = at::zeros({4}, options_);
  EXPECT_EXIT(
      {
        const volatile double value = *x.const_data_ptr<double>();
        static_cast<void>(value);
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(SimulatedDevice, NewAndReleasedMemoryIsNotANumber) {
  EXPECT_TRUE(std::isnan(at::empty({4}, options_).sum().item<double>()));
  auto x = at::ones({1000}, options_);
  const auto seen_by_another_stream = x.data_ptr();
  x.reset();
  const auto y = at::empty({1000}, options_);
  EXPECT_EQ(y.data_ptr(), seen_by_another_stream);
  EXPECT_TRUE(std::isnan(y.sum().item<double>()));
}

TEST_F(SimulatedDevice, AStreamThatReadsReleasedMemoryReadsNaN) {
  auto x = at::ones({1000}, options_);
  synchronize_device(0);
  const auto side = new_stream(0);
  const auto held = hold(side);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side);
    sum = x.sum();
  }
  x.reset();
  queue_of(current_stream(0)).synchronize();
  held->set();
  const c10::StreamGuard guard(side);
  EXPECT_TRUE(std::isnan(sum.item<double>()));
}

TEST_F(SimulatedDevice, ARecordedStreamKeepsReleasedMemory) {
  auto x = at::ones({1000}, options_);
  synchronize_device(0);
  const auto side = new_stream(0);
  const auto held = hold(side);
  at::Tensor sum;
  {
    const c10::StreamGuard guard(side);
    sum = x.sum();
  }
  x.record_stream(side);
  x.reset();
  const auto y = at::empty({1000}, options_);
  queue_of(current_stream(0)).synchronize();
  held->set();
  const c10::StreamGuard guard(side);
  EXPECT_EQ(sum.item<double>(), 1000);
}

TEST_F(SimulatedDevice, AnEventOrdersOneStreamAfterAnother) {
  auto x = at::zeros({4}, options_);
  synchronize_device(0);
  const auto side = new_stream(0);
  const auto held = hold(side);
  {
    const c10::StreamGuard guard(side);
    x.add_(5);
  }
  queue_of(current_stream(0)).wait_for(queue_of(side).record());
  const auto y = x * 2;
  held->set();
  EXPECT_EQ(y.sum().item<double>(), 40);
}

TEST_F(SimulatedDevice, CopiesWaitForTheHostUnlessMemoryIsPinned) {
  const auto pinned = at::ones({4}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
  EXPECT_TRUE(pinned.is_pinned());
  auto x = at::empty({4}, options_);
  x.copy_(pinned, /*non_blocking=*/true);
  EXPECT_EQ(host_waits(0).all(), 0);
  x.copy_(at::ones({4}, at::kDouble));
  EXPECT_EQ(host_waits(0).writes, 1);
  EXPECT_EQ(x.cpu().sum().item<double>(), 4);
  EXPECT_EQ(host_waits(0).reads, 1);
}

TEST_F(SimulatedDevice, DrawsFromAGeneratorOfItsOwn) {
  auto& generator = const_cast<at::Generator&>(at::globalContext().defaultGenerator(device(0)));
  generator.set_current_seed(7);
  const auto first = at::rand({8}, options_).cpu();
  const auto second = at::rand({8}, options_).cpu();
  EXPECT_FALSE(first.equal(second));
  generator.set_current_seed(7);
  EXPECT_TRUE(at::rand({8}, options_).cpu().equal(first));
}

// torch's dropout on a device has no argument for a generator.
TEST_F(SimulatedDevice, DropoutDrawsFromTheDevicesGenerator) {
  auto& generator = const_cast<at::Generator&>(at::globalContext().defaultGenerator(device(0)));
  const auto of_cpu = at::detail::getDefaultCPUGenerator().get_state();
  const auto ones = at::ones({64}, options_);
  generator.set_current_seed(7);
  const auto first = at::dropout(ones, 0.5, true).cpu();
  EXPECT_FALSE(at::dropout(ones, 0.5, true).cpu().equal(first));
  generator.set_current_seed(7);
  EXPECT_TRUE(at::dropout(ones, 0.5, true).cpu().equal(first));
  EXPECT_TRUE(at::detail::getDefaultCPUGenerator().get_state().equal(of_cpu));
}

TEST_F(SimulatedDevice, CountsTheMemoryInUse) {
  const auto before = bytes_in_use(5);
  {
    const auto x = at::empty({1024}, at::TensorOptions(device(5)).dtype(at::kDouble));
    EXPECT_EQ(bytes_in_use(5) - before, 8192);
  }
  EXPECT_EQ(bytes_in_use(5), before);
}

}  // namespace
}  // namespace lockstep::train::simulated_device
