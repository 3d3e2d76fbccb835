// The differences between the supported versions of torch, 2.11 to 2.13. No other source asks for
// torch's version.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/headeronly/version.h>

namespace lockstep::train {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
// This version has no call that lets a storage be read again. Only an explicit instantiation may
// name a private member.
bool& refuses_reads(c10::StorageImpl& storage);
template <bool c10::StorageImpl::* kMember>
struct PrivateMember {
  friend bool& refuses_reads(c10::StorageImpl& storage) { return storage.*kMember; }
};
template struct PrivateMember<&c10::StorageImpl::throw_on_immutable_data_ptr_>;
#endif

// Gives memory to a storage, also to one that has a message of
// release_data_and_set_meta_custom_data_ptr_error_msg_().
inline void set_readable_memory(c10::StorageImpl& storage, at::DataPtr memory) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
  refuses_reads(storage) = false;
#else
  storage.clear_data_ptr_access_error_msg_();
#endif
  storage.set_data_ptr_noswap(std::move(memory));
}

inline c10::intrusive_ptr<c10d::Work> all_gather_single(c10d::ProcessGroup& group,
                                                        at::Tensor& output, at::Tensor& input) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return group._allgather_base(output, input);
#else
  return group.all_gather_single(output, input);
#endif
}

inline c10::intrusive_ptr<c10d::Work> reduce_scatter_single(c10d::ProcessGroup& group,
                                                            at::Tensor& output, at::Tensor& input) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return group._reduce_scatter_base(output, input);
#else
  return group.reduce_scatter_single(output, input);
#endif
}

// The sizes are numbers of elements, one for each rank.
inline c10::intrusive_ptr<c10d::Work> all_to_all_single(c10d::ProcessGroup& group,
                                                        at::Tensor& output, at::Tensor& input,
                                                        std::vector<std::int64_t>& output_sizes,
                                                        std::vector<std::int64_t>& input_sizes) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
  return group.alltoall_base(output, input, output_sizes, input_sizes);
#else
  return group.all_to_all_single(output, input, output_sizes, input_sizes);
#endif
}

}  // namespace lockstep::train
