# Checks the machine, and installs the Debian packages of tools/apt-packages.txt; with
# needs_tests=true also those of tools/apt-packages-tests.txt, with needs_packaging=true those of
# tools/apt-packages-packaging.txt.

needs_tests=false
needs_packaging=false

check_machine() {
  step_number=$((step_number + 1))
  check_distribution
  [[ $(uname -m) == x86_64 ]] ||
    die "this machine is $(uname -m); Lockstep is built for x86_64" "use an x86_64 machine"
  check_disk
  printf '[%d/%d] Checking this machine ... fine\n' "$step_number" "$steps_planned"
}

check_distribution() {
  [[ ${LOCKSTEP_ANY_DISTRIBUTION:-} != 1 ]] || return 0
  local release
  release=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || true
  [[ $release == "debian 12" ]] || die "this is ${release:-an unknown system}, not Debian 12" \
    "use Debian 12, or install the likes of tools/apt-packages.txt and set LOCKSTEP_ANY_DISTRIBUTION=1"
}

# The venv and the build need 5 GiB; once they are there, space for changes is enough.
check_disk() {
  local needed=6 free
  [[ ! -e build/build.ninja ]] || needed=1
  free=$(($(df --output=avail --block-size=1M . | tail --lines=1) / 1024))
  [[ $free -ge $needed ]] ||
    die "$free GiB are free where $PWD lies; the build needs $needed GiB" "make room, then run ./dev again"
}

packages_listed() {
  local lists=(tools/apt-packages.txt)
  ! $needs_tests || lists+=(tools/apt-packages-tests.txt)
  ! $needs_packaging || lists+=(tools/apt-packages-packaging.txt)
  sed 's/#.*//' "${lists[@]}" | tr --squeeze-repeats ' \n' '\n'
}

# dpkg-query prints a line for each package that it knows; what it does not know is missing too.
packages_missing() {
  local installed
  installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' \
    $(packages_listed) 2>/dev/null | sed --quiet 's/^installed //p') || true
  comm -23 <(packages_listed | grep . | sort --unique) <(sort --unique <<<"$installed")
}

install_packages() {
  if [[ ${LOCKSTEP_ANY_DISTRIBUTION:-} == 1 ]] && ! command -v apt-get >/dev/null; then
    already "Debian packages" "left to you"
    return
  fi
  local missing
  missing=$(packages_missing)
  if [[ -z $missing ]]; then
    already "Debian packages"
    return
  fi
  command -v apt-get >/dev/null || die "apt-get is not on the PATH, and these packages are missing:" "${missing//$'\n'/ }"
  may_be_root || die "installing packages needs root, and sudo without a password is not set up here" \
    "run this, then ./dev again:  sudo apt-get install ${missing//$'\n'/ }"
  step packages "Installing Debian packages ($(wc --words <<<"$missing"))" apt_install $missing
}

may_be_root() { [[ $EUID -eq 0 ]] || sudo --non-interactive true 2>/dev/null; }

as_root() {
  if [[ $EUID -eq 0 ]]; then env "$@"; else sudo --non-interactive env "$@"; fi
}

# A failed update of one foreign source must not stop the set-up: the installation shows errors.
apt_install() {
  local quiet=(DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=300
    --option Acquire::Retries=2 --option Acquire::http::Timeout=60)
  [[ " $* " != *" openssh-server "* ]] || keep_sshd_off
  as_root "${quiet[@]}" update || echo "apt-get update failed; trying with the lists at hand"
  as_root "${quiet[@]}" install --yes --no-install-recommends "$@"
}

# Tests need the program sshd. Where it is installed for them alone, no service may listen: Debian's
# service does not start while this file exists.
keep_sshd_off() {
  [[ ! -e /usr/sbin/sshd ]] || return 0
  as_root mkdir --parents /etc/ssh && as_root touch /etc/ssh/sshd_not_to_be_run
}
