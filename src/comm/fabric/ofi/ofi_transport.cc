#include "comm/fabric/ofi/ofi_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <sched.h>

#include "base/check.h"
#include "base/clock.h"
#include "comm/fabric/ofi/handles.h"
#include "comm/fabric/ofi/ofi_link.h"

namespace lockstep::comm {
namespace {

constexpr auto kApiVersion = FI_VERSION(1, 15);
constexpr std::size_t kAddressLimit = 256;
constexpr auto kCloseBound = std::chrono::seconds(1);
constexpr std::size_t kRanksLimit = 1 << 16;  // by the tag's layout

// The providers that this libfabric was built with, even if the host has no devices for them.
std::vector<std::string> built_in_providers() {
  fi_info* found = nullptr;
  if (libfabric().getinfo(kApiVersion, nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &found) != 0)
    return {};
  const InfoPtr owner(found);
  std::vector<std::string> names;
  for (const auto* one = found; one != nullptr; one = one->next) {
    const std::string name = one->fabric_attr->prov_name;
    const bool is_tool = name.starts_with("ofi_");  // layered over another one
    if (!is_tool && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// The reason why fi_getinfo found nothing: the library lacks the provider, or the host lacks a
// device.
Error missing_provider_error(const std::string& name, const std::string& address, int status) {
  const auto built_in = built_in_providers();
  const auto core = name.substr(0, name.find(';'));  // "verbs" of "verbs;ofi_rxm"
  if (std::ranges::find(built_in, core) == built_in.end()) {
    std::string all;
    for (const auto& one : built_in) all += (all.empty() ? "" : ", ") + one;
    return {Code::unavailable,
            format("the libfabric of this host (version {}.{}) has no provider '{}', only {}: "
                   "install one that has it, or set LOCKSTEP_FABRIC_PROVIDER=tcp",
                   FI_MAJOR(libfabric().version()), FI_MINOR(libfabric().version()), core, all)};
  }
  return ofi_error(format("the provider '{}' finds no device on this host that it can use on "
                          "address {} (see `fi_info -p {}` and /sys/class/infiniband; "
                          "LOCKSTEP_INTERFACE chooses another, LOCKSTEP_FABRIC_PROVIDER=tcp needs "
                          "none)",
                          name, address, core),
                   status);
}

Result<InfoPtr> choose_provider(const OfiOptions& options) {
  const InfoPtr hints(libfabric().dupinfo(nullptr));
  LS_CHECK(hints != nullptr);
  hints->caps = FI_TAGGED;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
  // verbs has only connections; ofi_rxm provides datagrams over them.
  const auto name = options.provider == "verbs" ? std::string("verbs;ofi_rxm") : options.provider;
  hints->fabric_attr->prov_name = ::strdup(name.c_str());
  fi_info* found = nullptr;
  const int status = libfabric().getinfo(kApiVersion, options.address.c_str(), nullptr, FI_SOURCE,
                                         hints.get(), &found);
  if (status != 0) return missing_provider_error(name, options.address, status);
  return InfoPtr(found);
}

}  // namespace

class OfiTransport::Impl {
 public:
  // If an endpoint closes while it fetches a message, libfabric's rxm (1.17) crashes: so wait for
  // the fetch.
  ~Impl() {
    for (const auto& link : links_) link->cancel_receives();
    const auto deadline = Deadline::after(kCloseBound);
    while (receiving() && !deadline.passed())
      if (!take_ended()) sched_yield();
  }

  Result<void> open(const OfiOptions& options) {
    rank_ = options.rank;
    salt_ = options.salt;
    TRY(load_libfabric());
    info_ = TRY(choose_provider(options));
    if (options.registers_always) info_->domain_attr->mr_mode |= FI_MR_LOCAL;
    fabric_ = TRY(open_fid<fid_fabric>("opening the fabric", [&](fid_fabric** fabric) {
      return libfabric().fabric(info_->fabric_attr, fabric, nullptr);
    }));
    domain_ = TRY(open_fid<fid_domain>("opening the domain", [&](fid_domain** domain) {
      return fi_domain(fabric_.get(), info_.get(), domain, nullptr);
    }));
    addresses_ = TRY(open_fid<fid_av>("opening the address table", [&](fid_av** table) {
      fi_av_attr attr{};
      attr.type = FI_AV_TABLE;
      return fi_av_open(domain_.get(), &attr, table, nullptr);
    }));
    completions_ = TRY(open_fid<fid_cq>("opening the completion queue", [&](fid_cq** queue) {
      fi_cq_attr attr{};
      attr.format = FI_CQ_FORMAT_TAGGED;
      attr.wait_obj = FI_WAIT_FD;
      return fi_cq_open(domain_.get(), &attr, queue, nullptr);
    }));
    return open_endpoint();
  }

  const std::string& address() const { return address_; }

  Result<Link*> link(int peer, const std::string& peer_address) {
    LS_CHECK(peer >= 0 && static_cast<std::size_t>(peer) < kRanksLimit);
    fi_addr_t address = FI_ADDR_UNSPEC;
    if (peer_address.size() != address_.size() ||
        fi_av_insert(addresses_.get(), peer_address.data(), 1, &address, 0, nullptr) != 1)
      return Error{Code::invalid,
                   format("rank {} has a libfabric address that provider '{}' does not "
                          "understand; do all ranks use the same provider?",
                          peer, info_->fabric_attr->prov_name)};
    const OfiLinkContext port{domain_.get(), endpoint_.get(),
                              (info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0, salt_, rank_};
    links_.push_back(TRY(OfiLink::create(port, peer, address)));
    return links_.back().get();
  }

  Result<void> poll() {
    std::array<fi_cq_tagged_entry, 16> entries;
    for (;;) {
      const auto got = fi_cq_read(completions_.get(), entries.data(), entries.size());
      if (got == -FI_EAGAIN) break;
      if (got == -FI_EAVAIL) {
        TRY(failed_operation());
        continue;
      }
      if (got < 0) return ofi_error("reading completions", got);
      for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) TRY(take(entries[i]));
    }
    for (const auto& link : links_) TRY(link->flush());
    return {};
  }

  void set_peer_left(int peer) {
    for (const auto& link : links_)
      if (link->peer() == peer) link->set_peer_left();
  }

  int wait_fd() const { return wait_fd_; }
  int failed_peer() const { return failed_peer_; }

  bool may_sleep() {
    fid* waited[] = {&completions_->fid};
    return fi_trywait(fabric_.get(), waited, 1) == 0;
  }

 private:
  Result<void> open_endpoint() {
    endpoint_ = TRY(open_fid<fid_ep>("opening the endpoint", [&](fid_ep** endpoint) {
      return fi_endpoint(domain_.get(), info_.get(), endpoint, nullptr);
    }));
    int status = fi_ep_bind(endpoint_.get(), &addresses_->fid, 0);
    if (status == 0)
      status = fi_ep_bind(endpoint_.get(), &completions_->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0) status = fi_enable(endpoint_.get());
    if (status == 0) status = fi_control(&completions_->fid, FI_GETWAIT, &wait_fd_);
    char name[kAddressLimit];
    std::size_t length = sizeof name;
    if (status == 0) status = fi_getname(&endpoint_->fid, name, &length);
    if (status != 0) return ofi_error("opening the endpoint", status);
    address_.assign(name, length);
    return {};
  }

  bool receiving() const {
    return std::any_of(links_.begin(), links_.end(),
                       [](const auto& link) { return link->has_posted_receives(); });
  }

  // While closing: takes completions and errors. False if there are none.
  bool take_ended() {
    fi_cq_tagged_entry entry{};
    fi_cq_err_entry failure{};
    const auto got = fi_cq_read(completions_.get(), &entry, 1);
    if (got == 1)
      count_end(entry.op_context);
    else if (got == -FI_EAVAIL && fi_cq_readerr(completions_.get(), &failure, 0) == 1)
      count_end(failure.op_context);
    else
      return false;
    return true;
  }

  static void count_end(const void* context) {
    if (context == nullptr) return;
    const auto& operation = *static_cast<const OfiLink::Operation*>(context);
    operation.link->on_end(operation);
  }

  static Result<void> take(const fi_cq_tagged_entry& entry) {
    if (entry.op_context == nullptr) return {};
    count_end(entry.op_context);
    auto& operation = *static_cast<OfiLink::Operation*>(entry.op_context);
    return operation.link->on_completion(operation, entry.len);
  }

  Result<void> failed_operation() {
    fi_cq_err_entry entry{};
    if (const auto got = fi_cq_readerr(completions_.get(), &entry, 0); got < 0)
      return ofi_error("reading a failed operation", got);
    count_end(entry.op_context);
    const auto* operation = static_cast<const OfiLink::Operation*>(entry.op_context);
    if (operation != nullptr && operation->link->peer_has_left()) return {};
    failed_peer_ = operation == nullptr ? -1 : operation->link->peer();
    return Error{Code::peer_lost, libfabric().strerror(entry.err)};
  }

  // In the order of their dependencies; the endpoint is destroyed first.
  InfoPtr info_;
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_domain> domain_;
  FidPtr<fid_av> addresses_;
  FidPtr<fid_cq> completions_;
  std::vector<std::unique_ptr<OfiLink>> links_;
  FidPtr<fid_ep> endpoint_;
  std::string address_;
  std::uint32_t salt_ = 0;
  int rank_ = 0;
  int failed_peer_ = -1;
  int wait_fd_ = -1;
};

OfiTransport::OfiTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OfiTransport::~OfiTransport() = default;
const std::string& OfiTransport::address() const { return impl_->address(); }
Result<Link*> OfiTransport::link(int peer, const std::string& peer_address) {
  return impl_->link(peer, peer_address);
}
Result<void> OfiTransport::poll() { return impl_->poll(); }
int OfiTransport::failed_peer() const { return impl_->failed_peer(); }
void OfiTransport::set_peer_left(int peer) { impl_->set_peer_left(peer); }
int OfiTransport::wait_fd() const { return impl_->wait_fd(); }
bool OfiTransport::may_sleep() { return impl_->may_sleep(); }

Result<std::unique_ptr<OfiTransport>> OfiTransport::create(const OfiOptions& options) {
  if (options.rank < 0 || static_cast<std::size_t>(options.rank) >= kRanksLimit)
    return Error{Code::invalid, format("rank {} is not below {}", options.rank, kRanksLimit)};
  auto impl = std::make_unique<Impl>();
  TRY(impl->open(options));
  return std::unique_ptr<OfiTransport>(new OfiTransport(std::move(impl)));
}

}  // namespace lockstep::comm
