#include "platform/host/keys.h"

#include <system_error>

#include <sys/stat.h>

#include "base/format.h"
#include "base/os/files.h"
#include "platform/host/home.h"

namespace lockstep::host {
namespace {

namespace fs = std::filesystem;

constexpr int kTokenBytes = 32;

std::string_view without_newline(std::string_view words) {
  while (words.ends_with('\n') || words.ends_with('\r')) words.remove_suffix(1);
  return words;
}

// A file with a secret: created if missing, an error if others may read it.
Result<std::string> read_or_make(const fs::path& path, const std::string& fresh) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return os_error("reading " + path.string(), errno);
    TRY(write_file(path, fresh + "\n", 0600));
    return fresh;
  }
  if ((info.st_mode & 077) != 0)
    return Error{Code::denied, format("{} may be read by others; take it back with "
                                      "'chmod 600 {}', or remove it to get a new one",
                                      path.string(), path.string())};
  return std::string(without_newline(TRY(read_file(path, 4096))));
}

}  // namespace

Result<Keys> Keys::open(const fs::path& folder) {
  const Home home{folder};
  TRY(make_home_folder(home));
  const auto digits = TRY(read_or_make(home.key_file(), net::Secret::random().hex()));
  auto key = net::Secret::from_hex(digits);
  if (!key) return std::move(key).error().with_context("reading " + home.key_file().string());
  auto token = TRY(read_or_make(home.token_file(), net::random_hex(kTokenBytes)));
  if (token.size() < 2 * kTokenBytes)
    return Error{Code::corrupt, format("{} is too short to be a token; remove it to get a new one",
                                       home.token_file().string())};
  return Keys(*std::move(key), std::move(token));
}

Keys Keys::from_values(const net::Secret& key, std::string user_token) {
  return Keys(key, std::move(user_token));
}

// The label keeps tokens and secrets apart: no name begins with a label.
std::string Keys::agent_token(const model::AttemptName& attempt) const {
  return net::hmac_sha256_hex(key_, "agent:" + text(attempt));
}

std::string Keys::attempt_secret(const model::AttemptName& attempt) const {
  return net::hmac_sha256_hex(key_, "attempt:" + text(attempt));
}

std::string Keys::rank_token(const RankName& name) const {
  return host::rank_token(name, agent_token(name.attempt));
}

net::Secret Keys::record_secret() const {
  return *net::Secret::from_hex(net::hmac_sha256_hex(key_, "records:"));
}

std::string Keys::host_token(std::string_view host, int number) const {
  return net::hmac_sha256_hex(key_, format("host:{}:{}", number, host));
}

net::Secret Keys::sealing_key(std::string_view project, std::string_view secret) const {
  return net::Secret::from_hex(net::hmac_sha256_hex(key_, format("seal:{}/{}", project, secret)))
      .value();
}

net::Secret Keys::notice_key() const {
  return net::Secret::from_hex(net::hmac_sha256_hex(key_, "seal-notices")).value();
}

std::string Keys::variable_digest(std::string_view variable, std::string_view value) const {
  constexpr std::size_t kDigits = 16;
  return net::hmac_sha256_hex(key_, format("variable:{}={}", variable, value)).substr(0, kDigits);
}

std::string Keys::join_proof(const JoinToken& token) const {
  return net::hmac_sha256_hex(key_, "join:" + join_token_subject(token));
}

bool Keys::is_host_token(std::string_view host, int number, std::string_view token) const {
  return net::equal_constant_time(host_token(host, number), token);
}

bool Keys::is_join_token(const JoinToken& token) const {
  return net::equal_constant_time(join_proof(token), token.proof);
}

bool Keys::is_agent_token(const model::AttemptName& attempt, std::string_view token) const {
  return net::equal_constant_time(agent_token(attempt), token);
}

bool Keys::is_user_token(std::string_view token) const {
  return net::equal_constant_time(user_token_, token);
}

}  // namespace lockstep::host
