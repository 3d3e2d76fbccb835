#include "platform/server/certificate_renewal.h"

#include <chrono>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "net/tls/certificate.h"

namespace lockstep::server {
namespace {

using std::chrono::days;

struct SetClock : Clock {
  Time now() const override { return time; }
  Time time = *parse_time("2026-01-01T00:00:00Z");
};

class CertificateRenewalTest : public testing::Test {
 protected:
  void start(host::CertificateSource source) {
    certificate_.emplace(host::ServerCertificate::open(std::move(source), names_, clock_).value());
    renewal_.emplace(CertificateRenewal::Setup{
        .loop = loop_,
        .certificate = *certificate_,
        .names =
            [this] {
              ++looks_;
              return names_;
            },
        .start_use = [this](const net::TlsIdentity& identity) -> Result<void> {
          used_.push_back(identity);
          return {};
        },
        .announce = [this] { ++announced_; },
        .interval = std::chrono::milliseconds(1)});
  }
  // Each step follows two more looks: the first of them may have begun before the last step.
  void run(const std::vector<std::function<void()>>& steps) {
    std::size_t next = 0;
    int awaited = looks_ + 2;
    net::Timer check;
    std::function<void()> go_on = [&] {
      if (looks_ >= awaited) {
        steps[next++]();
        awaited = looks_ + 2;
      }
      if (next == steps.size()) return loop_.stop();
      check = loop_.after(std::chrono::milliseconds(1), go_on);
    };
    const net::Timer limit = loop_.after(std::chrono::seconds(20), [&] { loop_.stop(); });
    go_on();
    loop_.run();
    ASSERT_EQ(next, steps.size()) << "within 20 s";
  }
  net::CertificateInfo used() const {
    return net::read_certificates(used_.back().certificates)->front();
  }

  const TemporaryFolder folder_;
  SetClock clock_;
  net::Loop loop_;
  std::vector<std::string> names_ = {"head"};
  std::vector<net::TlsIdentity> used_;
  int looks_ = 0, announced_ = 0;
  std::optional<host::ServerCertificate> certificate_;
  std::optional<CertificateRenewal> renewal_;
};

TEST_F(CertificateRenewalTest, ServesAnotherCertificateAMonthBeforeTheEndOfTheFirst) {
  start({.folder = folder_});
  const Time end = certificate_->end();
  const std::string authority = certificate_->fingerprint();
  clock_.time = end - days(32);
  run({[&] {
         EXPECT_TRUE(used_.empty()) << "it is too early";
         clock_.time = end - days(29);
       },
       [&] { EXPECT_EQ(used_.size(), 1u) << "once, not at each look"; }});
  EXPECT_GT(certificate_->end(), end + days(50));
  EXPECT_EQ(certificate_->fingerprint(), authority) << "callers trust it as before";
  EXPECT_EQ(announced_, 1);
}

TEST_F(CertificateRenewalTest, ServesACertificateWithTheAddressThatTheMachineGot) {
  start({.folder = folder_});
  names_.emplace_back("10.0.0.7");
  run({[&] { ASSERT_EQ(used_.size(), 1u); }});
  EXPECT_THAT(used().names, testing::IsSupersetOf({"head", "10.0.0.7"}));
}

TEST_F(CertificateRenewalTest, KeepsTheLastOneWhileTheOperatorsFilesAreDamaged) {
  const auto write = [&](const std::string& subject) {
    const auto made = net::make_authority(
        {.subject = subject, .begin = clock_.time - days(1), .end = clock_.time + days(9)});
    ASSERT_TRUE(write_file(folder_ / "cert.pem", made.certificates));
    ASSERT_TRUE(write_file(folder_ / "key.pem", made.key));
  };
  write("the first");
  start({.folder = folder_,
         .certificate_file = folder_ / "cert.pem",
         .key_file = folder_ / "key.pem"});
  ASSERT_TRUE(write_file(folder_ / "cert.pem", "half a file"));
  run({[&] {
         EXPECT_TRUE(used_.empty());
         write("the second");
       },
       [&] { EXPECT_EQ(used_.size(), 1u); }});
  EXPECT_EQ(announced_, 1);
}

}  // namespace
}  // namespace lockstep::server
