# web/dist, the web page that the program contains: built by Node from web/, with the packages that
# web/package-lock.json pins. Node itself is a Python package of tools/requirements.txt. Where npm's
# registry cannot be reached the program is built without the page.

page_stamp=build/.page-made-from
page_packages_stamp=build/.page-packages-made-from

build_page() {
  local made_from
  made_from=$(page_sources)
  if [[ -f web/dist/index.html && -f $page_stamp && $(<"$page_stamp") == "$made_from" ]]; then
    already "Web page"
    return
  fi
  step page "Building the web page" make_page "$made_from"
  [[ -f $page_stamp ]] ||
    echo "npm could not install its packages (build/logs/page.log): the daemon has no web page"
}

# Digests of all that the page is made from, without what its build makes (web/.gitignore).
page_sources() {
  $venv/bin/node --version
  find web docs/api/openapi.json -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' \
    -not -name schema.ts -print0 | sort --zero-terminated | xargs --null sha256sum
}

# A registry that cannot be reached is no failure, but an error in the page's sources is.
make_page() {
  rm -rf web/dist $page_stamp
  if ! page_packages; then
    is_registry_unreachable build/logs/page.log
    return
  fi
  page_npm run build && echo "$1" >$page_stamp
}

page_packages() {
  local made_from
  made_from="$($venv/bin/node --version) $(sha256sum web/package-lock.json)"
  if [[ -d web/node_modules && -f $page_packages_stamp &&
    $(<"$page_packages_stamp") == "$made_from" ]]; then return; fi
  page_npm ci --ignore-scripts --no-audit --no-fund --fetch-retries 2 \
    --fetch-retry-mintimeout 1000 --fetch-retry-maxtimeout 5000 --fetch-timeout 60000 &&
    echo "$made_from" >$page_packages_stamp
}

# npm names the error in its log. Any other code, such as that of a wrong digest, fails the build.
is_registry_unreachable() {
  local network='ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH'
  network+='|ECONNECTIONTIMEOUT|ERESPONSETIMEOUT|EIDLETIMEOUT|ETRANSFERTIMEOUT'
  grep --quiet --extended-regexp "^npm (error|ERR!) code ($network|E5[0-9]{2})\$" "$1"
}

require_page() {
  [[ -f web/dist/index.html ]] ||
    die "a package needs the web page, which is not built" "see build/logs/page.log"
}

page_npm() { PATH=$PWD/$venv/bin:$PATH npm --prefix web "$@"; }
