#include "platform/host/server_certificate.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::host {
namespace {

using std::chrono::days;
using testing::HasSubstr;
using testing::IsSupersetOf;

struct FixedClock : Clock {
  Time now() const override { return time; }
  Time time = *parse_time("2026-01-01T00:00:00Z");
};

class ServerCertificateTest : public testing::Test {
 protected:
  Result<ServerCertificate> open(const std::vector<std::string>& names = {"head", "10.0.0.1"}) {
    return ServerCertificate::open({.folder = folder_}, names, clock_);
  }
  static net::CertificateInfo info(const ServerCertificate& certificate) {
    return net::read_certificates(certificate.identity().certificates)->front();
  }
  void write(const net::TlsIdentity& identity) {
    ASSERT_TRUE(write_file(folder_ / "cert.pem", identity.certificates));
    ASSERT_TRUE(write_file(folder_ / "key.pem", identity.key));
  }
  net::TlsIdentity operators(Duration time) const {
    return net::make_authority({.subject = "an operator's own",
                                .begin = clock_.time - days(1),
                                .end = clock_.time + time});
  }
  CertificateSource operators_files() const {
    return {.folder = folder_,
            .certificate_file = folder_ / "cert.pem",
            .key_file = folder_ / "key.pem"};
  }

  const TemporaryFolder folder_;
  FixedClock clock_;
};

TEST_F(ServerCertificateTest, IsMadeOnceAndKeptInFilesOfTheUserAlone) {
  const auto made = open().value();
  EXPECT_THAT(info(made).names, IsSupersetOf({"head", "10.0.0.1"}));
  EXPECT_EQ(open()->identity().certificates, made.identity().certificates);
  EXPECT_EQ(open()->fingerprint(), made.fingerprint());
  for (auto name : {"authority", "server", "ca.pem"}) {
    struct stat status{};
    ASSERT_EQ(::stat((folder_ / "tls" / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << name;
  }
  const auto authority = read_file(folder_ / "tls/ca.pem").value();
  EXPECT_EQ(net::read_certificates(authority)->front().fingerprint, made.fingerprint());
  EXPECT_THAT(authority, testing::Not(HasSubstr("PRIVATE")));
}

TEST_F(ServerCertificateTest, IsRenewedAMonthBeforeItsEndByTheSameAuthority) {
  auto certificate = open().value();
  const std::vector<std::string> names = {"head", "10.0.0.1"};
  clock_.time += days(59);
  EXPECT_FALSE(*certificate.refresh(names));
  clock_.time += days(2);
  EXPECT_TRUE(*certificate.refresh(names));
  EXPECT_GT(info(certificate).end, clock_.time + days(89));
  EXPECT_EQ(certificate.fingerprint(), open()->fingerprint());
  EXPECT_EQ(certificate.problem(), std::nullopt);
}

TEST_F(ServerCertificateTest, IsIssuedAgainForAnotherNameAndWhenItsFileIsDamaged) {
  auto certificate = open().value();
  EXPECT_FALSE(*certificate.refresh({"head"})) << "a name that is no longer needed does no harm";
  EXPECT_TRUE(*certificate.refresh({"head", "10.0.0.2"}));
  EXPECT_THAT(info(certificate).names, IsSupersetOf({"10.0.0.2"}));
  ASSERT_TRUE(write_file(folder_ / "tls/server", "damaged"));
  EXPECT_EQ(open()->fingerprint(), certificate.fingerprint());
}

TEST_F(ServerCertificateTest, AnAuthorityThatIsDamagedIsNeverReplacedUnasked) {
  const auto before = open()->fingerprint();
  ASSERT_TRUE(write_file(folder_ / "tls/authority", "damaged"));
  EXPECT_THAT(open().error().message, HasSubstr("remove it for a new authority"));
  std::filesystem::remove(folder_ / "tls/authority");
  EXPECT_NE(open()->fingerprint(), before);
}

TEST_F(ServerCertificateTest, ThatOfTheOperatorIsReadAgainWhenItIsReplaced) {
  write(operators(days(10)));
  auto certificate = ServerCertificate::open(operators_files(), {}, clock_).value();
  EXPECT_EQ(certificate.fingerprint(), info(certificate).fingerprint);
  EXPECT_THAT(certificate.problem().value_or(""), HasSubstr("expires on"));
  EXPECT_FALSE(*certificate.refresh({}));
  write(operators(days(100)));
  EXPECT_TRUE(*certificate.refresh({}));
  EXPECT_EQ(certificate.problem(), std::nullopt);
  // Half replaced: the key is still the old one.
  ASSERT_TRUE(write_file(folder_ / "cert.pem", operators(days(100)).certificates));
  const auto before = certificate.identity().certificates;
  EXPECT_THAT(certificate.refresh({}).error().message, HasSubstr("key.pem"));
  EXPECT_EQ(certificate.identity().certificates, before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tls"));
}

}  // namespace
}  // namespace lockstep::host
