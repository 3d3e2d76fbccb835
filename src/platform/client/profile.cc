#include "platform/client/profile.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::client {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameMax = 64;
constexpr std::size_t kFileMax = 1 << 20;
constexpr std::string_view kSuffix = ".json";

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameMax && name[0] != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

Error no_profile(const std::string& name) {
  return {Code::not_found,
          format("there is no profile '{}'; `lockstep login --list` lists them, `lockstep login "
                 "URL {}` makes it",
                 name, name)};
}

Result<void> check_mode(const fs::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return os_error("reading " + path.string(), errno);
  if ((info.st_mode & 077) == 0) return {};
  return Error{Code::denied, format("{0} has a token and may be read by others; take it back with "
                                    "`chmod 600 {0}`, and have the token replaced",
                                    path.string())};
}

}  // namespace

Result<Profiles> Profiles::of_user(const Environment& environment) {
  const auto variable = [&](const char* name) {
    const auto found = environment.find(name);
    return fs::path(found == environment.end() ? "" : found->second);
  };
  if (const auto config = variable("XDG_CONFIG_HOME"); !config.empty())
    return Profiles(fs::absolute(config / "lockstep/profiles"));
  if (const auto home = variable("HOME"); !home.empty())
    return Profiles(fs::absolute(home / ".config/lockstep/profiles"));
  return Error{Code::invalid, "neither XDG_CONFIG_HOME nor HOME is set, so there are no profiles"};
}

Result<fs::path> Profiles::file_of(const std::string& name) const {
  if (is_name(name)) return folder_ / (name + std::string(kSuffix));
  return Error{Code::invalid,
               format("'{}' is no name of a profile: write up to {} letters, digits, '-', '_' or "
                      "'.', and no '.' first",
                      name, kNameMax)};
}

Result<std::vector<std::string>> Profiles::names() const {
  std::vector<std::string> names;
  auto files = list_folder(folder_);
  if (!files && files.error().code == Code::not_found) return names;
  for (const fs::path& file : TRY(std::move(files)))
    if (file.extension() == kSuffix && is_name(file.stem().string()))
      names.push_back(file.stem().string());
  return names;
}

Result<Profile> Profiles::read(const std::string& name) const {
  const fs::path path = TRY(file_of(name));
  const auto content = read_file(path, kFileMax);
  if (!content && content.error().code == Code::not_found) return no_profile(name);
  TRY(check_mode(path));
  const auto read = [&]() -> Result<Profile> {
    return from_json<Profile>(TRY(parse_json(TRY(content))), UnknownFields::ignore);
  };
  auto profile = read();
  if (profile) return profile;
  return Error{Code::corrupt,
               format("{} is damaged ({}); log in again", path.string(), profile.error().message)};
}

Result<void> Profiles::write(const std::string& name, const Profile& profile) const {
  const fs::path path = TRY(file_of(name));
  TRY(make_folders(folder_));
  return write_file(path, dump_json(without_nulls(to_json(profile))) + "\n", 0600);
}

Result<void> Profiles::remove(const std::string& name) const {
  const fs::path path = TRY(file_of(name));
  if (::unlink(path.c_str()) == 0) return {};
  return errno == ENOENT ? no_profile(name) : os_error("removing " + path.string(), errno);
}

}  // namespace lockstep::client
