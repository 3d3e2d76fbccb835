#include "comm/nccl_plugin/ofi_endpoint.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

#include <rdma/fi_rma.h>

#include "comm/nccl_plugin/gpu_of.h"

namespace lockstep::comm::nccl {
namespace {

constexpr std::size_t kAddressLimit = 256;
constexpr std::size_t kReadAtOnce = 16;
static_assert(sizeof(Operation::provider_space) >= sizeof(fi_context2));

class OfiRegistration : public Registration {
 public:
  explicit OfiRegistration(FidPtr<fid_mr> region, std::uintptr_t begin = 0)
      : begin_(begin), region_(std::move(region)) {}
  void* descriptor() const override { return fi_mr_desc(region_.get()); }
  std::uint64_t key() const { return fi_mr_key(region_.get()); }
  std::uintptr_t begin() const { return begin_; }

 private:
  const std::uintptr_t begin_;
  FidPtr<fid_mr> region_;
};

// libfabric's struct fi_mr_dmabuf, since 1.20. In a fi_mr_attr it takes the place of the vector.
struct DmaBufAttribute {
  int fd;
  std::uint64_t offset;
  std::size_t length;
  void* base;
};
static_assert(sizeof(DmaBufAttribute) == 32 && offsetof(DmaBufAttribute, base) == 24);
constexpr std::uint64_t kDmaBufFlag = std::uint64_t{1} << 40;  // FI_MR_DMABUF

constexpr std::size_t kFlushBytes = 4;

void* descriptor_of(const Message& message) {
  return message.registration == nullptr ? nullptr : message.registration->descriptor();
}

Result<Posted> posted(long status, std::string_view what) {
  if (status == 0) return Posted::yes;
  if (status == -FI_EAGAIN) return Posted::busy;
  return ofi_error(what, status);
}

class OfiEndpoint : public TaggedEndpoint {
 public:
  Result<void> open(const Device& device) {
    auto& info = *device.info;
    needs_registration_ = (info.domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    uses_addresses_ = (info.domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    provider_ = device.provider;
    if (device.takes_gpu_memory) access_ |= FI_READ | FI_REMOTE_READ;
    fabric_ = TRY(open_fid<fid_fabric>("opening the fabric", [&](fid_fabric** fabric) {
      return libfabric().fabric(info.fabric_attr, fabric, nullptr);
    }));
    domain_ = TRY(open_fid<fid_domain>("opening the domain", [&](fid_domain** domain) {
      return fi_domain(fabric_.get(), &info, domain, nullptr);
    }));
    addresses_ = TRY(open_fid<fid_av>("opening the address table", [&](fid_av** table) {
      fi_av_attr attr{};
      attr.type = FI_AV_TABLE;
      return fi_av_open(domain_.get(), &attr, table, nullptr);
    }));
    completions_ = TRY(open_fid<fid_cq>("opening the completion queue", [&](fid_cq** queue) {
      fi_cq_attr attr{};
      attr.format = FI_CQ_FORMAT_TAGGED;
      attr.size = info.tx_attr->size + info.rx_attr->size;
      return fi_cq_open(domain_.get(), &attr, queue, nullptr);
    }));
    endpoint_ = TRY(open_fid<fid_ep>("opening the endpoint", [&](fid_ep** endpoint) {
      return fi_endpoint(domain_.get(), &info, endpoint, nullptr);
    }));
    TRY(apply_options(*device.quirks, [&](int name, bool value) {
      return fi_setopt(&endpoint_->fid, FI_OPT_ENDPOINT, name, &value, sizeof value);
    }));
    // A test has FI_RMA alone, over a provider that takes none.
    if (device.takes_gpu_memory && device.quirks->takes_gpu_memory) TRY(forbid_copies());
    TRY(enable());
    return device.takes_gpu_memory ? prepare_flush() : Result<void>();
  }

  const std::string& address() const override { return address_; }

  Result<PeerAddress> add_peer(const std::string& address) override {
    fi_addr_t peer = FI_ADDR_UNSPEC;
    const int added = fi_av_insert(addresses_.get(), address.data(), 1, &peer, 0, nullptr);
    if (added != 1)
      return ofi_error("adding the address of a peer", added < 0 ? added : -FI_EINVAL);
    return peer;
  }

  Result<Posted> send(PeerAddress peer, const Message& message, Operation& operation) override {
    return posted(fi_tsend(endpoint_.get(), message.data, message.bytes, descriptor_of(message),
                           peer, message.tag, &operation),
                  "sending");
  }

  Result<Posted> receive(const Message& message, Operation& operation) override {
    return posted(fi_trecv(endpoint_.get(), message.data, message.bytes, descriptor_of(message),
                           FI_ADDR_UNSPEC, message.tag, 0, &operation),
                  "receiving");
  }

  Result<std::size_t> poll(std::span<Completion> ended) override {
    std::array<fi_cq_tagged_entry, kReadAtOnce> entries;
    const auto got =
        fi_cq_read(completions_.get(), entries.data(), std::min(entries.size(), ended.size()));
    if (got == -FI_EAGAIN) return std::size_t{0};
    if (got == -FI_EAVAIL) return read_failure(ended.front());
    if (got < 0) return ofi_error("reading completions", got);
    const auto count = static_cast<std::size_t>(got);
    for (std::size_t i = 0; i < count; ++i) {
      ended[i].operation = static_cast<Operation*>(entries[i].op_context);
      ended[i].bytes = entries[i].len;
      ended[i].failure = nullptr;
    }
    return count;
  }

  void cancel(Operation& operation) override { (void)fi_cancel(&endpoint_->fid, &operation); }
  bool needs_registration() const override { return needs_registration_; }

  Result<std::unique_ptr<Registration>> register_memory(void* data, std::size_t bytes) override {
    auto region =
        TRY(open_fid<fid_mr>("registering memory (is `ulimit -l` too low?)", [&](fid_mr** mr) {
          return fi_mr_reg(domain_.get(), data, bytes, access_, 0, next_key_++, 0, mr, nullptr);
        }));
    return std::unique_ptr<Registration>(std::make_unique<OfiRegistration>(
        std::move(region), reinterpret_cast<std::uintptr_t>(data)));
  }

  bool takes_gpu_memory() const override { return flush_memory_ != nullptr; }

  Result<std::unique_ptr<Registration>> register_dma_buf(void* data, std::size_t bytes,
                                                         const DmaBuf& buffer) override {
    if (!takes_gpu_memory()) return no_gpu_memory();
    const DmaBufAttribute exported{buffer.fd, buffer.offset, bytes, data};
    fi_mr_attr attr{};
    attr.mr_iov = reinterpret_cast<const iovec*>(&exported);
    attr.iov_count = 1;
    attr.access = FI_SEND | FI_RECV | FI_REMOTE_READ;
    attr.requested_key = next_key_++;
    attr.iface = FI_HMEM_CUDA;
    attr.device.cuda = gpu_of(data);
    auto region = TRY(open_fid<fid_mr>("registering a GPU's memory by DMA-BUF", [&](fid_mr** mr) {
      return fi_mr_regattr(domain_.get(), &attr, kDmaBufFlag, mr);
    }));
    return std::unique_ptr<Registration>(std::make_unique<OfiRegistration>(
        std::move(region), reinterpret_cast<std::uintptr_t>(data)));
  }

  // The NIC reads a few bytes: on the bus the read does not overtake the writes before it.
  Result<Posted> flush(const Registration& registration, void* data,
                       Operation& operation) override {
    if (!takes_gpu_memory()) return no_gpu_memory();
    const auto& region = static_cast<const OfiRegistration&>(registration);
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return posted(
        fi_read(endpoint_.get(), flushed_.data(), flushed_.size(), flush_memory_->descriptor(),
                self_, uses_addresses_ ? address : address - region.begin(), region.key(),
                &operation),
        "flushing a GPU's memory");
  }

 private:
  Error no_gpu_memory() const {
    return {Code::unavailable,
            format("libfabric's provider '{}' takes no memory of a GPU here, only of the host: it "
                   "needs libfabric 1.20, and FI_HMEM and DMA-BUF for this NIC",
                   provider_)};
  }

  // A provider that would copy a GPU's memory through the host's says so here.
  Result<void> forbid_copies() {
    const int required = FI_HMEM_P2P_REQUIRED;
    const int status =
        fi_setopt(&endpoint_->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &required, sizeof required);
    if (status != 0) return ofi_error("transfers between NIC and GPU without copies", status);
    return {};
  }

  Result<void> prepare_flush() {
    self_ = TRY(add_peer(address_));
    flush_memory_ = TRY(register_memory(flushed_.data(), flushed_.size()));
    return {};
  }

  Result<void> enable() {
    int status = fi_ep_bind(endpoint_.get(), &addresses_->fid, 0);
    if (status == 0)
      status = fi_ep_bind(endpoint_.get(), &completions_->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0) status = fi_enable(endpoint_.get());
    std::array<char, kAddressLimit> name{};
    std::size_t length = name.size();
    if (status == 0) status = fi_getname(&endpoint_->fid, name.data(), &length);
    if (status != 0) return ofi_error("enabling the endpoint", status);
    address_.assign(name.data(), length);
    return {};
  }

  Result<std::size_t> read_failure(Completion& ended) {
    fi_cq_err_entry entry{};
    const auto got = fi_cq_readerr(completions_.get(), &entry, 0);
    if (got == -FI_EAGAIN) return std::size_t{0};
    if (got < 0) return ofi_error("reading a failed operation", got);
    ended.operation = static_cast<Operation*>(entry.op_context);
    ended.bytes = 0;
    const int error = std::abs(entry.err);  // shm's are negative
    ended.failure = libfabric().strerror(error);
    ended.code = error == FI_ETRUNC      ? Code::invalid
                 : error == FI_ECANCELED ? Code::cancelled
                                         : Code::peer_lost;
    return std::size_t{1};
  }

  // In the order of their dependencies; the endpoint is closed first.
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
  FidPtr<fid_av> addresses_;
  FidPtr<fid_cq> completions_;
  FidPtr<fid_ep> endpoint_;
  std::string address_;
  bool needs_registration_ = false;
  bool uses_addresses_ = false;  // a remote read names memory by its address, not by its offset
  std::string provider_;
  std::uint64_t access_ = FI_SEND | FI_RECV;
  // For flushes, where the device takes a GPU's memory. The memory ends before its domain.
  PeerAddress self_ = 0;
  std::array<char, kFlushBytes> flushed_{};
  std::unique_ptr<Registration> flush_memory_;
  std::uint64_t next_key_ = 0;  // for providers that create none
};

}  // namespace

Result<std::unique_ptr<TaggedEndpoint>> open_endpoint(const Device& device) {
  auto endpoint = std::make_unique<OfiEndpoint>();
  TRY(endpoint->open(device));
  return std::unique_ptr<TaggedEndpoint>(std::move(endpoint));
}

}  // namespace lockstep::comm::nccl
