#include "platform/host/server_certificate.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;
using std::chrono::days;

constexpr auto kAuthorityTime = days(3650);
constexpr auto kCertificateTime = days(90);
constexpr auto kRenewBefore = days(30);
constexpr auto kWarnBefore = days(14);
// Clocks of other machines may be late.
constexpr auto kClockSkew = days(1);
constexpr std::size_t kFileMax = 256 << 10;

constexpr auto kAuthorityFile = "ca.pem";

fs::path folder_of(const fs::path& home) { return home / "tls"; }

// A key and its certificates are one file, so that they change together.
Result<net::TlsIdentity> read_identity(const fs::path& path) {
  const std::string content = TRY(read_file(path, kFileMax));
  const std::size_t begin = std::min(content.find("-----BEGIN CERTIFICATE"), content.size());
  net::TlsIdentity identity{.certificates = content.substr(begin), .key = content.substr(0, begin)};
  auto checked = net::check_identity(identity);
  if (!checked) return std::move(checked).error().with_context(path.string());
  return identity;
}

Result<void> write_identity(const fs::path& path, const net::TlsIdentity& identity) {
  return write_file(path, identity.key + identity.certificates, 0600);
}

Result<std::vector<net::CertificateInfo>> infos_of(const net::TlsIdentity& identity) {
  return net::read_certificates(identity.certificates);
}

bool is_valid(const net::CertificateInfo& info, Time now, Duration left) {
  return info.begin <= now && now + left < info.end;
}

net::CertificateTerms terms_of(std::string subject, Time now, Duration time) {
  return {.subject = std::move(subject), .begin = now - kClockSkew, .end = now + time};
}

// The folder's authority; another one is made if it is missing, or would end before a certificate
// of it. A file that is damaged is an error: clients trust it.
Result<net::TlsIdentity> own_authority(const fs::path& folder, Time now) {
  const fs::path path = folder / "authority";
  auto found = read_identity(path);
  if (!found && found.error().code != Code::not_found)
    return Error{found.error().code,
                 format("{}; put it back, or remove it for a new authority, to which every client "
                        "must log in again",
                        found.error().message)};
  if (found && is_valid(TRY(infos_of(*found)).front(), now, kCertificateTime)) return found;
  net::TlsIdentity made =
      net::make_authority(terms_of("Lockstep authority of a daemon", now, kAuthorityTime));
  TRY(write_identity(path, made));
  TRY(write_file(folder / kAuthorityFile, made.certificates, 0600));
  return made;
}

bool has_names(const net::CertificateInfo& info, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::find(info.names, name) != info.names.end();
  });
}

// The folder's certificate, unless it is time for another.
Result<net::TlsIdentity> own_certificate(const fs::path& folder,
                                         const std::vector<std::string>& names, Time now) {
  TRY(make_folders(folder));
  const net::TlsIdentity authority = TRY(own_authority(folder, now));
  const std::string issuer = TRY(infos_of(authority)).front().fingerprint;
  const fs::path path = folder / "server";
  if (auto found = read_identity(path)) {
    const auto infos = TRY(infos_of(*found));
    if (infos.back().fingerprint == issuer && is_valid(infos.front(), now, kRenewBefore) &&
        has_names(infos.front(), names))
      return found;
  }
  net::CertificateTerms terms = terms_of("Lockstep daemon", now, kCertificateTime);
  terms.names = names;
  net::TlsIdentity made = TRY(net::issue_certificate(authority, terms));
  TRY(write_identity(path, made));
  return made;
}

Result<net::TlsIdentity> operators_identity(const CertificateSource& source) {
  net::TlsIdentity identity{.certificates = TRY(read_file(source.certificate_file, kFileMax)),
                            .key = TRY(read_file(source.key_file, kFileMax))};
  auto checked = net::check_identity(identity);
  if (checked) return identity;
  return std::move(checked).error().with_context(
      format("{} and {}", source.certificate_file.string(), source.key_file.string()));
}

}  // namespace

fs::path authority_file(const fs::path& home) { return folder_of(home) / kAuthorityFile; }

Result<ServerCertificate> ServerCertificate::open(CertificateSource source,
                                                  const std::vector<std::string>& names,
                                                  const Clock& clock) {
  ServerCertificate opened(std::move(source), clock);
  TRY(opened.refresh(names));
  return opened;
}

Result<net::TlsIdentity> ServerCertificate::current(const std::vector<std::string>& names) const {
  return is_operators() ? operators_identity(source_)
                        : own_certificate(folder_of(source_.folder), names, clock_->now());
}

Result<bool> ServerCertificate::refresh(const std::vector<std::string>& names) {
  net::TlsIdentity now = TRY(current(names));
  if (now.certificates == identity_.certificates && now.key == identity_.key) return false;
  const auto infos = TRY(infos_of(now));
  fingerprint_ = is_operators() ? infos.front().fingerprint : infos.back().fingerprint;
  end_ = infos.front().end;
  identity_ = std::move(now);
  return true;
}

std::optional<std::string> ServerCertificate::problem() const {
  const Time now = clock_->now();
  if (now + kWarnBefore < end_) return std::nullopt;
  return format("the daemon's certificate {} on {}; {}", now < end_ ? "expires" : "expired",
                text(end_),
                is_operators() ? format("put a new one into {}, which the daemon reads within a "
                                        "minute",
                                        source_.certificate_file.string())
                               : "the log says why it was not renewed");
}

}  // namespace lockstep::host
