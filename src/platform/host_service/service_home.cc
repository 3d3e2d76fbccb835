#include "platform/host_service/service_home.h"

#include <utility>

#include <sys/stat.h>

#include "base/format.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::host_service {
namespace {

constexpr std::size_t kMembershipMax = 1 << 16;

Result<void> check_secret_mode(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return os_error("reading " + path.string(), errno);
  if ((info.st_mode & 077) == 0) return {};
  return Error{Code::denied, format("{0} has a credential and may be read by others; take it back "
                                    "with `chmod 600 {0}`, and join again",
                                    path.string())};
}

}  // namespace

Result<Membership> ServiceHome::read_membership() const {
  const auto path = membership_file();
  const auto content = read_file(path, kMembershipMax);
  if (!content && content.error().code == Code::not_found)
    return Error{
        Code::not_found,
        format("this host has not joined a cluster ({} is missing): `lockstep host token "
               "NAME` on the daemon's machine makes a token, `lockstep host join URL` here "
               "takes it",
               path.string())};
  TRY(check_secret_mode(path));
  const auto read = [&]() -> Result<Membership> {
    return from_json<Membership>(TRY(parse_json(TRY(content))), UnknownFields::ignore);
  };
  auto membership = read();
  if (membership) return membership;
  return Error{Code::corrupt,
               format("{} is damaged ({}); join again", path.string(), membership.error().message)};
}

Result<void> ServiceHome::write_membership(const Membership& membership) const {
  TRY(host::make_home_folder({.folder = folder}));
  return write_file(membership_file(), dump_json(to_json(membership), Indent::two) + "\n", 0600);
}

Result<Fd> ServiceHome::lock() const {
  auto held = TRY(try_lock(lock_file()));
  if (held.get() < 0)
    return Error{Code::already_exists,
                 format("a host service runs already in {}", folder.string())};
  TRY(record_lock_owner(held));
  return held;
}

}  // namespace lockstep::host_service
